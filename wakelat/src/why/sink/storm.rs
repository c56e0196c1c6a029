//! Storms of new tasks in words.

use crate::{
    sink::{Style, text::clean, units},
    why::storms::Storm,
};

/// What to do about one.
pub const REMEDY: &str = "fewer at a time (`make -j`), processes that live on in place of new ones, or a cgroup of their own with a lower cpu.weight";

/// What was found: ``38.2 % of all wait (10.1 s of 26.5 s) is behind 1,234 tasks that `make` made, which took …``.
pub fn evidence(storm: &Storm, style: &Style) -> String {
    let time = |ns: u128| units::duration(ns, style.unicode);
    format!(
        "{} of all wait ({} of {}) is behind {} that `{}` made, which took {}",
        units::share_of(storm.had.ns, storm.whole_ns),
        time(storm.had.ns),
        time(storm.whole_ns),
        units::counted(storm.tasks, "task"),
        clean(&storm.comm.to_string(), style),
        units::counted(storm.programs, "program"),
    )
}
