//! What a verification sets up before it measures: tracefs, the recipe of the triggers, and the settings of the
//! programs.

use std::path::Path;

use anyhow::{Result, bail};
use wakelat_common::{Class, Classes, filter::part};

use super::{compare, not_compared::NotCompared};
use crate::{
    collect::{FilterSettings, Settings},
    config::VerifyConfig,
    session::{Environment, clock::monotonic_ns},
    status::status,
};
use wakelat_core::report::LatencyFrom;
use wakelat_tracefs::{
    Owner, TracefsMount,
    hist_trigger::wakeup_latency::{Buckets, DEFAULT_SIZE, TriggerRecipe},
    leftovers,
};

/// Maximum number of entries of a trigger's table (`TRACING_MAP_BITS_MAX`, kernel/trace/tracing_map.h).
const MAX_SIZE: u32 = 1 << 17;

/// Finds tracefs and removes what a killed run left there. If tracefs or hist triggers cannot be used,
/// returns the reason.
///
/// # Errors
/// If triggers are required and cannot be used, or tracefs fails in any other way.
pub fn tracefs(config: &VerifyConfig, proc: &Path) -> Result<Result<TracefsMount, NotCompared>> {
    let usable = TracefsMount::mounted().and_then(|tracefs| {
        for (leftover, removed) in leftovers::remove(&tracefs, proc) {
            match removed {
                Ok(()) if config.output.quiet => {}
                Ok(()) => status(format_args!("removed the {leftover}")),
                Err(error) => log::warn!("cannot remove the {leftover}: {error}"),
            }
        }
        tracefs.need_hist_triggers().map(|()| tracefs)
    });
    usable.map_or_else(
        |error| without_triggers(config.require_triggers, error.into()).map(Err),
        |tracefs| Ok(Ok(tracefs)),
    )
}

/// The reason for which the triggers are not compared, if the measurement can continue without them: not if they are
/// `required`.
///
/// # Errors
/// If triggers are required, or with `error` itself if it is not one of the reasons in [`NotCompared`].
pub fn without_triggers(required: bool, error: anyhow::Error) -> Result<NotCompared> {
    match error.downcast_ref().and_then(NotCompared::of) {
        Some(why) if required => bail!("`--require-triggers`: {why}"),
        Some(why) => Ok(why),
        None => Err(error),
    }
}

/// The recipe of the triggers that measure with these settings.
pub fn recipe(config: &VerifyConfig, owner: &Owner) -> TriggerRecipe {
    TriggerRecipe {
        event: owner.event(),
        from: config.from,
        filter: config.triggers.clone(),
        by: Vec::new(),
        buckets: Some(Buckets::Log2),
        sum: true,
        size: config.resources.max_tasks.next_power_of_two().clamp(DEFAULT_SIZE, MAX_SIZE),
    }
}

/// Maximum difference in ns of two clock readings for one event on this machine: the usual value on
/// hardware, or the time that a few trivial system calls take if the machine is slower, such as an
/// emulator.
pub fn clock_tolerance_ns() -> u64 {
    const CALLS: u64 = 200;
    let before_ns = monotonic_ns();
    for _ in 0..CALLS {
        _ = rustix::process::getppid();
    }
    tolerance_ns((monotonic_ns() - before_ns) / CALLS)
}

/// The tolerance in ns if a trivial system call takes `call_ns`.
fn tolerance_ns(call_ns: u64) -> u64 {
    compare::CLOCK_NS.max(call_ns * 5)
}

/// The settings of one of the two collectors.
pub fn settings_of(config: &VerifyConfig, environment: &Environment, trigger_rules: bool) -> Settings {
    let filter = &config.filter;
    let classes = match trigger_rules {
        true => Classes::NONE.with(Class::Wakeup),
        false => Class::ALL.into_iter().fold(Classes::NONE, Classes::with),
    };
    Settings {
        attach: config.resources.attach,
        btf: environment.btf.clone(),
        tracefs: environment.tracefs.clone(),
        max_tasks: config.resources.max_tasks,
        ring_bytes: config.resources.ring_bytes,
        classes,
        threshold_ns: 0,
        aggregate: false,
        groups: None,
        with_waking: false,
        from_waking: config.from == LatencyFrom::Waking,
        with_cgroup: false,
        causes: None,
        is_service: false,
        queue_clock: false,
        trigger_rules,
        timeline: None,
        sampling_seed: None,
        filter: FilterSettings {
            // By the trigger's rules, every filter but the one on threads applies when the wait ends.
            parts: if trigger_rules { filter.parts & part::PID } else { filter.parts },
            filter: filter.filter.clone(),
            tgids: Vec::new(),
            pids: filter.pids.clone(),
            cgroup_ids: Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use wakelat_tracefs::TracefsError;

    use super::*;

    #[test]
    fn triggers_that_cannot_be_used_are_an_error_only_if_they_are_required() {
        let errors =
            || [TracefsError::NoHistTriggers, TracefsError::NotMounted, TracefsError::Denied("/tracing".into())];
        for (error, required) in errors().into_iter().zip(errors()) {
            let why = NotCompared::of(&error).unwrap();
            let refused = without_triggers(true, required.into()).unwrap_err();
            assert_eq!(refused.to_string(), format!("`--require-triggers`: {why}"));
            assert_eq!(without_triggers(false, error.into()).unwrap(), why);
        }
    }

    #[test]
    fn any_other_error_of_tracefs_is_one_without_the_flag_too() {
        let error = || TracefsError::NoEvent("sched_waking".to_owned());
        for required in [false, true] {
            let refused = without_triggers(required, error().into()).unwrap_err();
            assert_eq!(refused.to_string(), error().to_string());
        }
    }

    #[test]
    fn the_clock_tolerance_is_5_us_or_five_system_calls() {
        assert_eq!([0, 999, 1_000, 1_001, 40_000].map(tolerance_ns), [5_000, 5_000, 5_000, 5_005, 200_000]);
    }
}
