//! Programs that do nothing, on the tracepoints that wakelat uses: they show what the kernel itself spends
//! on calling a program there.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]

#[cfg(target_arch = "bpf")]
use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};

#[cfg(target_arch = "bpf")]
#[btf_tracepoint(function = "sched_waking")]
fn sched_waking(_: BtfTracePointContext) -> i32 {
    0
}

#[cfg(target_arch = "bpf")]
#[btf_tracepoint(function = "sched_wakeup")]
fn sched_wakeup(_: BtfTracePointContext) -> i32 {
    0
}

#[cfg(target_arch = "bpf")]
#[btf_tracepoint(function = "sched_wakeup_new")]
fn sched_wakeup_new(_: BtfTracePointContext) -> i32 {
    0
}

#[cfg(target_arch = "bpf")]
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(_: BtfTracePointContext) -> i32 {
    0
}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    // Nothing here can panic: the verifier would reject this loop.
    loop {}
}

#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(not(target_arch = "bpf"))]
fn main() {}
