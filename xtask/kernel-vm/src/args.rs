//! The arguments of `cargo xtask vm`.

use clap::ValueEnum;

use crate::{boot_plan::BootPlan, kernels::KERNELS, qemu::TimeMode};

/// What to run, and in which kernels.
#[derive(clap::Args, Debug, Default)]
pub struct VmArgs {
    /// Boot only this kernel: `6.12-rt` of the list, or any as `SUITE:SERIES-FLAVOUR`; may be repeated
    /// [default: the whole list]
    #[arg(long = "kernel", value_name = "NAME")]
    pub(crate) kernels: Vec<String>,
    /// Run the selection for every change: most kernels, few of them in every mode
    #[arg(long, conflicts_with_all = ["mode", "test", "all_suites", "command"])]
    pub(crate) everyday: bool,
    /// How time passes in the guest [default: smp for a command, both for tests; the whole list also has
    /// one kernel of each series counted and one repeated]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Modes>,
    /// What executes the guest; modes with counted time always use TCG
    #[arg(long, value_enum, default_value_t)]
    pub(crate) accel: AccelChoice,
    /// Number of guests to run in parallel, each on one CPU [default: the number of CPUs]
    #[arg(short, long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Fail a guest that prints nothing for this long, without the time it waits for a CPU of the host
    /// [default: 180]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) silence_limit: Option<u64>,
    /// Fail a guest that runs longer than this, without the time it waits for a CPU of the host [default:
    /// 1800]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) time_limit: Option<u64>,
    /// Run only tests whose name contains this
    #[arg(long, value_name = "TEXT", conflicts_with = "command")]
    pub(crate) test: Option<String>,
    /// Run all suites, not only those that each mode selects; `--test` also searches all of them
    #[arg(long, conflicts_with = "command")]
    pub(crate) all_suites: bool,
    /// Instead of the tests, run every command that measures for this long each, while two pipes keep two
    /// CPUs busy
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "600",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["everyday", "mode", "all_suites", "accept_instructions", "command"]
    )]
    pub(crate) soak: Option<u64>,
    /// Accept the verifier's instruction counts of this run
    #[arg(long, conflicts_with = "command")]
    pub(crate) accept_instructions: bool,
    /// Run this command in the guest instead of the tests; at a terminal, `sh` is a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

impl VmArgs {
    /// The arguments that select what `cargo xtask test` runs: the everyday selection on kernels of this machine's
    /// architecture. Building everything once more for another one takes longer than its tests.
    pub fn everyday() -> Self {
        let own = KERNELS.iter().filter(|spec| spec.architecture.is_own());
        Self { everyday: true, kernels: own.map(ToString::to_string).collect(), ..Self::default() }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Modes {
    /// Two CPUs, the host's time
    Smp,
    /// One CPU, time counted in instructions, identical runs
    Deterministic,
    /// Two CPUs that take turns, time counted in instructions
    Counted,
    /// 160 CPUs, the host's time
    Large,
    /// Smp and deterministic, one after the other
    Both,
    /// Deterministic, twice; the output must be identical
    Repeated,
}

impl Modes {
    pub(crate) const fn plans(self) -> &'static [BootPlan] {
        match self {
            Self::Smp => &[BootPlan::Once(TimeMode::Smp)],
            Self::Deterministic => &[BootPlan::Once(TimeMode::Deterministic)],
            Self::Counted => &[BootPlan::Once(TimeMode::Counted)],
            Self::Large => &[BootPlan::Once(TimeMode::Large)],
            Self::Both => &[BootPlan::Once(TimeMode::Smp), BootPlan::Once(TimeMode::Deterministic)],
            Self::Repeated => &[BootPlan::Twice],
        }
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum AccelChoice {
    /// Emulation: works everywhere
    #[default]
    Tcg,
    /// The host's CPU
    Kvm,
    /// KVM if a kernel boots under it within seconds, else TCG
    Auto,
}
