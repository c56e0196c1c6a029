//! The typed programs of `main.rs` with their starts in task storage: an object of its own, since a kernel that knows no
//! task storage refuses the map, and with it the object, whether a program uses it or not.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

// For the host this is an empty program that only exists so that clippy and rustfmt can see the crate.
#[cfg(target_arch = "bpf")]
mod accessors {
    include!(concat!(env!("OUT_DIR"), "/core.rs"));
}
#[cfg(target_arch = "bpf")]
#[path = "entry/typed.rs"]
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
mod object;
#[cfg(target_arch = "bpf")]
mod sample;
#[cfg(target_arch = "bpf")]
mod share;
#[cfg(target_arch = "bpf")]
mod spawn;
#[cfg(target_arch = "bpf")]
#[path = "starts/storage.rs"]
mod starts;
#[cfg(target_arch = "bpf")]
mod switch;
#[cfg(target_arch = "bpf")]
#[expect(dead_code, reason = "the programs on the tracers' events, which use the rest, are in the other object")]
mod task;
#[cfg(target_arch = "bpf")]
mod timeline;
#[cfg(target_arch = "bpf")]
mod turn;
#[cfg(target_arch = "bpf")]
mod wakeup;
#[cfg(target_arch = "bpf")]
mod work;

#[cfg(not(target_arch = "bpf"))]
fn main() {}
