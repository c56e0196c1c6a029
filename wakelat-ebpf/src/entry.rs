//! The entries: one per tracepoint and attach type. The prototypes are those of include/trace/events/sched.h.

use core::ffi::c_void;

use aya_ebpf::{
    helpers::bpf_get_smp_processor_id,
    macros::{btf_tracepoint, raw_tracepoint},
    programs::{BtfTracePointContext, RawTracePointContext, TracePointContext},
};
use wakelat_common::Class;

use crate::{
    record::Recorded,
    switch,
    task::{Direct, Probe, Task},
    wakeup,
};

/// What a program on a classic tracepoint returns to let the event go on to whoever else counts it: 0 would hide it from
/// every other user of perf (kernel/trace/bpf_trace.c, `trace_call_bpf`). aya's macro returns 0 whatever the program says,
/// so these entries do without it.
const PASS_ON: u32 = 1;

// TP_PROTO(struct task_struct *p)
#[btf_tracepoint(function = "sched_waking")]
fn sched_waking(ctx: BtfTracePointContext) -> i32 {
    wakeup::waking(Task::<Direct>::new(ctx.arg(0)));
    0
}

#[raw_tracepoint(tracepoint = "sched_waking")]
fn raw_sched_waking(ctx: RawTracePointContext) -> i32 {
    wakeup::waking(Task::<Probe>::new(ctx.arg(0)));
    0
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn classic_sched_waking(ctx: *mut c_void) -> u32 {
    let ctx = TracePointContext::new(ctx);
    wakeup::waking(Recorded::woken(&ctx));
    PASS_ON
}

// TP_PROTO(struct task_struct *p)
#[btf_tracepoint(function = "sched_wakeup")]
fn sched_wakeup(ctx: BtfTracePointContext) -> i32 {
    wakeup::wakeup(&ctx, Task::<Direct>::new(ctx.arg(0)), Class::Wakeup);
    0
}

#[raw_tracepoint(tracepoint = "sched_wakeup")]
fn raw_sched_wakeup(ctx: RawTracePointContext) -> i32 {
    wakeup::wakeup(&ctx, Task::<Probe>::new(ctx.arg(0)), Class::Wakeup);
    0
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn classic_sched_wakeup(ctx: *mut c_void) -> u32 {
    let ctx = TracePointContext::new(ctx);
    wakeup::wakeup(&ctx, Recorded::woken(&ctx), Class::Wakeup);
    PASS_ON
}

// TP_PROTO(struct task_struct *p)
#[btf_tracepoint(function = "sched_wakeup_new")]
fn sched_wakeup_new(ctx: BtfTracePointContext) -> i32 {
    wakeup::wakeup(&ctx, Task::<Direct>::new(ctx.arg(0)), Class::New);
    0
}

#[raw_tracepoint(tracepoint = "sched_wakeup_new")]
fn raw_sched_wakeup_new(ctx: RawTracePointContext) -> i32 {
    wakeup::wakeup(&ctx, Task::<Probe>::new(ctx.arg(0)), Class::New);
    0
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn classic_sched_wakeup_new(ctx: *mut c_void) -> u32 {
    let ctx = TracePointContext::new(ctx);
    wakeup::wakeup(&ctx, Recorded::woken(&ctx), Class::New);
    PASS_ON
}

// TP_PROTO(bool preempt, struct task_struct *prev, struct task_struct *next[, unsigned int prev_state])
// The last one came in 5.18 and is never read: it is stale where a signal is pending.
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    switch::switch(&ctx, preempt, Task::<Direct>::new(ctx.arg(1)), Task::<Direct>::new(ctx.arg(2)));
    0
}

#[raw_tracepoint(tracepoint = "sched_switch")]
fn raw_sched_switch(ctx: RawTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    switch::switch(&ctx, preempt, Task::<Probe>::new(ctx.arg(1)), Task::<Probe>::new(ctx.arg(2)));
    0
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "tracepoint")]
fn classic_sched_switch(ctx: *mut c_void) -> u32 {
    let ctx = TracePointContext::new(ctx);
    // SAFETY: no arguments, no side effects.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    // What became of the one that leaves is in the record.
    switch::switch(&ctx, false, Recorded::prev(&ctx), Recorded::next(&ctx, cpu));
    PASS_ON
}
