//! Which suites of the kernel tests a guest runs.

use super::{boot_plan::BootPlan, qemu::TimeMode};

/// The verifier accepts every program.
pub const VERIFIER: &str = "verifier";

/// What every kernel runs on two CPUs with every change: counts are exact across CPUs, and nothing freezes if both CPUs
/// are busy.
pub const EVERY_KERNEL: &[&str] =
    &["counts:across_cpus", "queue_clock:of_the_kernel", "queue_recording:recorded_thread", "busy"];

/// What the oldest kernel runs besides [`EVERY_KERNEL`] on two CPUs with every change: filters, groups, causes and the
/// sandbox, which depend on a kernel only through what it offers.
pub const SELECTED_KERNELS: &[&str] = &[
    "filters:_btf",
    "groups:of_its_processes",
    "groups:counts_for_it",
    "groups:without_room",
    "cause_sums:to_the_run_delay",
    "cause_sums:a_long_wait",
    "cause_sums:before_the_history",
    "cause_sums:two_tasks_alike",
    "causes:kernel_thread",
    "sandbox:while_it_measures",
    "serve:the_kernel_has_counted",
];

/// What takes half a minute on each kernel and says little about it.
const EVERY_CALL: &[&str] = &["sandbox:refused"];

/// What a kernel of another architecture runs with every change: what depends on the order of loads and stores, the
/// clock, the system calls and the tracepoints.
pub const OTHER_ARCHITECTURE: &[&str] = &[
    "verifier",
    "counts:across_cpus",
    "queue_clock:of_the_kernel",
    "cause_sums:to_the_run_delay",
    "sandbox:refused",
    "verify:of_all_tasks_agrees_under_load",
];

/// Suites that need hist triggers and a second CPU.
const TRIGGERS: &[&str] = &["verify"];

/// What runs of [`TRIGGERS`] with every change: exact counts, a loaded machine, and errors that are planted.
pub const SOME_TRIGGERS: &[&str] = &["verify:both_sides_btf", "verify:agrees_under_load_btf", "verify:planted"];

/// Tests that need a second CPU and a kernel that can preempt a task on its way to sleep.
pub const PREEMPTION: &[&str] = &["verify:in_a_sleeping_state"];

/// Suites that need the tracers and a second CPU.
pub const TRACERS: &[&str] = &["timerlat", "timerlat_threads", "timerlat_noise"];

/// What the oldest kernel runs of [`DETERMINISTIC`] with every change.
pub const OLDEST_DETERMINISTIC: &[&str] =
    &["context:kworker", "context:storm", "counts:_btf", "counts:_classic", "oracle", "stacks:of_its_waker", "why"];

/// What the newest kernel with tracers runs of [`DETERMINISTIC`] with every change.
pub const NEWEST_DETERMINISTIC: &[&str] = &[
    "counts:_btf",
    "cost",
    "oracle",
    "verify:of_all_tasks_agrees_under_load",
    "timerlat",
    "timerlat_threads",
    "timerlat_report",
    "timerlat_noise",
    "rtla",
    "why",
    "causes",
    "cause_sums",
];

/// Suites that are exact if time is exact.
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
    "timerlat_noise",
    "rtla",
    "stacks:of_its_waker",
    "why",
    "causes",
    "cause_sums",
];

/// What takes minutes where time is exact: each view of a recording, and while it is made.
const EACH_VIEW: &[&str] = &["record_and_show:shows_what_it_shows"];

/// Tests of waits that have a known length and need a second CPU.
const COUNTED: &[&str] = &["why:either_cpu", "why:on_an_idle_cpu", "why:from_another_cpu", "why:on_other_cpus"];

/// What grows with the number of CPUs.
const LARGE: &[&str] = &["large", "queue_clock:of_the_kernel_btf"];

/// The suites of a boot plan: what depends on the kernel, as far as it is worth its time under emulation on
/// every kernel of the list. `suite:text` runs only the tests with `text` in their names. Each program has
/// one body for all ways to attach it, so one or two of them are enough. The other suites show nothing that
/// the host's kernel does not show as well (`errors`, `losses`, `overhead`, `window`, `workloads`), take
/// minutes in an emulator (`pitfalls`), or need programs that are not in the guest (`peers`).
pub fn of(plan: BootPlan) -> Vec<&'static str> {
    match plan {
        BootPlan::Once(TimeMode::Smp) => {
            [&[VERIFIER], EVERY_KERNEL, SELECTED_KERNELS, EVERY_CALL, TRIGGERS, TRACERS].concat()
        }
        BootPlan::Once(TimeMode::Deterministic) => [DETERMINISTIC, EACH_VIEW].concat(),
        BootPlan::Once(TimeMode::Counted) => COUNTED.to_vec(),
        BootPlan::Once(TimeMode::Large) => LARGE.to_vec(),
        // Prints everything that a user sees.
        BootPlan::Twice => vec!["reports"],
    }
}

/// What a guest does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestTask {
    /// Run these suites, in the form of [`of`].
    Suites(Vec<&'static str>),
    /// Run all suites.
    AllSuites,
    /// Run each command that measures, for this long: s.
    Soak(u64),
    /// Run the words of the job as one command.
    Command,
}

impl GuestTask {
    /// How many suites it has, if they are named: the more, the longer it takes.
    pub fn suites(&self) -> usize {
        if let Self::Suites(suites) = self { suites.len() } else { 0 }
    }

    /// Whether it runs tests of the test program.
    pub fn runs_tests(&self) -> bool {
        matches!(self, Self::Suites(_) | Self::AllSuites)
    }

    /// The argument for the init.
    pub fn argument(&self) -> String {
        match self {
            Self::Suites(suites) => format!("tests={}", suites.join(",")),
            Self::AllSuites => "tests".to_owned(),
            Self::Soak(seconds) => format!("soak={seconds}"),
            Self::Command => "command".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_verifies_every_program_once_and_first() {
        assert_eq!(of(BootPlan::Once(TimeMode::Smp))[0], VERIFIER);
        assert!(!of(BootPlan::Once(TimeMode::Deterministic)).contains(&VERIFIER));
    }

    #[test]
    fn the_init_takes_suites_separated_by_commas() {
        assert_eq!(
            GuestTask::Suites(vec![VERIFIER, "counts:across_cpus"]).argument(),
            "tests=verifier,counts:across_cpus"
        );
        assert_eq!(GuestTask::AllSuites.argument(), "tests");
    }
}
