//! Which test binaries a guest runs.

use super::qemu::Mode;

/// What depends on the kernel, as much as every kernel of the list is worth under emulation: the whole list is to take two
/// processors some ten minutes. `suite:text` runs only the tests with `text` in their names; a suite that is not built is
/// not run. The others say nothing that the host's kernel does not say as well (`bad_places`, `losses`, `overhead`, `workloads`), take
/// minutes in an emulator (`traps`), or need programs that are not in the guest (`peers`).
pub const fn of(mode: Mode) -> &'static [&'static str] {
    match mode {
        // What needs a second processor, or does not ask how long anything took.
        Mode::Smp => &["kernel", "counts:across_cpus", "filters", "verify", "timerlat"],
        // What is exact where time is.
        Mode::Deterministic => &[
            "kernel",
            "context",
            "counts",
            "oracle",
            "verify:of_all_tasks_agrees_under_load",
            "timerlat",
            "timerlat_report",
            "interference",
            "rtla",
            "why",
        ],
    }
}

/// The init's argument for the tests: those of `mode`, or all there are.
pub fn task(mode: Mode, all: bool) -> String {
    if all { "tests".to_owned() } else { format!("tests={}", of(mode).join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_begins_with_what_all_else_stands_on() {
        assert!([Mode::Smp, Mode::Deterministic].iter().all(|mode| of(*mode)[0] == "kernel"));
        assert_eq!(
            task(Mode::Deterministic, false),
            "tests=kernel,context,counts,oracle,verify:of_all_tasks_agrees_under_load,timerlat,timerlat_report,interference,rtla,why"
        );
        assert_eq!(task(Mode::Deterministic, true), "tests");
    }
}
