//! Which test binaries a guest runs.

use super::{course::BootPlan, qemu::TimeMode};

/// On two processors on every kernel with every change: that every program is let in, that counts are exact across CPUs and
/// under filters, and that nothing freezes where both are busy.
pub const SHORT: &[&str] = &["kernel", "counts:across_cpus", "filters:_btf", "busy"];

/// What needs hist triggers and a second processor.
pub const TRIGGERS: &[&str] = &["verify"];

/// What needs the tracers and a second processor.
pub const TRACERS: &[&str] = &["timerlat", "timerlat_threads", "interference"];

/// What is exact where time is.
const DETERMINISTIC: &[&str] = &[
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
];

/// What has a known length and needs a second processor.
const COUNTED: &[&str] = &["why:either_cpu", "why:on_an_idle_cpu", "why:from_another_cpu", "why:on_other_cpus"];

/// What depends on the kernel, as much as every kernel of the list is worth under emulation. `suite:text` runs only the tests
/// with `text` in their names; a suite that is not built is not run. All ways to attach have one body each, so one or two of
/// them do. The others say nothing that the host's kernel does not say as well (`bad_places`, `losses`, `overhead`,
/// `window`, `workloads`), take minutes in an emulator (`traps`), or need programs that are not in the guest (`peers`).
pub fn of(course: BootPlan) -> Vec<&'static str> {
    match course {
        BootPlan::Once(TimeMode::Smp) => [SHORT, TRIGGERS, TRACERS].concat(),
        BootPlan::Once(TimeMode::Deterministic) => DETERMINISTIC.to_vec(),
        BootPlan::Once(TimeMode::Counted) => COUNTED.to_vec(),
        // What prints all that a user sees.
        BootPlan::Twice => vec!["reports"],
    }
}

/// The init's argument for these suites; for all there are where none are named.
pub fn task(suites: &[&str]) -> String {
    if suites.is_empty() { "tests".to_owned() } else { format!("tests={}", suites.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_verifies_every_program_once_before_all_else() {
        assert_eq!(of(BootPlan::Once(TimeMode::Smp))[0], "kernel");
        assert!(!of(BootPlan::Once(TimeMode::Deterministic)).contains(&"kernel"));
    }

    #[test]
    fn the_init_takes_suites_separated_by_commas() {
        assert_eq!(task(&of(BootPlan::Once(TimeMode::Smp))[..2]), "tests=kernel,counts:across_cpus");
        assert_eq!(task(&[]), "tests");
    }
}
