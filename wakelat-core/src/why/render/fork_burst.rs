//! Words for fork bursts.

use crate::{
    render::{Style, text_line::clean, units},
    why::fork_bursts::ForkBurst,
};

/// What to do about a fork burst.
pub const REMEDY: &str = "run fewer of them at a time (`make -jN`), reuse long-lived processes, or give them a cgroup with a lower cpu.weight";

/// The evidence: ``38.2 % of all waiting time (10.1 s of 26.5 s) is queueing behind 1,234 tasks that `make`
/// forked, …``.
pub fn evidence(burst: &ForkBurst, style: &Style) -> String {
    let time = |ns: u128| units::duration(ns, style.unicode);
    format!(
        "{} of all waiting time ({} of {}) is queueing behind {} that `{}` forked, which executed {}",
        units::share_of(burst.sum.ns, burst.total_ns),
        time(burst.sum.ns),
        time(burst.total_ns),
        units::counted(burst.tasks, "task"),
        clean(&burst.comm.to_string(), style),
        units::counted(burst.execs, "program"),
    )
}
