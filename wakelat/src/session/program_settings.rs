//! Derives the settings of the BPF programs, and those of the reader, from the configuration.

use std::{
    fs,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{Environment, View};
use crate::{
    collect::{CauseSettings, FilterSettings, GroupSettings, Settings},
    config::{Config, Priority},
};
use wakelat_core::{
    aggregate::key::{Key, group_parts},
    report::{LatencyFrom, Mode},
};
use wakelat_kernel::thread_priority;

/// The settings for `config` and what `view` shows. `command`: the process of the measured command, if there is one.
pub fn of(config: &Config, environment: &Environment, command: Option<u32>, view: &dyn View) -> Settings {
    let (shows_waits, shows_events, causes) = (view.shows_waits(), view.shows_events(), view.shows_causes());
    let filter = &config.filter;
    let root = command.filter(|_| filter.follows_descendants());
    let aggregate = config.mode == Mode::Aggregate;
    let ring_bytes = match (aggregate, shows_events) {
        (true, _) => Settings::SMALLEST_RING,
        (false, None) => config.resources.ring_bytes,
        (false, Some(_)) => config.resources.timeline_ring_bytes,
    };
    Settings {
        attach: config.resources.attach,
        btf: environment.btf.clone(),
        tracefs: environment.tracefs.clone(),
        max_tasks: config.resources.max_tasks,
        ring_bytes,
        classes: config.classes,
        threshold_ns: config.threshold.as_ref().map_or(0, |threshold| threshold.threshold_ns),
        aggregate,
        groups: kernel_groups(config),
        with_waking: shows_waits || shows_events.is_some() || config.by.contains(&Key::Waker),
        from_waking: config.from == LatencyFrom::Waking,
        queue_clock: config.from == LatencyFrom::Queued,
        causes: causes.map(|groups| CauseSettings { groups, trace_interrupts: config.traces_interrupts }),
        is_service: causes.is_some() && view.is_cumulative(),
        // For the few waits that are kept in the kernel, it costs next to nothing.
        with_cgroup: aggregate
            || view.needs_cgroups()
            || config.by.iter().any(|key| matches!(key, Key::Cgroup | Key::Container))
            || shows_events.is_some_and(|timeline| timeline.cgroups),
        trigger_rules: false,
        timeline: shows_events.filter(|_| !aggregate),
        sampling_seed: config.max_overhead_ppm.map(|_| random_seed()),
        filter: FilterSettings {
            parts: filter.parts,
            filter: filter.filter.clone(),
            tgids: filter.tgids.iter().copied().chain(root).collect(),
            pids: filter.pids.clone(),
            cgroup_ids: filter.cgroups.iter().map(|cgroup| cgroup.id).collect(),
        },
    }
}

/// How the programs group waits, if they do.
fn kernel_groups(config: &Config) -> Option<GroupSettings> {
    let parts = group_parts(&config.by);
    let bytes = config.resources.group_bytes;
    (config.mode == Mode::Aggregate && parts != 0).then_some(GroupSettings { parts, bytes })
}

/// An unpredictable number: the seed of the standard library's hash maps.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Gives this thread SCHED_FIFO, so that the load that it measures does not starve it; its children do not
/// inherit it. `requested` is the requested priority: 0 for none. Without a request, the thread gets the
/// lowest priority if that costs nothing: `is_free` says whether it delays no measured task, and the kernel
/// has to reserve a part of each CPU for other tasks. Returns the priority in force, if there is one.
///
/// # Errors
/// If the kernel refuses the requested priority.
pub fn raise_priority(requested: Option<u8>, is_free: bool) -> Result<Option<Priority>> {
    const LOWEST: Priority = Priority::Fifo(1);
    match requested {
        Some(0) => Ok(None),
        Some(priority) => {
            thread_priority::set_own_priority(Priority::Fifo(priority)).with_context(|| {
                format!(
                    "cannot run at real-time priority `{priority}`; it needs CAP_SYS_NICE or an RLIMIT_RTPRIO of at least that value"
                )
            })?;
            Ok(Some(Priority::Fifo(priority)))
        }
        None if !is_free => Ok(None),
        None if !is_throttled() => {
            log::info!("the reader has no real-time priority, because real-time throttling is off on this machine");
            Ok(None)
        }
        None => match thread_priority::set_own_priority(LOWEST) {
            Ok(()) => Ok(Some(LOWEST)),
            Err(error) => {
                log::info!("the reader has no real-time priority: {error}");
                Ok(None)
            }
        },
    }
}

/// How often to read the ring buffer, or the groups that the programs aggregate waits into. If they
/// aggregate by class and CPU, only the ends of windows need the reader.
pub fn drain_interval(config: &Config) -> Duration {
    const NO_RECORDS: Duration = Duration::from_millis(250);
    /// Long enough to cost nothing, and short enough to find the names of cgroups and processes that end.
    const GROUPS: Duration = Duration::from_secs(1);
    match config.mode {
        Mode::Samples => Duration::from_nanos(config.resources.drain_interval_ns),
        Mode::Aggregate if reads_groups(config) => GROUPS,
        Mode::Aggregate => NO_RECORDS,
    }
}

/// Whether the reader takes groups between reports: not if reports come as often anyway, each of which takes them.
pub fn takes_groups_between_reports(config: &Config) -> bool {
    let at_ns = u64::try_from(drain_interval(config).as_nanos()).unwrap_or(u64::MAX);
    reads_groups(config) && config.window.interval_ns.is_none_or(|interval_ns| interval_ns > at_ns)
}

/// Whether the programs aggregate waits, or their causes, into groups. These are read while the programs run: the next
/// groups need the room, and a cgroup has a name only as long as it exists.
pub fn reads_groups(config: &Config) -> bool {
    kernel_groups(config).is_some() || config.with_causes
}

/// Whether the reader has so little to do during a window that a real-time priority delays no other task
/// noticeably: the programs aggregate by class and CPU, or an overhead limit bounds the reader's work. A reader of
/// single samples or of groups could hold a CPU for as long as those of an interval take.
pub fn reader_is_light(config: &Config) -> bool {
    config.mode == Mode::Aggregate && !reads_groups(config) || config.max_overhead_ppm.is_some()
}

/// Whether an overhead limit is kept by sampling tasks before it pauses. Each wait then needs a record, with its task and
/// the sampling rate; and the run queue's clock has to see every switch of a task.
pub fn samples_tasks(config: &Config) -> bool {
    config.mode == Mode::Samples && config.from != LatencyFrom::Queued
}

/// Whether the kernel reserves a part of each CPU for tasks that are not real-time
/// (Documentation/scheduler/sched-rt-group.rst).
fn is_throttled() -> bool {
    let runtime_us = fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
    runtime_us.is_ok_and(|runtime_us| runtime_us.trim().parse().is_ok_and(|runtime_us: i64| runtime_us >= 0))
}
