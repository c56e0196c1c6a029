//! Reads tasks from the records of the classic tracepoints `sched_waking`, `sched_wakeup`,
//! `sched_wakeup_new` and `sched_switch`, for kernels without BTF.
//!
//! What a record lacks is unknown. The loader takes the field offsets from the running kernel's `format`
//! files.

use aya_ebpf::{
    EbpfContext, Global, btf_maps::Array, helpers::bpf_probe_read_kernel, macros::btf_map, programs::TracePointContext,
};
use wakelat_common::{
    classic_fields::{Offsets, POLICY_UNKNOWN},
    pending_wait::PrevState,
    sample::{COMM_LEN, KernelCounts},
    wait_context::Clocks,
};

use crate::{
    kernel_structs::{self, TaskFields, name_of},
    maps::BLOCKED_AS_PREEMPTED,
};

/// Field offsets in the records of the three wakeup events.
#[unsafe(no_mangle)]
static WAKEUP_OFFSETS: Global<Offsets> = Global::new(Offsets::NONE);

/// Field offsets of the task that is switched out (`prev`) in a `sched_switch` record.
#[unsafe(no_mangle)]
static PREV_OFFSETS: Global<Offsets> = Global::new(Offsets::NONE);

/// Field offsets of the task that is switched in (`next`) in a `sched_switch` record.
#[unsafe(no_mangle)]
static NEXT_OFFSETS: Global<Offsets> = Global::new(Offsets::NONE);

/// Key: a CPU. Value: the TID that it runs. Written at each switch and read at wakeups, because a wakeup
/// record does not say whether its task is running. Unknown until a CPU's first switch. The loader sets
/// the number of entries.
#[btf_map]
static RUNNING: Array<u32, 1> = Array::new();

/// A task as a tracepoint record describes it.
#[derive(Clone, Copy)]
pub struct TracepointTask {
    pid: u32,
    prio: i32,
    /// `target_cpu` of a wakeup record.
    cpu: u32,
    /// `prev_state` of a switch record.
    state: u64,
    comm: *const [u64; 2],
}

impl TracepointTask {
    /// The task of a wakeup event.
    #[inline(always)]
    pub fn woken(ctx: &TracePointContext) -> Self {
        Self::read(ctx, WAKEUP_OFFSETS.load())
    }

    /// The task that is switched out.
    #[inline(always)]
    pub fn prev(ctx: &TracePointContext) -> Self {
        Self::read(ctx, PREV_OFFSETS.load())
    }

    /// The task that is switched in. Stores in [`RUNNING`] that `cpu` now runs it.
    #[inline(always)]
    pub fn next(ctx: &TracePointContext, cpu: u32) -> Self {
        let next = Self::read(ctx, NEXT_OFFSETS.load());
        if let Some(running) = RUNNING.get_ptr_mut(cpu) {
            // SAFETY: only this CPU writes its own entry; a word is written in one access.
            unsafe { *running = next.pid };
        }
        next
    }

    #[inline(always)]
    fn read(ctx: &TracePointContext, offsets: Offsets) -> Self {
        Self {
            pid: field(ctx, offsets.pid),
            prio: field(ctx, offsets.prio),
            cpu: field(ctx, offsets.cpu),
            state: field(ctx, offsets.state),
            comm: ctx.as_ptr().wrapping_byte_add(offsets.comm as usize).cast(),
        }
    }
}

/// Reads the field at `offset`; zero if the record has none.
#[inline(always)]
fn field<F: Copy>(ctx: &TracePointContext, offset: u32) -> F {
    if offset == 0 {
        // SAFETY: the fields are integers, for which zero is a value.
        return unsafe { core::mem::zeroed() };
    }
    // SAFETY: the helper checks the address. The fields are integers, so zero stands in for what it
    // cannot read.
    unsafe {
        bpf_probe_read_kernel(ctx.as_ptr().wrapping_byte_add(offset as usize).cast()).unwrap_or(core::mem::zeroed())
    }
}

/// Bit of `prev_state` that marks a preempted task: the one above those of a sleeping task
/// (`TASK_REPORT_MAX`, include/linux/sched.h; 0x100 from 4.14 to 7.2).
const PREEMPTED: u64 = 0x100;

/// Bits of `prev_state` at a task's last switch: `EXIT_DEAD` or `EXIT_ZOMBIE`.
const EXITED: u64 = 0x30;

impl TaskFields for TracepointTask {
    /// Its TID. Another task may get it as soon as this one is reaped.
    #[inline(always)]
    fn identity(self) -> u64 {
        self.pid.into()
    }

    #[inline(always)]
    fn pid(self) -> u32 {
        self.pid
    }

    #[inline(always)]
    fn tgid(self) -> u32 {
        0
    }

    #[inline(always)]
    fn is_in_process(self, tgid: u32) -> bool {
        self.pid == tgid
    }

    #[inline(always)]
    fn prio(self) -> i32 {
        self.prio
    }

    #[inline(always)]
    fn policy(self) -> u32 {
        POLICY_UNKNOWN
    }

    #[inline(always)]
    fn on_cpu(self) -> bool {
        // SAFETY: a word is read in one access.
        RUNNING.get_ptr(self.cpu).is_some_and(|running| unsafe { *running } == self.pid)
    }

    #[inline(always)]
    fn comm(self) -> [u8; COMM_LEN] {
        // SAFETY: the helper checks the address.
        name_of(unsafe { bpf_probe_read_kernel(self.comm).unwrap_or([0; 2]) })
    }

    #[inline(always)]
    fn cpu(self) -> u32 {
        self.cpu
    }

    /// The record says whether the task was preempted, but for a preempted task not in which state. Any
    /// preempted task may therefore be one that is woken while it waits.
    #[inline(always)]
    fn prev_state(self, _preempt: bool) -> PrevState {
        if self.state & PREEMPTED != 0 {
            // The task that is switched out is current until the switch is complete.
            if BLOCKED_AS_PREEMPTED.load() != 0 && !kernel_structs::current_stays_runnable() {
                return PrevState::Sleeping;
            }
            PrevState::PreemptedSleeping
        } else if self.state == 0 {
            PrevState::Runnable
        } else if self.state & EXITED != 0 {
            PrevState::Dead
        } else {
            PrevState::Sleeping
        }
    }

    /// Has no branch: the verifier would follow both of its ways to the end.
    #[inline(always)]
    fn kernel_counts(self, preempted_sleeping: u8) -> u8 {
        KernelCounts::Unknown as u8 * preempted_sleeping
    }

    #[inline(always)]
    fn cgroup_id(self) -> u64 {
        0
    }

    #[inline(always)]
    fn clocks(self) -> Clocks {
        Clocks::UNKNOWN
    }

    #[inline(always)]
    fn clocks_of_wait(self, _throttling: bool) -> Clocks {
        Clocks::UNKNOWN
    }

    #[inline(always)]
    fn any_cgroup(self, _wanted: impl Fn(u64) -> bool) -> bool {
        false
    }
}
