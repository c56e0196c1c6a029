//! Classes of waits, and the event that starts a wakeup's latency.

use wakelat_common::{Class, Classes};

use super::ConfigError;
use crate::cli::{ClassName, FilterFlags, FromEvent};
use wakelat_core::report::LatencyFrom;

/// The classes given, and whether they are merged into one.
pub(super) fn classes(flags: &FilterFlags) -> Result<(Classes, bool), ConfigError> {
    if flags.class.contains(&ClassName::Runqueue) {
        if flags.class.iter().any(|class| *class != ClassName::Runqueue) {
            return Err(ConfigError::usage(
                "--class",
                "`runqueue` already combines all classes; give either `runqueue` or a list of wakeup, new, preempted",
            ));
        }
        return Ok((all(), true));
    }
    let classes = flags.class.iter().fold(Classes::NONE, |classes, class| match class {
        ClassName::Wakeup => classes.with(Class::Wakeup),
        ClassName::New => classes.with(Class::New),
        ClassName::Preempted | ClassName::Runqueue => classes.with(Class::Preempted),
    });
    Ok((classes, false))
}

/// Every class.
pub(super) fn all() -> Classes {
    Class::ALL.into_iter().fold(Classes::NONE, Classes::with)
}

/// The event that starts a wakeup's latency.
pub(super) fn from(flags: &FilterFlags, classes: Classes) -> Result<LatencyFrom, ConfigError> {
    match flags.from {
        FromEvent::Wakeup => Ok(LatencyFrom::Wakeup),
        FromEvent::Waking if classes.contains(Class::Wakeup) => Ok(LatencyFrom::Waking),
        FromEvent::Waking => Err(ConfigError::usage(
            "--from",
            "only wakeups have a `waking` event; add `wakeup` to `--class`, or leave out `--from`",
        )),
    }
}
