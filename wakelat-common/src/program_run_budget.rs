//! The budget of program runs under `--max-overhead`: how many runs the programs may still do, on all CPUs
//! together, before they stop by themselves.

/// Number of program runs that a CPU takes at once from the budget that all CPUs share, so that few runs
/// have to access the shared cache line.
pub const RUNS_PER_BATCH: i64 = 32;

/// Runs of all programs on one CPU, under a limit.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CpuRuns {
    /// Runs that measured, since the start.
    pub measured: u64,
    /// Runs after the programs had stopped.
    pub stopped: u64,
    /// Runs that this CPU has taken from the budget and not used yet.
    pub reserved: i64,
}
