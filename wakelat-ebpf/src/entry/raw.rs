//! The entries on raw tracepoints: one per tracepoint. The prototypes are those of include/trace/events/sched.h.

use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};
use wakelat_common::{
    Class,
    timeline::{source, vector},
};

use crate::{
    interrupt, switch,
    task::{IrqAction, Probe, Task},
    timeline, turn, wakeup,
};

// TP_PROTO(struct task_struct *p)
#[raw_tracepoint(tracepoint = "sched_waking")]
fn raw_sched_waking(ctx: RawTracePointContext) -> i32 {
    wakeup::waking(Task::<Probe>::new(ctx.arg(0)));
    0
}

// TP_PROTO(struct task_struct *p)
#[raw_tracepoint(tracepoint = "sched_wakeup")]
fn raw_sched_wakeup(ctx: RawTracePointContext) -> i32 {
    wakeup::wakeup(&ctx, Task::<Probe>::new(ctx.arg(0)), Class::Wakeup);
    0
}

// TP_PROTO(struct task_struct *p)
#[raw_tracepoint(tracepoint = "sched_wakeup_new")]
fn raw_sched_wakeup_new(ctx: RawTracePointContext) -> i32 {
    wakeup::wakeup(&ctx, Task::<Probe>::new(ctx.arg(0)), Class::New);
    0
}

// TP_PROTO(bool preempt, struct task_struct *prev, struct task_struct *next[, unsigned int prev_state])
// The last one came in 5.18 and is never read: it is stale where a signal is pending.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn raw_sched_switch(ctx: RawTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    switch::switch(&ctx, preempt, Task::<Probe>::new(ctx.arg(1)), Task::<Probe>::new(ctx.arg(2)));
    0
}

// In place of the one above, where every switch is told.
#[raw_tracepoint(tracepoint = "sched_switch")]
fn raw_turn(ctx: RawTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    turn::turn(&ctx, preempt, Task::<Probe>::new(ctx.arg(1)), Task::<Probe>::new(ctx.arg(2)));
    0
}

// TP_PROTO(struct task_struct *p, int dest_cpu)
#[raw_tracepoint(tracepoint = "sched_migrate_task")]
fn raw_sched_migrate_task(ctx: RawTracePointContext) -> i32 {
    timeline::moved(Task::<Probe>::new(ctx.arg(0)), ctx.arg::<u64>(1) as u32);
    0
}

// TP_PROTO(unsigned int state, unsigned int cpu_id), include/trace/events/power.h
#[raw_tracepoint(tracepoint = "cpu_idle")]
fn raw_cpu_idle(ctx: RawTracePointContext) -> i32 {
    interrupt::idle(ctx.arg::<u64>(0) as u32);
    0
}

// TP_PROTO(int irq, struct irqaction *action), include/trace/events/irq.h
#[raw_tracepoint(tracepoint = "irq_handler_entry")]
fn raw_irq_handler_entry(_ctx: RawTracePointContext) -> i32 {
    interrupt::enter(source::IRQ);
    0
}

// TP_PROTO(int irq, struct irqaction *action, int ret)
#[raw_tracepoint(tracepoint = "irq_handler_exit")]
fn raw_irq_handler_exit(ctx: RawTracePointContext) -> i32 {
    interrupt::exit(source::IRQ, ctx.arg::<u64>(0) as u32, || IrqAction::<Probe>::new(ctx.arg(1)).name());
    0
}

// TP_PROTO(unsigned int vec_nr)
#[raw_tracepoint(tracepoint = "softirq_entry")]
fn raw_softirq_entry(_ctx: RawTracePointContext) -> i32 {
    interrupt::enter(source::SOFTIRQ);
    0
}

#[raw_tracepoint(tracepoint = "softirq_exit")]
fn raw_softirq_exit(ctx: RawTracePointContext) -> i32 {
    interrupt::exit(source::SOFTIRQ, ctx.arg::<u64>(0) as u32, interrupt::nameless);
    0
}

/// The entries for interrupts of the CPU's own: TP_PROTO(int vector), arch/x86/include/asm/trace/irq_vectors.h.
macro_rules! vectors {
    ($($number:ident: $entry:ident $entry_name:tt $exit:ident $exit_name:tt;)*) => {$(
        #[raw_tracepoint(tracepoint = $entry_name)]
        fn $entry(_ctx: RawTracePointContext) -> i32 {
            interrupt::enter(source::VECTOR);
            0
        }

        #[raw_tracepoint(tracepoint = $exit_name)]
        fn $exit(_ctx: RawTracePointContext) -> i32 {
            interrupt::exit(source::VECTOR, vector::$number, interrupt::nameless);
            0
        }
    )*};
}

vectors! {
    LOCAL_TIMER: raw_local_timer_entry "local_timer_entry" raw_local_timer_exit "local_timer_exit";
    RESCHEDULE: raw_reschedule_entry "reschedule_entry" raw_reschedule_exit "reschedule_exit";
    CALL_FUNCTION: raw_call_function_entry "call_function_entry" raw_call_function_exit "call_function_exit";
    CALL_FUNCTION_SINGLE: raw_call_function_single_entry "call_function_single_entry"
        raw_call_function_single_exit "call_function_single_exit";
    IRQ_WORK: raw_irq_work_entry "irq_work_entry" raw_irq_work_exit "irq_work_exit";
}
