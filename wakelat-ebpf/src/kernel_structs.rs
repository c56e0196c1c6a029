//! Reads kernel structures (`task_struct`, `irqaction`, `work_struct`, the tracers' samples) for all
//! other modules.
//!
//! Every access is a CO-RE relocation: the loader writes the running kernel's own offset into the
//! instruction.

mod read;
mod runqueue;
mod tracer_samples;

use core::{marker::PhantomData, ptr};

use aya_ebpf::helpers::{bpf_get_current_task, bpf_probe_read_kernel_str_bytes};
use wakelat_common::{
    pending_wait::PrevState,
    queue_clock::SchedInfo,
    sample::{COMM_LEN, KernelCounts},
    wait_context::Clocks,
};

pub use self::{
    read::{Direct, DirectQueueOnce, Probe, Read},
    tracer_samples::{KernelOsnoiseSample, KernelTimerlatSample},
};
use crate::{
    accessors::{
        cgroup, cgroup_subsys_state, css_set, irqaction, kernfs_node, sched_info, task_struct, task_struct___pre_5_14,
        task_struct___pre_5_16, thread_info, work_struct,
    },
    maps::BLOCKED_AS_PREEMPTED,
};

/// Number of cgroup levels that a filter looks up, starting with the task's own; container runtimes nest
/// four to eight.
const MAX_CGROUP_DEPTH: usize = 32;

/// What the programs read of a task, whatever the attach type.
pub trait TaskFields: Copy {
    /// Distinguishes this task from every other.
    fn identity(self) -> u64;

    /// Thread ID; 0 for the idle task of every CPU.
    fn pid(self) -> u32;

    /// Process ID; 0 if it is not known.
    fn tgid(self) -> u32;

    /// Whether the task belongs to process `tgid`, which has only one thread.
    fn is_in_process(self, tgid: u32) -> bool;

    /// Kernel priority.
    fn prio(self) -> i32;

    /// `SCHED_*`, or [`wakelat_common::classic_fields::POLICY_UNKNOWN`].
    fn policy(self) -> u32;

    /// Whether the task is on a CPU now.
    fn on_cpu(self) -> bool;

    /// Name.
    fn comm(self) -> [u8; COMM_LEN];

    /// The CPU whose run queue the task is on, or was on last.
    fn cpu(self) -> u32;

    /// What becomes of the task at a `sched_switch` away from it.
    fn prev_state(self, preempt: bool) -> PrevState;

    /// A [`KernelCounts`] as a number, of the wait that this `sched_switch` ends. `preempted_sleeping` is 1 if the task was
    /// preempted in a sleeping state, or may have been, and 0 otherwise.
    fn kernel_counts(self, preempted_sleeping: u8) -> u8;

    /// ID of its cgroup in the v2 hierarchy: the inode number of the cgroup's directory; 0 if it is not
    /// known.
    fn cgroup_id(self) -> u64;

    /// The clocks of its run queue when a wait begins.
    fn clocks(self) -> Clocks;

    /// The clocks of its run queue during a wait; the throttling clock is read only if `throttling`.
    fn clocks_of_wait(self, throttling: bool) -> Clocks;

    /// Whether `wanted` holds for its cgroup or an ancestor.
    fn any_cgroup(self, wanted: impl Fn(u64) -> bool) -> bool;
}

/// What the programs read of a task whose waits the run queue's clock measures.
pub trait QueuedTask: TaskFields {
    /// How a run queue is read.
    type Queue: RunQueueFields;

    /// The run queue of the CPU that the task is on.
    fn run_queue(self) -> Self::Queue;

    /// The address of its kernel stack.
    fn stack(self) -> u64;

    /// The task's finished waits.
    fn sched_info(self) -> SchedInfo;

    /// When the task was put on the queue, by the queue's clock: ns; 0 if it is on none.
    fn last_queued_ns(self) -> u64;

    /// Its name, as two words.
    fn name_words(self) -> [u64; 2];

    /// Whether it is a kernel thread.
    fn is_kernel_thread(self) -> bool;
}

/// What the programs read of a CPU's run queue.
pub trait RunQueueFields: Copy {
    /// Its clock, which `__schedule()` (kernel/sched/core.c) reads before each switch: ns.
    fn clock_ns(self) -> u64;

    /// The number of context switches on this CPU, this one included.
    fn nr_switches(self) -> u64;

    /// Time that the hypervisor had the CPU, in total: ns; 0 if the kernel does not count it.
    fn stolen_ns(self) -> u64;

