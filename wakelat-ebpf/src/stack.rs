//! Where a task is in its code as it wakes another, or leaves its CPU: told where stacks are asked for, and not oftener than
//! the budget allows.

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
    stack::{DEPTH, StackBudget, StackRecord, role},
    start::PrevState,
    timeline::kind,
};

use crate::{filter, maps::wants, sample, share, task::TaskFields, timeline};

/// Stacks of the kernel by their number. Read by user space. The loader gives it room where any are asked for.
#[btf_map]
static KERNEL_STACKS: StackTrace<1, 0, DEPTH> = StackTrace::new();

/// The same of the tasks' own code. Apart, as there may be no end of them: where code is built without frame pointers, what is
/// taken for one may be any number.
#[btf_map]
static USER_STACKS: StackTrace<1, 0, DEPTH> = StackTrace::new();

/// What this CPU may spend on stacks. Its counts are read by user space. Stacks are taken with interrupts off, so that none
/// comes between two others: by the kernel's locks, except where a task wakes itself, of which no stack is taken.
#[btf_map]
static STACK_BUDGET: PerCpuArray<StackBudget, 1> = PerCpuArray::new();

/// Whose stacks are asked for: bits of [`role`].
#[unsafe(no_mangle)]
static STACK_ROLES: Global<u32> = Global::new(0);

/// Whether stacks of this role are asked for: a constant by the time a program is verified.
#[inline(always)]
fn role_enabled(role: u8) -> bool {
    STACK_ROLES.load() & role as u32 != 0
}

/// The task on the CPU wakes or makes thread `pid`.
#[inline(always)]
pub fn of_waker(ctx: &impl StackIdContext, pid: u32, at_ns: u64) {
    if role_enabled(role::WAKER) && share::sampled(pid).is_some() {
        emit(ctx, role::WAKER, pid, at_ns);
    }
}

/// `task`, thread `pid`, is on the CPU and about to leave it. Its stack is told where a wait of a class that is asked for may
/// begin or follow.
#[inline(always)]
pub fn of_prev<T: TaskFields>(ctx: &impl StackIdContext, task: T, pid: u32, leaving: PrevState, at_ns: u64) {
    if !role_enabled(role::WAKEE) {
        return;
    }
    let class = match leaving {
        PrevState::Runnable | PrevState::PreemptedSleeping => Class::Preempted,
        PrevState::Sleeping => Class::Wakeup,
        PrevState::Dead => return,
    };
    if wants(class) && share::sampled(pid).is_some() && filter::wants(task, pid) {
        emit(ctx, role::WAKEE, pid, at_ns);
    }
}

/// Takes both stacks of the task on the CPU, and sends their numbers.
#[inline(always)]
fn emit(ctx: &impl StackIdContext, role: u8, pid: u32, at_ns: u64) {
    let (Some(budget), Some(here)) = (STACK_BUDGET.get_ptr_mut(0), timeline::cpu_state()) else { return };
    // SAFETY: the pointer is to this CPU's own entry, and interrupts are off: see there.
    let budget = unsafe { &mut *budget };
    // SAFETY: no arguments, no side effects.
    let began_ns = unsafe { bpf_ktime_get_ns() };
    if !budget.allows(began_ns) {
        return;
    }
    let number = |found: Result<_, i32>| found.map_or_else(|error| error, |number| number as i32);
    let kernel = number(ctx.get_stackid(&KERNEL_STACKS, 0));
    let user = number(ctx.get_stackid(&USER_STACKS, BPF_F_USER_STACK.into()));
    // SAFETY: as above.
    let (now, cpu, by) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id(), bpf_get_current_pid_tgid()) };
    budget.pay(now.saturating_sub(began_ns), kernel, user);
    let Some((mut slot, lost)) = timeline::reserve(here) else { return };
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
    sample::submit(slot, false);
}
