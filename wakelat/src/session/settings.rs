//! From what was asked for to what the kernel side is told.

use std::{
    fs,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::{Environment, scheduling};
use crate::{
    aggregate::key::Key,
    collect::{FilterSettings, Settings, TimelineSettings},
    config::{Config, Priority},
    report::{LatencyFrom, Mode},
};

/// A page, of the largest kind: a ring buffer that nothing comes through.
const SMALLEST_RING: u32 = 1 << 16;

/// The settings for `config`. `shows_waits`: somebody looks at single ones; `shows_events`: at what happened between.
pub fn of(config: &Config, place: &Environment, shows_waits: bool, shows_events: Option<TimelineSettings>) -> Settings {
    let filter = &config.filter;
    let aggregate = config.mode == Mode::Aggregate;
    let ring_bytes = match (aggregate, shows_events) {
        (true, _) => SMALLEST_RING,
        (false, None) => config.resources.ring_bytes,
        (false, Some(_)) => config.resources.timeline_ring_bytes,
    };
    Settings {
        attach: config.resources.attach,
        btf: place.btf.clone(),
        tracefs: place.tracefs.clone(),
        max_tasks: config.resources.max_tasks,
        ring_bytes,
        classes: config.classes,
        threshold_ns: config.threshold.as_ref().map_or(0, |threshold| threshold.threshold_ns),
        aggregate,
        with_waking: shows_waits || shows_events.is_some() || config.by.contains(&Key::Waker),
        from_waking: config.from == LatencyFrom::Waking,
        // Of the few waits that are kept in the kernel it costs next to nothing.
        with_cgroup: aggregate
            || config.by.iter().any(|key| matches!(key, Key::Cgroup | Key::Container))
            || shows_events.is_some_and(|timeline| timeline.cgroups),
        trigger_rules: false,
        timeline: shows_events.filter(|_| !aggregate),
        sampling_seed: config.max_overhead_ppm.map(|_| random_seed()),
        filter: FilterSettings {
            parts: filter.parts,
            filter: filter.filter.clone(),
            tgids: filter.tgids.clone(),
            pids: filter.pids.clone(),
            cgroup_ids: filter.cgroups.iter().map(|cgroup| cgroup.id).collect(),
        },
    }
}

/// A number that nobody could have known: the seed of the library's hash maps.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Makes this thread SCHED_FIFO, so that it is not starved by the load it measures; what it starts stays as it is. `asked`: the
/// priority asked for, 0 for none at all. If none was asked for, it is the lowest one where that is free: `is_free` says whether
/// it delays no task that is measured, and the kernel has to leave other tasks their share of the CPU. Returns the priority in
/// force, if there is one.
///
/// # Errors
/// Where the kernel refuses what was asked for.
pub fn raise_priority(asked: Option<u8>, is_free: bool) -> Result<Option<Priority>> {
    const LOWEST: Priority = Priority::Fifo(1);
    match asked {
        Some(0) => Ok(None),
        Some(priority) => {
            scheduling::set_own_priority(Priority::Fifo(priority)).with_context(|| {
                format!(
                    "cannot run at real-time priority `{priority}`; it takes CAP_SYS_NICE or an RLIMIT_RTPRIO of as much"
                )
            })?;
            Ok(Some(Priority::Fifo(priority)))
        }
        None if !is_free => Ok(None),
        None if !is_throttled() => {
            log::info!("the reader has no real-time priority: this machine lets real-time tasks have a CPU for ever");
            Ok(None)
        }
        None => match scheduling::set_own_priority(LOWEST) {
            Ok(()) => Ok(Some(LOWEST)),
            Err(error) => {
                log::info!("the reader has no real-time priority: {error}");
                Ok(None)
            }
        },
    }
}

/// How often to look for what has come. Where waits are counted in the kernel, only windows end.
pub fn drain_interval(config: &Config) -> Duration {
    const NOTHING_COMES: Duration = Duration::from_millis(250);
    match config.mode {
        Mode::Samples => Duration::from_nanos(config.resources.drain_interval_ns),
        Mode::Aggregate => NOTHING_COMES,
    }
}

/// Whether the reader has so little to do during a window that a real-time priority delays no other task noticeably: the
/// programs aggregate, or a limit of the overhead bounds its work. A reader of single samples would hold a CPU for as long as
/// the records of an interval take it.
pub fn reader_is_light(config: &Config) -> bool {
    config.mode == Mode::Aggregate || config.max_overhead_ppm.is_some()
}

/// Whether real-time tasks leave others some of each CPU (Documentation/scheduler/sched-rt-group.rst).
fn is_throttled() -> bool {
    let runtime_us = fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
    runtime_us.is_ok_and(|runtime_us| runtime_us.trim().parse().is_ok_and(|runtime_us: i64| runtime_us >= 0))
}
