//! Decides how each kernel is booted and which suites it runs. Pure.

use wakelat_build::Architecture;

use super::{
    boot_plan::BootPlan,
    kernels::{self, Flavour, KernelSpec},
    qemu::TimeMode,
    suites,
};

/// One boot, or two of the same machine, and the suites to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// How often the kernel is booted, and how its time passes.
    pub plan: BootPlan,
    /// The suites, in the form that the init takes.
    pub suites: Vec<&'static str>,
}

/// What a kernel runs with every change, besides the suites on two CPUs that every kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The verifier, with every program.
    Verifier,
    /// Filters, groups, causes and the sandbox on two CPUs.
    Selected,
    /// The cross-check with hist triggers on two CPUs.
    Triggers,
    /// Waits of tasks that were preempted on their way to sleep, on two CPUs.
    Preemption,
    /// The tracers on two CPUs.
    Tracers,
    /// What the oldest kernel runs in the deterministic mode.
    OldestDeterministic,
    /// What the newest kernel with tracers runs in the deterministic mode.
    NewestDeterministic,
    /// Planted causes between two CPUs.
    Counted,
}

/// What neighbours say alike, one of them says: the verifier is that of a series; filters, groups and the sandbox depend on
/// what a kernel offers, and the oldest one offers least; causes depend on its scheduler. With `--full`, every kernel runs
/// all suites.
const EVERYDAY: &[(&str, &[Part])] = &[
    ("5.10-cloud", &[Part::Verifier, Part::Selected, Part::OldestDeterministic]),
    ("6.1-cloud", &[Part::Verifier, Part::Triggers]),
    ("6.1-rt", &[Part::Tracers]),
    ("6.12-rt", &[Part::Verifier, Part::Preemption]),
    // The oldest kernel with the tracepoints of both tracers.
    ("6.19-rt", &[Part::Verifier]),
    ("7.2-cloud", &[Part::Verifier, Part::Counted]),
    ("7.2-rt", &[Part::NewestDeterministic]),
];

/// Kernels that run only with `--full`: `6.12-rt` runs everything that shows on `6.12-cloud`, and building for another
/// architecture and emulating it are slow.
const ONLY_FULL: &[&str] = &["6.12-cloud", "6.1-rt-arm64", "6.12-arm64-16k"];

/// The boots of a kernel with every change.
pub fn everyday(spec: &KernelSpec) -> Vec<Job> {
    let name = spec.to_string();
    if ONLY_FULL.contains(&&*name) {
        return Vec::new();
    }
    if spec.architecture != Architecture::X86_64 {
        return vec![Job { plan: BootPlan::Once(TimeMode::Smp), suites: suites::OTHER_ARCHITECTURE.to_vec() }];
    }
    let parts = EVERYDAY.iter().find(|(kernel, _)| *kernel == name).map_or(&[][..], |(_, parts)| parts);
    let mut smp = suites::EVERY_KERNEL.to_vec();
    let mut jobs = Vec::new();
    for part in parts {
        match part {
            Part::Verifier => smp.insert(0, suites::VERIFIER),
            Part::Selected => smp.extend(suites::SELECTED_KERNELS),
            Part::Triggers => smp.extend(suites::SOME_TRIGGERS),
            Part::Preemption => smp.extend(suites::PREEMPTION),
            Part::Tracers => smp.extend(suites::TRACERS),
            Part::OldestDeterministic => jobs.push(deterministic(suites::OLDEST_DETERMINISTIC)),
            Part::NewestDeterministic => jobs.push(deterministic(suites::NEWEST_DETERMINISTIC)),
            Part::Counted => jobs.push(whole(BootPlan::Once(TimeMode::Counted))),
        }
    }
    jobs.insert(0, Job { plan: BootPlan::Once(TimeMode::Smp), suites: smp });
    jobs
}