    /// Time in interrupts and softirqs, in total: ns; 0 if the kernel does not count it
    /// (`CONFIG_IRQ_TIME_ACCOUNTING`).
    fn irq_ns(self) -> u64;
}

/// A task as a typed or raw tracepoint passes it.
pub struct Task<R: Read> {
    raw: *const task_struct,
    queue: R::KeptQueue,
}

impl<R: Read> Clone for Task<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Read> Copy for Task<R> {}

impl<R: Read> Task<R> {
    #[inline(always)]
    pub fn new(raw: *const u8) -> Self {
        Self { raw: raw.cast(), queue: R::keep_queue(raw.cast()) }
    }

    /// `TASK_*`; 0 is running or runnable.
    #[inline(always)]
    fn state(self) -> u64 {
        // Renamed in 5.14, from a long to an unsigned int.
        if task_struct::__state_exists() {
            R::read(task_struct::__state(self.raw)).into()
        } else {
            R::read(task_struct___pre_5_14::state(self.raw.cast())) as u64
        }
    }

    #[inline(always)]
    fn cgroup(self) -> *const cgroup {
        R::read(css_set::dfl_cgrp(R::read(task_struct::cgroups(self.raw))))
    }

    #[inline(always)]
    fn id_of(group: *const cgroup) -> u64 {
        R::read(kernfs_node::id(R::read(cgroup::kn(group))))
    }

    /// Its name as two words: to read it as bytes would take sixteen loads.
    #[inline(always)]
    pub fn comm_words(self) -> [u64; 2] {
        R::read(task_struct::comm(self.raw).cast())
    }

    /// Whether real-time tasks have used up their time on its CPU.
    #[inline(always)]
    pub fn rt_throttled(self) -> bool {
        runqueue::rt_throttled(self)
    }

    /// Whether it is on a run queue.
    #[inline(always)]
    fn on_rq(self) -> bool {
        let at = task_struct::on_rq(self.raw);
        // An int became a byte in 7.2.
        if task_struct::on_rq_size() == 1 { R::read(at) != 0 } else { R::read(at.cast::<u32>()) != 0 }
    }

    /// The kernel's count of context switches on its CPU; 0 if it cannot be read.
    #[inline(always)]
    pub fn nr_switches(self) -> u64 {
        runqueue::nr_switches(self)
    }

    /// When the task was switched in, by the kernel's clock, given that the time is `now`: ns of
    /// CLOCK_MONOTONIC; 0 if the kernel does not record it.
    #[inline(always)]
    pub fn switched_in_ns(self, now: u64) -> u64 {
        runqueue::switched_in_ns(self, now)
    }
}

impl<R: Read> TaskFields for Task<R> {
    /// Its address. Unlike its TID, no other task gets it before this one is switched out for the last
    /// time, which is when its entry in the task table is removed.
    #[inline(always)]
    fn identity(self) -> u64 {
        self.raw as u64
    }

    #[inline(always)]
    fn pid(self) -> u32 {
        R::read(task_struct::pid(self.raw)) as u32
    }

    #[inline(always)]
    fn tgid(self) -> u32 {
        R::read(task_struct::tgid(self.raw)) as u32
    }

    #[inline(always)]
    fn is_in_process(self, tgid: u32) -> bool {
        self.tgid() == tgid
    }

    #[inline(always)]
    fn prio(self) -> i32 {
        R::read(task_struct::prio(self.raw))
    }

    #[inline(always)]
    fn policy(self) -> u32 {
        R::read(task_struct::policy(self.raw))
    }

    /// Exact at a wakeup: the tracepoint fires under the lock of the task's run queue, or in the task
    /// itself (kernel/sched/core.c, `try_to_wake_up`).
    #[inline(always)]
    fn on_cpu(self) -> bool {
        let at = task_struct::on_cpu(self.raw);
        // An int became a byte in 7.2.
        if task_struct::on_cpu_size() == 1 { R::read(at) != 0 } else { R::read(at.cast::<u32>()) != 0 }
    }

    #[inline(always)]
    fn comm(self) -> [u8; COMM_LEN] {
        name_of(self.comm_words())
    }

    #[inline(always)]
    fn cpu(self) -> u32 {
        // Moved into thread_info in 5.16.
        if task_struct___pre_5_16::cpu_exists() {
            R::read(task_struct___pre_5_16::cpu(self.raw.cast()))
        } else {
            R::read(thread_info::cpu(task_struct::thread_info(self.raw)))
        }
    }

