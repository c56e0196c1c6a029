//! The entries on typed tracepoints: one per tracepoint. The prototypes are those of include/trace/events/sched.h.

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};
use wakelat_common::Class;

use crate::{
    switch,
    task::{Direct, Task},
    wakeup,
};

// TP_PROTO(struct task_struct *p)
#[btf_tracepoint(function = "sched_waking")]
fn sched_waking(ctx: BtfTracePointContext) -> i32 {
    wakeup::waking(Task::<Direct>::new(ctx.arg(0)));
    0
}

// TP_PROTO(struct task_struct *p)
#[btf_tracepoint(function = "sched_wakeup")]
fn sched_wakeup(ctx: BtfTracePointContext) -> i32 {
    wakeup::wakeup(&ctx, Task::<Direct>::new(ctx.arg(0)), Class::Wakeup);
    0
}

// TP_PROTO(struct task_struct *p)
#[btf_tracepoint(function = "sched_wakeup_new")]
fn sched_wakeup_new(ctx: BtfTracePointContext) -> i32 {
    wakeup::wakeup(&ctx, Task::<Direct>::new(ctx.arg(0)), Class::New);
    0
}

// TP_PROTO(bool preempt, struct task_struct *prev, struct task_struct *next[, unsigned int prev_state])
// The last one came in 5.18 and is never read: it is stale where a signal is pending.
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    switch::switch(&ctx, preempt, Task::<Direct>::new(ctx.arg(1)), Task::<Direct>::new(ctx.arg(2)));
    0
}
