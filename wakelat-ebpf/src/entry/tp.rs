//! Entry points on classic tracepoints, for kernels without BTF: one per tracepoint.

use core::ffi::c_void;

use aya_ebpf::{helpers::bpf_get_smp_processor_id, programs::TracePointContext};
use wakelat_common::{Class, program_runs::ProgramKind};

use crate::{classic_fields::TracepointTask, program_run_timer, switch_waits, wakeup};

/// What a program on a classic tracepoint returns to pass the event on: 0 would hide it from every other
/// user of perf (kernel/trace/bpf_trace.c, `trace_call_bpf`). aya's macro returns 0 whatever the program
/// returns, so these entry points do not use it.
const PASS_ON: u32 = 1;

#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn classic_sched_waking(ctx: *mut c_void) -> u32 {
    let ctx = TracePointContext::new(ctx);
    program_run_timer::run(ProgramKind::Other, || wakeup::waking(&ctx, TracepointTask::woken(&ctx)));
    PASS_ON
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn classic_sched_wakeup(ctx: *mut c_void) -> u32 {
    let ctx = TracePointContext::new(ctx);
    program_run_timer::run_with_words(ProgramKind::Other, |words| {
        wakeup::wakeup(&ctx, words, TracepointTask::woken(&ctx), Class::Wakeup)
    });
    PASS_ON
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn classic_sched_wakeup_new(ctx: *mut c_void) -> u32 {
    let ctx = TracePointContext::new(ctx);
    program_run_timer::run_with_words(ProgramKind::Other, |words| {
        wakeup::wakeup(&ctx, words, TracepointTask::woken(&ctx), Class::New)
    });
    PASS_ON
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn classic_sched_switch(ctx: *mut c_void) -> u32 {
    let ctx = TracePointContext::new(ctx);
    // SAFETY: no arguments, no side effects.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    // The record itself says what becomes of the task that is switched out.
    program_run_timer::run_with_words(ProgramKind::Switch, |words| {
        switch_waits::switch(words, false, TracepointTask::prev(&ctx), TracepointTask::next(&ctx, cpu))
    });
    PASS_ON
}
