//! Storms of new tasks in words.

use crate::{
    sink::{Style, text::clean, units},
    why::storms::ForkBurst,
};

/// What to do about one.
pub const REMEDY: &str = "fewer at a time (`make -j`), processes that live on in place of new ones, or a cgroup of their own with a lower cpu.weight";

/// What was found: ``38.2 % of all wait (10.1 s of 26.5 s) is behind 1,234 tasks that `make` made, which took …``.
pub fn evidence(storm: &ForkBurst, style: &Style) -> String {
    let time = |ns: u128| units::duration(ns, style.unicode);
    format!(
        "{} of all wait ({} of {}) is behind {} that `{}` made, which took {}",
        units::share_of(storm.sum.ns, storm.total_ns),
        time(storm.sum.ns),
        time(storm.total_ns),
        units::counted(storm.tasks, "task"),
        clean(&storm.comm.to_string(), style),
        units::counted(storm.execs, "program"),
    )
}
