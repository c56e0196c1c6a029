//! Entry points on typed (BTF) tracepoints: one per tracepoint. The prototypes are those of
//! include/trace/events/sched.h unless noted otherwise.

use aya_ebpf::{macros::btf_tracepoint, programs::BtfTracePointContext};
use wakelat_common::{
    Class,
    program_runs::ProgramKind,
    timeline::{source, vector},
};

use crate::{
    cpu_idle, fork_exec, interrupt,
    kernel_structs::{Direct, DirectQueueOnce, IrqAction, Task, TaskFields as _, WorkStruct},
    migration, process_tree, program_run_timer, switch_events, switch_queue_clock, switch_queue_events, switch_waits,
    wait_causes,
    wait_settings::{LoadedSettings, OneHistogram},
    wakeup, work_item,
};

// TP_PROTO(struct task_struct *p)
#[btf_tracepoint(function = "sched_waking")]
fn sched_waking(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || wakeup::waking(&ctx, Task::<Direct>::new(ctx.arg(0))));
    0
}

// TP_PROTO(struct task_struct *p)
#[btf_tracepoint(function = "sched_wakeup")]
fn sched_wakeup(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run_with_words(ProgramKind::Other, |words| {
        wakeup::wakeup(&ctx, words, Task::<Direct>::new(ctx.arg(0)), Class::Wakeup)
    });
    0
}

// TP_PROTO(struct task_struct *p)
#[btf_tracepoint(function = "sched_wakeup_new")]
fn sched_wakeup_new(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run_with_words(ProgramKind::Other, |words| {
        wakeup::wakeup(&ctx, words, Task::<Direct>::new(ctx.arg(0)), Class::New)
    });
    0
}

// TP_PROTO(bool preempt, struct task_struct *prev, struct task_struct *next[, unsigned int prev_state])
// The last argument came in 5.18 and is never read: it is stale if a signal is pending.
#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    program_run_timer::run_with_words(ProgramKind::Switch, |words| {
        switch_waits::switch(words, preempt, Task::<Direct>::new(ctx.arg(1)), Task::<Direct>::new(ctx.arg(2)))
    });
    0
}

// Attached instead of the program above for waits by the run queue's clock.
#[btf_tracepoint(function = "sched_switch")]
fn queue_switch(ctx: BtfTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    program_run_timer::run_with_words(ProgramKind::Switch, |words| {
        let (prev, next) = (Task::<Direct>::new(ctx.arg(1)), Task::<Direct>::new(ctx.arg(2)));
        switch_queue_clock::switch::<LoadedSettings, _>(words, preempt, prev, next)
    });
    0
}

// Attached instead if the waits of each class are counted in one histogram.
#[btf_tracepoint(function = "sched_switch")]
fn queue_histogram(ctx: BtfTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    program_run_timer::run_with_words(ProgramKind::Switch, |words| {
        let (prev, next) = (Task::<Direct>::new(ctx.arg(1)), Task::<Direct>::new(ctx.arg(2)));
        switch_queue_clock::switch::<OneHistogram, _>(words, preempt, prev, next)
    });
    0
}

// Attached instead if the causes of these waits are counted, too. There is none for raw tracepoints: with helper
// calls in place of loads, the verifier of 6.1 would give up on its loop.
#[btf_tracepoint(function = "sched_switch")]
#[inline(always)]
fn cause_switch(ctx: BtfTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    program_run_timer::run_with_words(
        ProgramKind::Switch,
        // In one function with the entry point: the compiler would make it one of its own for its size.
        #[inline(always)]
        |words| wait_causes::switch(words, preempt, Task::<Direct>::new(ctx.arg(1)), Task::<Direct>::new(ctx.arg(2))),
    );
    0
}

// Attached instead if every switch is recorded.
#[btf_tracepoint(function = "sched_switch")]
fn switch_record(ctx: BtfTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    program_run_timer::run_switch_without_stack(|_| {
        switch_events::switch(
            &ctx,
            preempt,
            Task::<DirectQueueOnce>::new(ctx.arg(1)),
            Task::<DirectQueueOnce>::new(ctx.arg(2)),
        )
    });
    0
}

// Attached instead if every switch is recorded, with waits by the run queue's clock.
#[btf_tracepoint(function = "sched_switch")]
#[inline(always)]
fn queue_switch_record(ctx: BtfTracePointContext) -> i32 {
    let preempt = ctx.arg::<u64>(0) as u8 != 0;
    program_run_timer::run_switch_without_stack(
        // As above.
        #[inline(always)]
        |words| {
            switch_queue_events::switch(
                &ctx,
                words,
                preempt,
                Task::<DirectQueueOnce>::new(ctx.arg(1)),
                Task::<DirectQueueOnce>::new(ctx.arg(2)),
            )
        },
    );
    0
}

