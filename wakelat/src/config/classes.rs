//! Why they waited, and from when it counts.

use wakelat_common::{Class, Classes};

use super::ConfigError;
use crate::{
    cli::{ClassName, FilterFlags, FromEvent},
    report::LatencyFrom,
};

/// The classes asked for, and whether they go into one.
pub(super) fn classes(flags: &FilterFlags) -> Result<(Classes, bool), ConfigError> {
    if flags.class.contains(&ClassName::Runqueue) {
        if flags.class.iter().any(|class| *class != ClassName::Runqueue) {
            return Err(ConfigError::usage(
                "--class",
                "`runqueue` is all classes as one and stands alone; expected `runqueue`, or some of wakeup, new, preempted",
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

/// From which event a wakeup's clock starts.
pub(super) fn from(flags: &FilterFlags, classes: Classes) -> Result<LatencyFrom, ConfigError> {
    match flags.from {
        FromEvent::Wakeup => Ok(LatencyFrom::Wakeup),
        FromEvent::Waking if classes.contains(Class::Wakeup) => Ok(LatencyFrom::Waking),
        FromEvent::Waking => Err(ConfigError::usage(
            "--from",
            "only a wakeup has a `waking` before it; add `wakeup` to `--class` or leave `--from` out",
        )),
    }
}
