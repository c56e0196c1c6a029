//! Storms of new tasks in words.

use crate::{
    sink::{Style, text::clean, units},
    why::storms::Storm,
};

/// What to do about one.
pub const REMEDY: &str = "fewer at a time (`make -j`), processes that live on in place of new ones, or a cgroup of their own with a lower cpu.weight";

/// What was found: ``38.2 % of all wait (10.1 s of 26.5 s) is for tasks that `make` made: 1,234 in 2.0 s, …``.
pub fn evidence(storm: &Storm, style: &Style) -> String {
    let time = |ns: u128| units::duration(ns, style.unicode);
    format!(
        "{} of all wait ({} of {}) is behind tasks that `{}` made: {} in {}, which took {}",
        units::share_of(storm.had.ns, storm.whole_ns),
        time(storm.had.ns),
        time(storm.whole_ns),
        clean(&storm.comm.to_string(), style),
        units::thousands(storm.tasks),
        time(storm.duration_ns.into()),
        units::counted(storm.programs, "program"),
    )
}