// TP_PROTO(struct task_struct *p, int dest_cpu)
#[btf_tracepoint(function = "sched_migrate_task")]
fn sched_migrate_task(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || {
        migration::migrate(Task::<Direct>::new(ctx.arg(0)), ctx.arg::<u64>(1) as u32)
    });
    0
}

// TP_PROTO(unsigned int state, unsigned int cpu_id), include/trace/events/power.h
#[btf_tracepoint(function = "cpu_idle")]
fn cpu_idle(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || cpu_idle::set_state(ctx.arg::<u64>(0) as u32));
    0
}

// TP_PROTO(int irq, struct irqaction *action), include/trace/events/irq.h
#[btf_tracepoint(function = "irq_handler_entry")]
fn irq_handler_entry(_ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || interrupt::enter(source::IRQ));
    0
}

// TP_PROTO(int irq, struct irqaction *action, int ret)
#[btf_tracepoint(function = "irq_handler_exit")]
fn irq_handler_exit(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || {
        interrupt::exit(source::IRQ, ctx.arg::<u64>(0) as u32, || IrqAction::<Direct>::new(ctx.arg(1)).name())
    });
    0
}

// TP_PROTO(unsigned int vec_nr)
#[btf_tracepoint(function = "softirq_entry")]
fn softirq_entry(_ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || interrupt::enter(source::SOFTIRQ));
    0
}

#[btf_tracepoint(function = "softirq_exit")]
fn softirq_exit(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || {
        interrupt::exit(source::SOFTIRQ, ctx.arg::<u64>(0) as u32, interrupt::nameless)
    });
    0
}

// TP_PROTO(struct task_struct *parent, struct task_struct *child)
#[btf_tracepoint(function = "sched_process_fork")]
fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || {
        fork_exec::emit(Task::<Direct>::new(ctx.arg(0)), Task::<Direct>::new(ctx.arg(1)).pid())
    });
    0
}

// TP_PROTO(struct task_struct *parent, struct task_struct *child)
#[btf_tracepoint(function = "sched_process_fork")]
fn tree_fork(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || {
        process_tree::forked(Task::<Direct>::new(ctx.arg(0)), Task::<Direct>::new(ctx.arg(1)))
    });
    0
}

// TP_PROTO(struct task_struct *p)
#[btf_tracepoint(function = "sched_process_free")]
fn tree_free(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || process_tree::freed(Task::<Direct>::new(ctx.arg(0))));
    0
}

// TP_PROTO(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
#[btf_tracepoint(function = "sched_process_exec")]
fn sched_process_exec(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || fork_exec::emit(Task::<Direct>::new(ctx.arg(0)), 0));
    0
}

// TP_PROTO(struct work_struct *work), include/trace/events/workqueue.h
#[btf_tracepoint(function = "workqueue_execute_start")]
fn workqueue_execute_start(ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || work_item::emit(WorkStruct::<Direct>::new(ctx.arg(0)).function()));
    0
}

// TP_PROTO(struct work_struct *work, work_func_t function). The `work_struct` may be gone by now, and
// the verifier does not let programs read the function.
#[btf_tracepoint(function = "workqueue_execute_end")]
fn workqueue_execute_end(_ctx: BtfTracePointContext) -> i32 {
    program_run_timer::run(ProgramKind::Other, || work_item::emit(work_item::NONE));
    0
}

/// Entry points for the CPU's own interrupts: TP_PROTO(int vector),
/// arch/x86/include/asm/trace/irq_vectors.h.
macro_rules! vectors {
    ($($number:ident: $entry:ident $entry_name:tt $exit:ident $exit_name:tt;)*) => {$(
        #[btf_tracepoint(function = $entry_name)]
        fn $entry(_ctx: BtfTracePointContext) -> i32 {
            program_run_timer::run(ProgramKind::Other, || interrupt::enter(source::VECTOR));
            0
        }

        #[btf_tracepoint(function = $exit_name)]
        fn $exit(_ctx: BtfTracePointContext) -> i32 {
            program_run_timer::run(ProgramKind::Other, || interrupt::exit(source::VECTOR, vector::$number, interrupt::nameless));
            0
        }
    )*};
}

vectors! {
    LOCAL_TIMER: local_timer_entry "local_timer_entry" local_timer_exit "local_timer_exit";
    RESCHEDULE: reschedule_entry "reschedule_entry" reschedule_exit "reschedule_exit";
    CALL_FUNCTION: call_function_entry "call_function_entry" call_function_exit "call_function_exit";
    CALL_FUNCTION_SINGLE: call_function_single_entry "call_function_single_entry"
        call_function_single_exit "call_function_single_exit";
    IRQ_WORK: irq_work_entry "irq_work_entry" irq_work_exit "irq_work_exit";
}