/// All suites in all modes. Only one kernel of each series is counted: what happens between two CPUs
/// depends on the series, and hardly on the configuration. Only one kernel is booted twice: that runs are
/// repeatable is a property of the emulator.
pub fn full(spec: &KernelSpec, all: &[KernelSpec]) -> Vec<Job> {
    let mut jobs = vec![whole(BootPlan::Once(TimeMode::Smp)), whole(BootPlan::Once(TimeMode::Deterministic))];
    if kernels::one_of_each_series(all).contains(spec) {
        jobs.push(whole(BootPlan::Once(TimeMode::Counted)));
    }
    // The newest kernel without the tracers: what grows with the CPUs is the same in all kernels.
    if kernels::newest_of(Flavour::Cloud, all) == Some(spec) {
        jobs.push(whole(BootPlan::Once(TimeMode::Large)));
    }
    // The newest kernel with tracers, which only RT kernels have.
    if kernels::newest_of(Flavour::Rt, all) == Some(spec) {
        jobs.push(whole(BootPlan::Twice));
    }
    jobs
}

fn deterministic(suites: &[&'static str]) -> Job {
    Job { plan: BootPlan::Once(TimeMode::Deterministic), suites: suites.to_vec() }
}

/// All suites of a boot plan.
pub fn whole(plan: BootPlan) -> Job {
    Job { plan, suites: suites::of(plan) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::kernels::KERNELS;

    fn modes(jobs: &[Job]) -> Vec<String> {
        jobs.iter().map(|job| job.plan.to_string()).collect()
    }

    #[test]
    fn most_kernels_run_on_two_cpus_every_day_and_one_of_each_series_verifies_all_programs() {
        let mut verified = BTreeSet::new();
        for spec in KERNELS.iter().filter(|spec| !ONLY_FULL.contains(&&*spec.to_string())) {
            let jobs = everyday(spec);
            assert_eq!(jobs[0].plan, BootPlan::Once(TimeMode::Smp), "{spec}");
            let has = |suite| jobs[0].suites.contains(suite);
            assert_eq!(suites::EVERY_KERNEL.iter().all(has), spec.architecture == Architecture::X86_64, "{spec}");
            if jobs[0].suites[0] == suites::VERIFIER {
                verified.insert(&*spec.series);
            }
        }
        assert!(KERNELS.iter().all(|spec| verified.contains(&*spec.series)), "{verified:?}");
    }

    #[test]
    fn everyday_jobs_are_in_the_full_list() {
        for spec in KERNELS {
            let full = full(spec, KERNELS);
            for job in everyday(spec) {
                let whole = full.iter().find(|whole| whole.plan == job.plan);
                let whole = whole.unwrap_or_else(|| panic!("{spec} is not {} in the full list", job.plan));
                // All tests of a suite include those that some text chooses.
                let name = |suite: &&'static str| suite.split(':').next();
                let has = |suite| whole.suites.iter().any(|known| known == suite || Some(*known) == name(suite));
                assert!(job.suites.iter().all(has), "{spec} {}", job.plan);
            }
        }
    }

    #[test]
    fn everyday_names_kernels_of_the_list() {
        for name in EVERYDAY.iter().map(|(name, _)| name).chain(ONLY_FULL) {
            assert!(KERNELS.iter().any(|spec| spec.to_string() == *name), "{name}");
        }
    }

    #[test]
    fn the_full_list_has_every_kernel_in_both_modes_and_one_of_each_series_counted() {
        let all: Vec<_> = KERNELS.iter().map(|spec| modes(&full(spec, KERNELS))).collect();
        assert!(all.iter().all(|modes| modes.starts_with(&["smp".to_owned(), "deterministic".to_owned()])));
        let with = |mode: &str| all.iter().filter(|modes| modes.iter().any(|known| known == mode)).count();
        assert_eq!(with("counted"), kernels::one_of_each_series(KERNELS).len());
        assert_eq!(with("repeated"), 1);
        assert_eq!(with("large"), 1);
    }
}
