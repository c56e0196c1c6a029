//! The clocks of a task's run queue: how long its group was out of quota there, and how long the hypervisor had its CPU.
//!
//! A group's quota (`CONFIG_CFS_BANDWIDTH`) is enforced on each CPU's queue of the group, `struct cfs_rq`, with all those
//! below it. Each queue adds up how long it was out of quota, its own or that of a group above
//! (`tg_throttle_down()` and `tg_unthrottle_up()`, kernel/sched/fair.c):
//!
//! - from 6.6 on in `throttled_clock_self_time`, by the run queue's clock, as long as there was a task to be held up;
//! - before, back to 5.10, in `throttled_clock_pelt_time`, by the clock of load averages, which stands still while interrupts
//!   are handled or the hypervisor has the CPU, where the kernel accounts for these, and is slower where the CPU is.
//!
//! From 6.18 on the kernel throttles each task as it is about to go back to user space (`task_struct.throttled`), so that only
//! a task can be out of quota that left its CPU for that. Before, whoever waits in such a queue is.

use wakelat_common::course::{Clocks, Throttling};

use super::{Read, Task, TaskFields as _};
use crate::accessors::{cfs_rq, rq, rt_rq, sched_entity, task_struct};

/// The lowest priority number of a task with a nice value (`MAX_RT_PRIO`, include/linux/sched/prio.h).
const FIRST_FAIR_PRIO: i32 = 100;

/// `SCHED_EXT` (include/uapi/linux/sched.h): its tasks know no quota.
const SCHED_EXT: u32 = 7;

/// The clocks at this instant. To be asked under the lock of the task's run queue, whose clock is up to date then.
#[inline(always)]
pub(super) fn of<R: Read>(task: Task<R>) -> Clocks {
    let Some(group) = group(task) else {
        // Without groups nobody has a quota.
        return Clocks { throttling: Throttling::Exempt, ..Clocks::UNKNOWN };
    };
    let queue = R::read(cfs_rq::rq(group));
    let stolen_ns = if rq::prev_steal_time_rq_exists() {
        R::read(rq::prev_steal_time_rq(queue))
    } else if rq::prev_steal_time_exists() {
        R::read(rq::prev_steal_time(queue))
    } else {
        0
    };
    let (throttled_ns, is_throttled) = if cfs_rq::throttled_clock_self_time_exists() {
        let since = R::read(cfs_rq::throttled_clock_self(group));
        let now = if since != 0 { R::read(rq::clock(queue)) } else { 0 };
        (R::read(cfs_rq::throttled_clock_self_time(group)) + now.saturating_sub(since), since != 0)
    } else if cfs_rq::throttled_clock_pelt_time_exists() {
        let is_throttled = R::read(cfs_rq::throttle_count(group)) != 0;
        let under_way = if is_throttled {
            // As `rq_clock_pelt()` (kernel/sched/pelt.h) has it.
            let now = R::read(rq::clock_pelt(queue)).wrapping_sub(R::read(rq::lost_idle_time(queue)));
            now.saturating_sub(R::read(cfs_rq::throttled_clock_pelt(group)))
        } else {
            0
        };
        (R::read(cfs_rq::throttled_clock_pelt_time(group)) + under_way, is_throttled)
    } else {
        return Clocks { stolen_ns, ..Clocks::UNKNOWN };
    };
    let throttling = if task.prio() < FIRST_FAIR_PRIO || task.policy() == SCHED_EXT {
        Throttling::Exempt
    } else if task_struct::throttled_exists() {
        if R::read(task_struct::throttled(task.raw)) != 0 { Throttling::Under } else { Throttling::Exempt }
    } else if is_throttled {
        Throttling::Under
    } else {
        Throttling::Possible
    };
    Clocks { throttled_ns, stolen_ns, throttling }
}

/// Whether real-time tasks have used up their time on the CPU whose run queue the task is on. From 6.12 on there is no such
/// thing, but with `CONFIG_RT_GROUP_SCHED`.
#[inline(always)]
pub(super) fn rt_throttled<R: Read>(task: Task<R>) -> bool {
    rt_rq::rt_throttled_exists()
        && group(task).is_some_and(|group| R::read(rt_rq::rt_throttled(rq::rt(R::read(cfs_rq::rq(group))))) != 0)
}

/// The queue of the task's group on its CPU, where the kernel has groups of tasks.
#[inline(always)]
fn group<R: Read>(task: Task<R>) -> Option<*const cfs_rq> {
    sched_entity::cfs_rq_exists().then(|| R::read(sched_entity::cfs_rq(task_struct::se(task.raw))))
}
