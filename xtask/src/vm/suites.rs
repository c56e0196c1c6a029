//! Which test binaries a guest runs.

use super::{course::Course, qemu::Mode};

/// What depends on the kernel, as much as every kernel of the list is worth under emulation: the whole list is to take two
/// processors some half an hour. `suite:text` runs only the tests with `text` in their names; a suite that is not built is
/// not run. All ways to attach have one body each, so one or two of them do. The others say nothing that the host's kernel
/// does not say as well (`bad_places`, `losses`, `overhead`, `window`, `workloads`), take minutes in an emulator (`traps`), or need
/// programs that are not in the guest (`peers`).
pub const fn of(course: Course) -> &'static [&'static str] {
    match course {
        // What needs a second processor, or does not ask how long anything took.
        Course::Once(Mode::Smp) => {
            &["kernel", "counts:across_cpus", "filters:_btf", "verify", "timerlat", "timerlat_threads", "interference"]
        }
        // What is exact where time is.
        Course::Once(Mode::Deterministic) => &[
            "context:kworker",
            "context:storm",
            "counts:_btf",
            "counts:_classic",
            "cost",
            "oracle",
            "verify:of_all_tasks_agrees_under_load",
            "timerlat",
            "timerlat_threads",
            "timerlat_report",
            "interference",
            "rtla",
            "stacks:of_its_waker",
            "why",
        ],
        // What has a known length and needs a second processor.
        Course::Once(Mode::Counted) => {
            &["why:either_cpu", "why:on_an_idle_cpu", "why:from_another_cpu", "why:on_other_cpus"]
        }
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
    fn each_kernel_verifies_every_program_once_before_all_else() {
        assert_eq!(of(Course::Once(Mode::Smp))[0], "kernel");
        assert!(!of(Course::Once(Mode::Deterministic)).contains(&"kernel"));
        assert_eq!(
            task(Course::Once(Mode::Deterministic), false),
            "tests=context:kworker,context:storm,counts:_btf,counts:_classic,cost,oracle,verify:of_all_tasks_agrees_under_load,timerlat,timerlat_threads,timerlat_report,interference,rtla,stacks:of_its_waker,why"
        );
        assert_eq!(task(Course::Twice, false), "tests=reports");
        assert_eq!(task(Course::Twice, true), "tests");
    }
}
