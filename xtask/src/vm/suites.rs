//! Which test binaries a guest runs.

use super::{course::Course, qemu::Mode};

/// What depends on the kernel, as much as every kernel of the list is worth under emulation: the whole list is to take two
/// processors some ten minutes. `suite:text` runs only the tests with `text` in their names; a suite that is not built is
/// not run. The others say nothing that the host's kernel does not say as well (`bad_places`, `losses`, `overhead`, `workloads`), take
/// minutes in an emulator (`traps`), or need programs that are not in the guest (`peers`).
pub const fn of(course: Course) -> &'static [&'static str] {
    match course {
        // What needs a second processor, or does not ask how long anything took.
        Course::Once(Mode::Smp) => &[
            "kernel",
            "counts:across_cpus",
            "filters",
            "verify",
            "timerlat",
            "timerlat_threads",
            "interference",
            "rtla",
        ],
        // What is exact where time is.
        Course::Once(Mode::Deterministic) => &[
            "kernel",
            "context",
            "counts",
            "cost",
            "oracle",
            "verify:of_all_tasks_agrees_under_load",
            "timerlat",
            "timerlat_threads",
            "timerlat_report",
            "interference",
            "rtla",
            "why",
        ],
        // What prints all that a user sees.
        Course::Twice => &["reports"],
    }
}

/// The init's argument for the tests: those of `course`, or all there are.
pub fn task(course: Course, all: bool) -> String {
    if all { "tests".to_owned() } else { format!("tests={}", of(course).join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_begins_with_what_all_else_stands_on() {
        assert!([Mode::Smp, Mode::Deterministic].iter().all(|mode| of(Course::Once(*mode))[0] == "kernel"));
        assert_eq!(
            task(Course::Once(Mode::Deterministic), false),
            "tests=kernel,context,counts,cost,oracle,verify:of_all_tasks_agrees_under_load,timerlat,timerlat_threads,timerlat_report,interference,rtla,why"
        );
        assert_eq!(task(Course::Twice, false), "tests=reports");
        assert_eq!(task(Course::Twice, true), "tests");
    }
}
