//! Which tasks are measured.

use std::{ffi::OsString, ops::RangeInclusive, path::PathBuf};

use clap::{Args, ValueEnum};
use wakelat_common::{Class, Classes};

use crate::config::{ConfigError, FilterConfig, all_classes, keywords, number};
use wakelat_core::report::LatencyFrom;
use wakelat_kernel::{Machine, ranges::Ranges};
use wakelat_tracefs::hist_trigger::wakeup_latency::TriggerFilter;

/// The heading of the filter flags.
const HEADING: &str = "Filter (all conditions apply to the waiting task)";

/// Which tasks are measured: the filters that BPF programs and hist triggers both support.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub struct TaskFlags {
    /// Only these processes, with all their threads; comma-separated, repeatable
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = number::measured_id, allow_hyphen_values = true)]
    pub pid: Vec<u32>,

    /// Only these threads; comma-separated, repeatable
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = number::measured_id, allow_hyphen_values = true)]
    pub tid: Vec<u32>,

    /// Only tasks whose name matches a shell pattern, such as 'nginx*'; comma-separated, repeatable
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    pub comm: Vec<OsString>,

    /// Only waits that end on these CPUs, such as 0-3,8; repeatable
    #[arg(short = 'C', long, value_name = "LIST", value_parser = Ranges::parse, allow_hyphen_values = true)]
    pub cpus: Vec<Ranges>,

    /// Only these kernel priorities: 0-99 real-time, 100-139 fair, -1 deadline; repeatable
    #[arg(long, value_name = "LIST", value_parser = Ranges::parse, allow_hyphen_values = true)]
    pub prio: Vec<Ranges>,
}

/// Which tasks are measured.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub struct FilterFlags {
    /// Which tasks, and where.
    #[command(flatten)]
    pub tasks: TaskFlags,

    /// Only this process and its descendants: COMMAND, or the processes of --pid
    #[arg(long)]
    pub tree: bool,

    /// Only tasks in this cgroup (v2) or its descendants, such as /kubepods; repeatable
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<PathBuf>,

    /// Only these scheduling policies: other, fifo, rr, batch, idle, deadline, ext
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = keywords::policy)]
    pub policy: Vec<u32>,

    /// Only these classes of waits: wakeup, new, preempted; or runqueue, all three combined
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "wakeup", hide_possible_values = true)]
    pub class: Vec<ClassName>,

    /// Start of a wait: wakeup (sched_wakeup: the task is queued), waking (sched_waking: the waker starts to wake
    /// it), or queued (the run queue's own clock, as for run_delay in schedstat: all classes, no wakers, cheapest)
    #[arg(long, value_name = "EVENT", default_value = "wakeup", hide_possible_values = true, help_heading = None::<&str>)]
    pub from: FromEvent,

    /// Also measure wakelat's own threads
    #[arg(long)]
    pub include_self: bool,
}

/// A class, or all of them as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClassName {
    /// Woken from sleep
    Wakeup,
    /// Newly created
    New,
    /// Preempted
    Preempted,
    /// All three combined
    Runqueue,
}

/// The event that starts a wakeup's latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FromEvent {
    /// The task is on a run queue
    #[default]
    Wakeup,
    /// The waker begins to wake it
    Waking,
    /// The kernel has queued it, by the run queue's clock
    Queued,
}

impl From<FromEvent> for LatencyFrom {
    fn from(event: FromEvent) -> Self {
        match event {
            FromEvent::Wakeup => Self::Wakeup,
            FromEvent::Waking => Self::Waking,
            FromEvent::Queued => Self::Queued,
        }
    }
}

