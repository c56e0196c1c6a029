//! The BPF programs: a thin entry point per tracepoint and attach type, and one body per event that they
//! share.
//!
//! In each body the guards come first: one that rejects an event counts it and returns. The work per event
//! is O(1).
#![cfg_attr(target_arch = "bpf", no_std, no_main, feature(asm_experimental_arch, stmt_expr_attributes))]

// For the host this is an empty program, which exists only so that clippy and rustfmt see the crate.
#[cfg(target_arch = "bpf")]
mod accessors {
    include!(concat!(env!("OUT_DIR"), "/core.rs"));
}
#[cfg(target_arch = "bpf")]
mod classic_fields;
#[cfg(target_arch = "bpf")]
mod cpu_array;
#[cfg(target_arch = "bpf")]
mod cpu_idle;
#[cfg(target_arch = "bpf")]
mod cpu_state;
#[cfg(target_arch = "bpf")]
mod cpu_words;
#[cfg(target_arch = "bpf")]
mod direct_table;
#[cfg(target_arch = "bpf")]
mod ended_wait;
#[cfg(target_arch = "bpf")]
mod entry;
#[cfg(target_arch = "bpf")]
mod filter;
#[cfg(target_arch = "bpf")]
mod fork_exec;
#[cfg(target_arch = "bpf")]
mod group;
#[cfg(target_arch = "bpf")]
mod histogram;
#[cfg(target_arch = "bpf")]
mod interrupt;
#[cfg(target_arch = "bpf")]
mod interrupt_clock;
#[cfg(target_arch = "bpf")]
mod kernel_structs;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod migration;
#[cfg(target_arch = "bpf")]
mod osnoise_tracers;
#[cfg(target_arch = "bpf")]
mod panic_license;
#[cfg(target_arch = "bpf")]
mod process_tree;
#[cfg(target_arch = "bpf")]
mod program_run_budget;
#[cfg(target_arch = "bpf")]
mod program_run_timer;
#[cfg(target_arch = "bpf")]
mod record_slots;
#[cfg(target_arch = "bpf")]
mod ring_buffers;
#[cfg(target_arch = "bpf")]
mod stack;
#[cfg(target_arch = "bpf")]
mod switch_events;
#[cfg(target_arch = "bpf")]
mod switch_queue_clock;
#[cfg(target_arch = "bpf")]
mod switch_queue_events;
#[cfg(target_arch = "bpf")]
mod switch_waits;
#[cfg(target_arch = "bpf")]
mod task_sampling;
#[cfg(target_arch = "bpf")]
mod task_table;
#[cfg(target_arch = "bpf")]
mod throttle_steal_clocks;
#[cfg(target_arch = "bpf")]
mod throttled_clocks;
#[cfg(target_arch = "bpf")]
mod wait_causes;
#[cfg(target_arch = "bpf")]
mod wait_record;
#[cfg(target_arch = "bpf")]
mod wait_settings;
#[cfg(target_arch = "bpf")]
mod waiting_tasks;
#[cfg(target_arch = "bpf")]
mod wakeup;
#[cfg(target_arch = "bpf")]
mod window;
#[cfg(target_arch = "bpf")]
mod work_item;

#[cfg(not(target_arch = "bpf"))]
fn main() {}
