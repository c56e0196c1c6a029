//! Reads the clocks of a task's run queue: how long its task group was throttled there, and how long the
//! hypervisor had the CPU.
//!
//! A group's quota (`CONFIG_CFS_BANDWIDTH`) is enforced on the group's queue on each CPU, `struct
//! cfs_rq`, together with all queues below it. Each queue adds up how long it was throttled, for its own
//! quota or that of a group above (`tg_throttle_down()` and `tg_unthrottle_up()`, kernel/sched/fair.c):
//!
//! - from 6.6 on in `throttled_clock_self_time`, by the run queue's clock, for as long as a task was
//!   held up by it;
//! - before, back to 5.10, in `throttled_clock_pelt_time`, by the clock of the load averages. That clock
//!   stops while interrupts are handled or the hypervisor has the CPU, if the kernel accounts for these,
//!   and is slower on a slower CPU.
//!
//! From 6.18 on, the kernel throttles each task when it is about to return to user space
//! (`task_struct.throttled`), so only a task that left its CPU for that reason can be throttled. Before,
//! every task that waits in a throttled queue is.

use core::marker::PhantomData;

use wakelat_common::{
    queue_clock::SchedInfo,
    wait_context::{Clocks, Throttling},
};

use super::{QueuedTask, Read, RunQueueFields, Task, TaskFields as _};
use crate::accessors::{cfs_rq, rq, rt_rq, sched_entity, sched_info, task_struct};

/// The lowest priority number of a task with a nice value (`MAX_RT_PRIO`, include/linux/sched/prio.h).
const FIRST_FAIR_PRIO: i32 = 100;

/// `SCHED_EXT` (include/uapi/linux/sched.h): quotas do not apply to its tasks.
const SCHED_EXT: u32 = 7;

/// Reads the clocks when a wait begins, except those that do not matter to the task. This and all
/// functions below must be called under the lock of the task's run queue: its clock is up to date then.
#[inline(always)]
pub(super) fn at_start<R: Read>(task: Task<R>) -> Clocks {
    let Some(group) = group(task) else {
        // Without task groups there are no quotas.
        return Clocks { throttling: Throttling::Exempt, ..Clocks::UNKNOWN };
    };
    let stolen_ns = stolen_ns::<R>(runqueue::<R>(group));
    if is_exempt(task) {
        return Clocks { throttled_ns: 0, stolen_ns, throttling: Throttling::Exempt };
    }
    match throttled::<R>(group) {
        Some((throttled_ns, is_throttled)) => {
            let throttling = if is_throttled || task_struct::throttled_exists() {
                Throttling::Throttled
            } else {
                Throttling::Possible
            };
            Clocks { throttled_ns, stolen_ns, throttling }
        }
        None => Clocks { stolen_ns, ..Clocks::UNKNOWN },
    }
}

/// Reads the clocks during a wait; the throttling clock only if `throttling`.
#[inline(always)]
pub(super) fn during_wait<R: Read>(task: Task<R>, throttling: bool) -> Clocks {
    let Some(group) = group(task) else { return Clocks::UNKNOWN };
    let throttled_ns = if throttling { throttled::<R>(group).map_or(0, |(throttled_ns, _)| throttled_ns) } else { 0 };
    Clocks { throttled_ns, stolen_ns: stolen_ns::<R>(runqueue::<R>(group)), ..Clocks::UNKNOWN }
}

/// Whether no quota applies to the task.
#[inline(always)]
fn is_exempt<R: Read>(task: Task<R>) -> bool {
    if task_struct::throttled_exists() && R::read(task_struct::throttled(task.raw)) == 0 {
        return true;
    }
    task.prio() < FIRST_FAIR_PRIO || task.policy() == SCHED_EXT
}

/// How long the hypervisor had the CPU of a run queue: ns.
#[inline(always)]
fn stolen_ns<R: Read>(queue: *const rq) -> u64 {
    if rq::prev_steal_time_rq_exists() {
        R::read(rq::prev_steal_time_rq(queue))
    } else if rq::prev_steal_time_exists() {
        R::read(rq::prev_steal_time(queue))
    } else {
        0
    }
}

/// How long a group's queue was throttled in total, in ns, and whether it is now; `None` if the kernel
/// does not record it.
#[inline(always)]
fn throttled<R: Read>(group: *const cfs_rq) -> Option<(u64, bool)> {
    if cfs_rq::throttled_clock_self_time_exists() {
        let since = R::read(cfs_rq::throttled_clock_self(group));
        let now = if since != 0 { R::read(rq::clock(runqueue::<R>(group))) } else { 0 };
        Some((R::read(cfs_rq::throttled_clock_self_time(group)) + now.saturating_sub(since), since != 0))
    } else if cfs_rq::throttled_clock_pelt_time_exists() {
        let is_throttled = R::read(cfs_rq::throttle_count(group)) != 0;
        let ongoing = if is_throttled {
            let queue = runqueue::<R>(group);
            // Same as `rq_clock_pelt()` (kernel/sched/pelt.h).
            let now = R::read(rq::clock_pelt(queue)).wrapping_sub(R::read(rq::lost_idle_time(queue)));
            now.saturating_sub(R::read(cfs_rq::throttled_clock_pelt(group)))
        } else {
            0
        };
        Some((R::read(cfs_rq::throttled_clock_pelt_time(group)) + ongoing, is_throttled))
    } else {
        None
    }
}

