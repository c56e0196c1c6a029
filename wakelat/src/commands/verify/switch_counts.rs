//! One reading of the kernel's number of context switches, and of the runs of the program that sees them.

use std::path::Path;

use anyhow::Result;

use wakelat_kernel::context_switches;

/// The kernel's number of context switches, and the runs of the program on `sched_switch` read just before
/// and just after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounts {
    /// Runs of the program, read before the kernel's number.
    pub runs_before: u64,
    /// Context switches that the kernel has counted.
    pub kernel: u64,
    /// Runs of the program, read after the kernel's number.
    pub runs_after: u64,
}

impl SwitchCounts {
    /// Reads all three numbers; `runs` returns the current number of runs of the program.
    ///
    /// # Errors
    /// If the kernel's number cannot be read, and the errors of `runs`.
    pub fn read(proc: &Path, runs: impl Fn() -> Result<u64>) -> Result<Self> {
        let runs_before = runs()?;
        let kernel = context_switches::count(proc)?;
        Ok(Self { runs_before, kernel, runs_after: runs()? })
    }
}
