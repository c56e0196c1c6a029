//! The part of a wait that describes neither of the two tasks of the switch that ends it.

use wakelat_common::{Class, sample::KernelCounts};

use super::event::{DetailedWait, TaskInfo};
use crate::wait::Wait;

/// The fields of a [`DetailedWait`] that neither of its tasks has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitCourse {
    pub class: Class,
    pub latency_ns: u64,
    pub delivery_ns: Option<u64>,
    pub waker_tid: Option<u32>,
    pub prev_cpu: Option<u32>,
    pub preempted_sleeping: bool,
    pub sampling_shift: u8,
    pub cpu: Option<u32>,
    pub waker_cpu: Option<u32>,
    pub remote: bool,
    pub migrations: u8,
    pub throttled_ns: Option<u64>,
    pub throttled_at_start: bool,
    pub stolen_ns: u64,
}

impl WaitCourse {
    /// The course of `waited`.
    #[inline]
    pub fn of(waited: &DetailedWait) -> Self {
        let DetailedWait { wait, cpu, waker_cpu, remote, migrations, throttled_ns, throttled_at_start, stolen_ns } =
            *waited;
        Self {
            class: wait.class,
            latency_ns: wait.latency_ns,
            delivery_ns: wait.delivery_ns,
            waker_tid: wait.waker_tid,
            prev_cpu: wait.prev_cpu,
            preempted_sleeping: wait.kernel_counts.may_lack(),
            sampling_shift: wait.sampling_shift,
            cpu,
            waker_cpu,
            remote,
            migrations,
            throttled_ns,
            throttled_at_start,
            stolen_ns,
        }
    }

    /// The wait of `next`, which ended at `at_ns` (CLOCK_MONOTONIC), when it got `on_cpu` after `prev`.
    #[inline]
    pub fn of_tasks(self, at_ns: u64, on_cpu: u32, prev: &TaskInfo, next: &TaskInfo) -> DetailedWait {
        let wait = Wait {
            class: self.class,
            at_ns,
            latency_ns: self.latency_ns,
            delivery_ns: self.delivery_ns,
            tid: next.tid,
            pid: next.pid,
            comm: next.comm,
            cgroup_id: next.cgroup_id,
            prio: next.prio,
            policy: next.policy,
            cpu: on_cpu,
            prev_cpu: self.prev_cpu,
            waker_tid: self.waker_tid,
            prev_tid: prev.tid,
            prev_comm: prev.comm,
            prev_prio: prev.prio,
            kernel_counts: KernelCounts::of_preempted_sleeping(self.preempted_sleeping),
            sampling_shift: self.sampling_shift,
        };
        DetailedWait {
            wait,
            cpu: self.cpu,
            waker_cpu: self.waker_cpu,
            remote: self.remote,
            migrations: self.migrations,
            throttled_ns: self.throttled_ns,
            throttled_at_start: self.throttled_at_start,
            stolen_ns: self.stolen_ns,
        }
    }
}
