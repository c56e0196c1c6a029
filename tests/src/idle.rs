//! Makes a CPU go idle, whatever else this machine runs.

use std::{process, thread};

use crate::{
    clock::{block_until, now_ns, spin},
    task::TaskPlacement,
    trace_instance::TraceInstance,
};

/// The switches to the idle task, which the kernel records in a trace instance of its own. Dropping it
/// removes the instance.
pub struct Idling(TraceInstance);

const SWITCH: &str = "sched/sched_switch";

impl Idling {
    /// Starts recording.
    pub fn start() -> Self {
        let instance = TraceInstance::create(&format!("wl-idle-{}", process::id()));
        instance.filter(SWITCH, "next_pid == 0");
        instance.enable(SWITCH, true);
        Self(instance)
    }

    /// How often CPU `cpu` has gone idle since the start.
    fn count(&self, cpu: usize) -> u64 {
        let stats = self.0.read(&format!("per_cpu/cpu{cpu}/stats"));
        let entries = stats.lines().find_map(|line| line.strip_prefix("entries: ")?.trim().parse().ok());
        entries.unwrap_or_else(|| panic!("no entries: `{stats}`"))
    }

    /// Returns once CPU `cpu` has gone idle `times` times from now on, and so has left idle at least
    /// `times - 1` times.
    ///
    /// A SCHED_FIFO task uses the CPU nearly all the time. The kernel moves the other tasks to CPUs
    /// with more capacity left for them (`scale_rt_capacity`, kernel/sched/fair.c), and the task sleeps
    /// too briefly for the kernel to fetch one back (`newidle_balance`, since 6.10
    /// `sched_balance_newidle`, which compares `avg_idle` with what that costs).
    ///
    /// # Panics
    /// If this takes longer than a minute.
    pub fn until(&self, cpu: usize, times: u64) {
        const PATIENCE_NS: u64 = 60_000_000_000;
        const RUN_NS: u64 = 5_000_000;
        const SLEEP_NS: u64 = 100_000;
        let end = self.count(cpu) + times;
        let alternate = || {
            TaskPlacement::fifo(cpu).take();
            let deadline = now_ns() + PATIENCE_NS;
            while self.count(cpu) < end {
                assert!(now_ns() < deadline, "CPU {cpu} has run something all the time for a minute");
                spin(RUN_NS);
                block_until(now_ns() + SLEEP_NS);
            }
        };
        thread::scope(|scope| scope.spawn(alternate).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

impl Drop for Idling {
    fn drop(&mut self) {
        self.0.enable(SWITCH, false);
    }
}