    /// Runs under the lock of the run queue, after the kernel has dequeued a task that blocks
    /// (`__schedule()`, kernel/sched/core.c).
    #[inline(always)]
    fn prev_state(self, preempt: bool) -> PrevState {
        PrevState::of(preempt && (BLOCKED_AS_PREEMPTED.load() == 0 || self.on_rq()), self.state())
    }

    /// The kernel counts a wait after the tracepoint, in the same switch (`sched_info_arrive()`, kernel/sched/stats.h,
    /// 5.10 to 7.2).
    #[inline(always)]
    fn kernel_counts(self, preempted_sleeping: u8) -> u8 {
        // Before 5.14, in which the state was renamed, the kernel also counts waits without a start.
        let counts = if preempted_sleeping == 0 || !task_struct::__state_exists() {
            KernelCounts::Yes
        } else if !sched_info::last_queued_exists() {
            KernelCounts::Unknown
        } else if R::read(sched_info::last_queued(task_struct::sched_info(self.raw))) == 0 {
            KernelCounts::No
        } else {
            KernelCounts::Yes
        };
        counts as u8
    }

    #[inline(always)]
    fn cgroup_id(self) -> u64 {
        Self::id_of(self.cgroup())
    }

    #[inline(always)]
    fn clocks(self) -> Clocks {
        runqueue::at_start(self)
    }

    #[inline(always)]
    fn clocks_of_wait(self, throttling: bool) -> Clocks {
        runqueue::during_wait(self, throttling)
    }

    #[inline(always)]
    fn any_cgroup(self, wanted: impl Fn(u64) -> bool) -> bool {
        let mut group = self.cgroup();
        for _ in 0..MAX_CGROUP_DEPTH {
            if wanted(Self::id_of(group)) {
                return true;
            }
            let parent = R::read(cgroup_subsys_state::parent(cgroup::self_(group)));
            if ptr::eq(parent, ptr::null()) {
                return false;
            }
            group = R::read(cgroup_subsys_state::cgroup(parent));
        }
        false
    }
}

/// The handler of a device's interrupt (include/linux/interrupt.h).
pub struct IrqAction<R> {
    raw: *const irqaction,
    how: PhantomData<R>,
}

impl<R: Read> IrqAction<R> {
    #[inline(always)]
    pub fn new(raw: *const u8) -> Self {
        Self { raw: raw.cast(), how: PhantomData }
    }

    /// The device's name, cut to the length of a task's name; empty if it cannot be read.
    #[inline(always)]
    pub fn name(&self) -> [u8; COMM_LEN] {
        let mut name = [0; COMM_LEN];
        // SAFETY: the helper checks the address.
        _ = unsafe { bpf_probe_read_kernel_str_bytes(R::read(irqaction::name(self.raw)).cast(), &mut name) };
        name
    }
}

/// A work item of a workqueue (include/linux/workqueue.h, workqueue_types.h).
pub struct WorkStruct<R> {
    raw: *const work_struct,
    how: PhantomData<R>,
}

impl<R: Read> WorkStruct<R> {
    #[inline(always)]
    pub fn new(raw: *const u8) -> Self {
        Self { raw: raw.cast(), how: PhantomData }
    }

    /// The address of its function.
    #[inline(always)]
    pub fn function(&self) -> u64 {
        R::read(work_struct::func(self.raw)) as u64
    }
}

/// Whether the current task, which is about to leave its CPU, stays on a run queue.
#[inline(always)]
pub fn current_stays_runnable() -> bool {
    // SAFETY: no arguments, no side effects.
    Task::<Probe>::new(unsafe { bpf_get_current_task() } as *const u8).on_rq()
}

/// Whether the current thread is a workqueue worker, and not a thread that was interrupted by a softirq
/// with work items.
#[inline(always)]
pub fn is_worker() -> bool {
    /// `PF_WQ_WORKER` (include/linux/sched.h), the same from 5.10 to 7.2.
    const WORKER: u32 = 0x20;
    // SAFETY: no arguments; the current task exists.
    let current = unsafe { bpf_get_current_task() } as *const task_struct;
    Probe::read(task_struct::flags(current)) & WORKER != 0
}

/// Converts a name that was read as two words.
#[inline(always)]
pub fn name_of([low, high]: [u64; 2]) -> [u8; COMM_LEN] {
    let mut comm = [0; COMM_LEN];
    comm[..8].copy_from_slice(&low.to_ne_bytes());
    comm[8..].copy_from_slice(&high.to_ne_bytes());
    comm
}