/// Whether real-time tasks have used up their time on the CPU of the task's run queue. From 6.12 on,
/// this exists only with `CONFIG_RT_GROUP_SCHED`.
#[inline(always)]
pub(super) fn rt_throttled<R: Read>(task: Task<R>) -> bool {
    rt_rq::rt_throttled_exists()
        && group(task).is_some_and(|group| R::read(rt_rq::rt_throttled(rq::rt(runqueue::<R>(group)))) != 0)
}

/// Number of context switches on the CPU of the task's run queue; 0 if the queue is not known.
#[inline(always)]
pub(super) fn nr_switches<R: Read>(task: Task<R>) -> u64 {
    group(task).map_or(0, |group| R::read(rq::nr_switches(runqueue::<R>(group))))
}

/// When the task was switched in, given that the time is `now`: ns of CLOCK_MONOTONIC; 0 if the kernel
/// does not record it. The kernel uses the run queue's clock (`sched_info_arrive()`,
/// kernel/sched/stats.h) and records the time after the tracepoint.
#[inline(always)]
pub(super) fn switched_in_ns<R: Read>(task: Task<R>, now: u64) -> u64 {
    if !sched_info::last_arrival_exists() {
        return 0;
    }
    let arrival = R::read(sched_info::last_arrival(task_struct::sched_info(task.raw)));
    let clock = group(task).map_or(0, |group| R::read(rq::clock(runqueue::<R>(group))));
    if arrival == 0 || arrival > clock { 0 } else { now.saturating_sub(clock - arrival) }
}

/// A CPU's run queue.
pub struct RunQueue<R> {
    raw: *const rq,
    how: PhantomData<R>,
}

impl<R> Clone for RunQueue<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for RunQueue<R> {}

impl<R: Read> RunQueueFields for RunQueue<R> {
    #[inline(always)]
    fn clock_ns(self) -> u64 {
        R::read(rq::clock(self.raw))
    }

    #[inline(always)]
    fn nr_switches(self) -> u64 {
        R::read(rq::nr_switches(self.raw))
    }

    #[inline(always)]
    fn stolen_ns(self) -> u64 {
        stolen_ns::<R>(self.raw)
    }

    #[inline(always)]
    fn irq_ns(self) -> u64 {
        if rq::prev_irq_time_exists() { R::read(rq::prev_irq_time(self.raw)) } else { 0 }
    }
}

/// The loader uses this only where the kernel has the fields.
impl<R: Read> QueuedTask for Task<R> {
    type Queue = RunQueue<R>;

    #[inline(always)]
    fn run_queue(self) -> RunQueue<R> {
        RunQueue { raw: runqueue::<R>(R::queue(self.raw, self.queue)), how: PhantomData }
    }

    #[inline(always)]
    fn stack(self) -> u64 {
        R::read(task_struct::stack(self.raw)) as u64
    }

    #[inline(always)]
    fn sched_info(self) -> SchedInfo {
        let info = task_struct::sched_info(self.raw);
        SchedInfo { run_delay: R::read(sched_info::run_delay(info)), pcount: R::read(sched_info::pcount(info)) }
    }

    #[inline(always)]
    fn last_queued_ns(self) -> u64 {
        R::read(sched_info::last_queued(task_struct::sched_info(self.raw)))
    }

    #[inline(always)]
    fn name_words(self) -> [u64; 2] {
        self.comm_words()
    }

    #[inline(always)]
    fn is_kernel_thread(self) -> bool {
        /// `PF_KTHREAD` (include/linux/sched.h), the same from 5.10 to 7.2.
        const KTHREAD: u32 = 0x0020_0000;
        R::read(task_struct::flags(self.raw)) & KTHREAD != 0
    }
}

impl<R: Read> Task<R> {
    /// Whether the task is on a run queue, and not only because the kernel delays taking it off
    /// (`sched_entity.sched_delayed`, from 6.12 on).
    #[inline(always)]
    pub fn is_runnable(self) -> bool {
        let is_delayed = sched_entity::sched_delayed_exists()
            && R::read(sched_entity::sched_delayed(task_struct::se(self.raw))) != 0;
        self.on_rq() && !is_delayed
    }
}

/// The queue of the task's group on its CPU; `None` if the kernel has no task groups.
#[inline(always)]
fn group<R: Read>(task: Task<R>) -> Option<*const cfs_rq> {
    sched_entity::cfs_rq_exists().then(|| R::queue(task.raw, task.queue))
}

/// The run queue of the CPU that a group's queue belongs to.
#[inline(always)]
fn runqueue<R: Read>(group: *const cfs_rq) -> *const rq {
    R::read(cfs_rq::rq(group))
}
