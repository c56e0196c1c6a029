//! Takes kernel and user stacks at `sched_waking` and `sched_wakeup_new` (the waker's) and at
//! `sched_switch` (that of `prev`), and emits their IDs in a [`StackRecord`].
//!
//! Only if stacks are requested, and within a time budget per CPU.

use aya_ebpf::{
    Global,
    bindings::BPF_F_USER_STACK,
    btf_maps::{PerCpuArray, StackTrace},
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::btf_map,
    programs::tracing::StackIdContext,
};
use wakelat_common::{
    Class,
    pending_wait::PrevState,
    stack::{DEPTH, StackBudget, StackRecord, role},
    timeline::kind,
};

use crate::{cpu_state, filter, kernel_structs::TaskFields, maps::wants, ring_buffers, task_sampling};

/// Kernel stacks by ID. Read by user space. The loader makes room if stacks are requested.
#[btf_map]
static KERNEL_STACKS: StackTrace<1, 0, DEPTH> = StackTrace::new();

/// User stacks by ID. In a map of their own, because their number may be unlimited: in code built
/// without frame pointers, any number may be taken for a frame pointer.
#[btf_map]
static USER_STACKS: StackTrace<1, 0, DEPTH> = StackTrace::new();

/// The time that this CPU may still spend on stacks. User space reads its counts. Stacks are taken with
/// interrupts off, so none is taken in the middle of another: the kernel's locks guarantee it, except if
/// a task wakes itself, and then no stack is taken.
#[btf_map]
static STACK_BUDGET: PerCpuArray<StackBudget, 1> = PerCpuArray::new();

/// The requested stacks: bits of [`role`].
#[unsafe(no_mangle)]
static STACK_ROLES: Global<u32> = Global::new(0);

/// Whether stacks of `role` are requested. A constant by the time a program is verified.
#[inline(always)]
fn role_enabled(role: u8) -> bool {
    STACK_ROLES.load() & role as u32 != 0
}

/// Takes the stacks of the current task, which wakes or creates thread `pid`.
#[inline(always)]
pub fn of_waker(ctx: &impl StackIdContext, pid: u32, at_ns: u64) {
    if role_enabled(role::WAKER) && task_sampling::sampled(pid).is_some() {
        emit(ctx, role::WAKER, pid, at_ns);
    }
}

/// Takes the stacks of `task`, thread `pid`, which is about to leave its CPU, if a wait of a requested
/// class may begin now or follow.
#[inline(always)]
pub fn of_prev<T: TaskFields>(ctx: &impl StackIdContext, task: T, pid: u32, prev_state: PrevState, at_ns: u64) {
    if !role_enabled(role::WAKEE) {
        return;
    }
    let class = match prev_state {
        PrevState::Runnable | PrevState::PreemptedSleeping => Class::Preempted,
        PrevState::Sleeping => Class::Wakeup,
        PrevState::Dead => return,
    };
    if wants(class) && task_sampling::sampled(pid).is_some() && filter::wants(task, pid) {
        emit(ctx, role::WAKEE, pid, at_ns);
    }
}

/// Takes the kernel and the user stack of the current task and sends their IDs.
#[inline(always)]
fn emit(ctx: &impl StackIdContext, role: u8, pid: u32, at_ns: u64) {
    let (Some(budget), Some(here)) = (STACK_BUDGET.get_ptr_mut(0), cpu_state::get()) else { return };
    // SAFETY: the pointer is to this CPU's own entry, and interrupts are off: see `STACK_BUDGET`.
    let budget = unsafe { &mut *budget };
    // SAFETY: no arguments, no side effects.
    let began_ns = unsafe { bpf_ktime_get_ns() };
    if !budget.allows(began_ns) {
        return;
    }
    let id = |found: Result<_, i32>| found.map_or_else(|error| error, |id| id as i32);
    let kernel = id(ctx.get_stackid(&KERNEL_STACKS, 0));
    let user = id(ctx.get_stackid(&USER_STACKS, BPF_F_USER_STACK.into()));
    // SAFETY: no arguments, no side effects.
    let (now, cpu, by) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id(), bpf_get_current_pid_tgid()) };
    budget.pay(now.saturating_sub(began_ns), kernel, user);
    let Some((mut slot, lost)) = cpu_state::reserve(here, cpu) else { return };
    let (by_pid, by_tgid) = (by as u32, (by >> 32) as u32);
    slot.write(StackRecord {
        kind: kind::STACK,
        role,
        reserved: 0,
        cpu,
        lost,
        pid,
        at_ns,
        by_pid,
        by_tgid,
        kernel,
        user,
    });
    ring_buffers::submit(slot, cpu, false);
}
