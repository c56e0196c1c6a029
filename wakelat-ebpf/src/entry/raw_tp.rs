//! Entry points on raw tracepoints: one per tracepoint. The prototypes are those of
//! include/trace/events/sched.h.
//!
//! None of them emits timeline records: with helper calls in place of loads, the verifiers of 5.10 and
//! 6.1 give up on the body of a switch after a million instructions, and that of 6.12 finds its stack
//! too large.

use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};
use wakelat_common::{Class, program_runs::ProgramKind};

use crate::{
    kernel_structs::{Probe, Task},
    process_tree, program_run_timer, switch_queue_clock, switch_waits,
    wait_settings::{LoadedSettings, OneHistogram},
    wakeup,
};

// TP_PROTO(struct task_struct *p)
#[raw_tracepoint(tracepoint = "sched_waking")]
fn raw_sched_waking(ctx: RawTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || wakeup::waking(&ctx, Task::<Probe>::new(ctx.arg(0))));
    0
}

// TP_PROTO(struct task_struct *p)
#[raw_tracepoint(tracepoint = "sched_wakeup")]
fn raw_sched_wakeup(ctx: RawTracePointContext) -> i32 {
    program_run_timer::run_with_words(ProgramKind::Other, |words| {
        wakeup::wakeup(&ctx, words, Task::<Probe>::new(ctx.arg(0)), Class::Wakeup)
    });
    0
}

// TP_PROTO(struct task_struct *p)
#[raw_tracepoint(tracepoint = "sched_wakeup_new")]
fn raw_sched_wakeup_new(ctx: RawTracePointContext) -> i32 {
    program_run_timer::run_with_words(ProgramKind::Other, |words| {
        wakeup::wakeup(&ctx, words, Task::<Probe>::new(ctx.arg(0)), Class::New)
    });
    0
}

// TP_PROTO(bool preempt, struct task_struct *prev, struct task_struct *next[, unsigned int prev_state])
// The last argument came in 5.18 and is never read: it is stale if a signal is pending.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn raw_sched_switch(ctx: RawTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    program_run_timer::run_with_words(ProgramKind::Switch, |words| {
        switch_waits::switch(words, preempt, Task::<Probe>::new(ctx.arg(1)), Task::<Probe>::new(ctx.arg(2)))
    });
    0
}

#[raw_tracepoint(tracepoint = "sched_switch")]
fn raw_queue_switch(ctx: RawTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    program_run_timer::run_with_words(ProgramKind::Switch, |words| {
        let (prev, next) = (Task::<Probe>::new(ctx.arg(1)), Task::<Probe>::new(ctx.arg(2)));
        switch_queue_clock::switch::<LoadedSettings, _>(words, preempt, prev, next)
    });
    0
}

#[raw_tracepoint(tracepoint = "sched_switch")]
fn raw_queue_histogram(ctx: RawTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    program_run_timer::run_with_words(ProgramKind::Switch, |words| {
        let (prev, next) = (Task::<Probe>::new(ctx.arg(1)), Task::<Probe>::new(ctx.arg(2)));
        switch_queue_clock::switch::<OneHistogram, _>(words, preempt, prev, next)
    });
    0
}

// TP_PROTO(struct task_struct *parent, struct task_struct *child)
#[raw_tracepoint(tracepoint = "sched_process_fork")]
fn raw_tree_fork(ctx: RawTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || {
        process_tree::forked(Task::<Probe>::new(ctx.arg(0)), Task::<Probe>::new(ctx.arg(1)))
    });
    0
}

// TP_PROTO(struct task_struct *p)
#[raw_tracepoint(tracepoint = "sched_process_free")]
fn raw_tree_free(ctx: RawTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || process_tree::freed(Task::<Probe>::new(ctx.arg(0))));
    0
}