impl TaskFlags {
    /// The filter of hist triggers: the threads `tids`, restricted to the selected tasks and CPUs.
    ///
    /// # Errors
    /// If a name is not UTF-8.
    pub(super) fn trigger_filter(&self, tids: Vec<u32>) -> Result<TriggerFilter, ConfigError> {
        let ranges =
            |ranges: &[Ranges]| -> Vec<RangeInclusive<i64>> { ranges.iter().flat_map(Ranges::iter).cloned().collect() };
        let comm = |pattern: &OsString| {
            let text = pattern.to_str().map(str::to_owned);
            text.ok_or_else(|| {
                ConfigError::usage(
                    "--comm",
                    format!("`{}` is not valid UTF-8, which hist triggers require", pattern.display()),
                )
            })
        };
        Ok(TriggerFilter {
            tids,
            comms: self.comm.iter().map(comm).collect::<Result<_, _>>()?,
            prios: ranges(&self.prio),
            cpus: ranges(&self.cpus),
        })
    }
}

impl FilterFlags {
    /// The filter, for the tasks, cgroups and CPUs of this machine now.
    ///
    /// # Errors
    /// If a flag names something that does not exist, or cannot match anything.
    pub(super) fn config(&self, machine: &Machine) -> Result<FilterConfig, ConfigError> {
        // In a nested PID namespace, the kernel's number of this process is another one, and not known.
        let mut config = FilterConfig::new(self.include_self || !machine.first_pid_namespace);
        config.set_cgroups(&self.cgroup, machine)?;
        config.set_tasks(&self.tasks.pid, &self.tasks.tid, machine)?;
        config.set_comms(&self.tasks.comm)?;
        for cpus in &self.tasks.cpus {
            config.add_cpus(cpus, machine)?;
        }
        for prios in &self.tasks.prio {
            config.add_prios(prios)?;
        }
        config.set_policies(&self.policy);
        Ok(config)
    }

    /// The filter for a recording, without its cgroups.
    ///
    /// # Errors
    /// If a flag cannot match anything.
    pub(super) fn recorded_config(&self) -> Result<FilterConfig, ConfigError> {
        let mut config = FilterConfig::new(true);
        // A recording has only the waits of the tree.
        let pids = if self.tree { &[][..] } else { &self.tasks.pid };
        config.set_recorded(pids, &self.tasks.tid, &self.tasks.cpus)?;
        config.set_comms(&self.tasks.comm)?;
        for prios in &self.tasks.prio {
            config.add_prios(prios)?;
        }
        config.set_policies(&self.policy);
        Ok(config)
    }

    /// The classes given, and whether they are merged into one.
    pub(super) fn classes(&self) -> Result<(Classes, bool), ConfigError> {
        if self.class.contains(&ClassName::Runqueue) {
            if self.class.iter().any(|class| *class != ClassName::Runqueue) {
                return Err(ConfigError::usage(
                    "--class",
                    "`runqueue` already combines all classes; give either `runqueue` or a list of wakeup, new, preempted",
                ));
            }
            return Ok((all_classes(), true));
        }
        let classes = self.class.iter().fold(Classes::NONE, |classes, class| match class {
            ClassName::Wakeup => classes.with(Class::Wakeup),
            ClassName::New => classes.with(Class::New),
            ClassName::Preempted | ClassName::Runqueue => classes.with(Class::Preempted),
        });
        Ok((classes, false))
    }

    /// The event that starts a wakeup's latency, if wakeups are among the classes.
    pub(super) fn from(&self, classes: Classes) -> Result<LatencyFrom, ConfigError> {
        if self.from == FromEvent::Waking && !classes.contains(Class::Wakeup) {
            return Err(ConfigError::usage(
                "--from",
                "only wakeups have a `waking` event; add `wakeup` to `--class`, or leave out `--from`",
            ));
        }
        Ok(self.from.into())
    }
}

#[cfg(test)]
mod tests {
    use wakelat_common::filter::part;
    use wakelat_kernel::testing;

    use super::*;

    #[test]
    fn where_the_own_pid_is_not_known_no_task_is_taken_for_wakelat() {
        let (_directory, machine) = testing::arbitrary();
        let nested = Machine { first_pid_namespace: false, ..machine.clone() };
        let parts = |machine: &Machine| FilterFlags::default().config(machine).unwrap().parts;
        assert_eq!((parts(&machine) & part::OTHERS, parts(&nested) & part::OTHERS), (part::OTHERS, 0));
    }
}
