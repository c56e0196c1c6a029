//! The BPF programs: one thin entry per tracepoint and attach type over one body each.
//!
//! Guards come first, each leaves with what it counted; the work per event is O(1).
#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch))]

// For the host this is an empty program that only exists so that clippy and rustfmt can see the crate.
#[cfg(target_arch = "bpf")]
mod accessors {
    include!(concat!(env!("OUT_DIR"), "/core.rs"));
}
#[cfg(target_arch = "bpf")]
mod budget;
#[cfg(target_arch = "bpf")]
mod entry;
#[cfg(target_arch = "bpf")]
mod filter;
#[cfg(target_arch = "bpf")]
mod histogram;
#[cfg(target_arch = "bpf")]
mod interrupt;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod noise;
#[cfg(target_arch = "bpf")]
mod object;
#[cfg(target_arch = "bpf")]
mod record;
#[cfg(target_arch = "bpf")]
mod sample;
#[cfg(target_arch = "bpf")]
mod share;
#[cfg(target_arch = "bpf")]
mod spawn;
#[cfg(target_arch = "bpf")]
mod stack;
#[cfg(target_arch = "bpf")]
mod starts;
#[cfg(target_arch = "bpf")]
mod switch;
#[cfg(target_arch = "bpf")]
mod task;
#[cfg(target_arch = "bpf")]
mod timeline;
#[cfg(target_arch = "bpf")]
mod turn;
#[cfg(target_arch = "bpf")]
mod wakeup;
#[cfg(target_arch = "bpf")]
mod window;
#[cfg(target_arch = "bpf")]
mod work;

#[cfg(not(target_arch = "bpf"))]
fn main() {}
