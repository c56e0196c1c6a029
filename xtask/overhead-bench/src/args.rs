//! The arguments of `cargo xtask bench`.

/// What to measure, and how thoroughly.
#[derive(clap::Args)]
pub struct BenchArgs {
    /// Run a few short rounds, to check that everything works
    #[arg(long)]
    pub(crate) quick: bool,

    /// Run only these workloads; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Vec<String>,

    /// Run only these instruments, and the empty programs, which every net cost needs; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) instrument: Vec<String>,

    /// Number of rounds in which each instrument runs [default: 5, with --quick 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: Option<u32>,

    /// Write the table into docs/overhead.md after a partial run too, as a whole run always does
    #[arg(long)]
    pub(crate) write: bool,

    /// Install the tools to compare with, if they are missing
    #[arg(long)]
    pub(crate) install: bool,

    /// Run a load for another process of this program
    #[arg(long, hide = true)]
    pub(crate) perform: Option<String>,
}

impl BenchArgs {
    /// Whether to install the tools to compare with ([`DEBIAN_PACKAGES`](crate::DEBIAN_PACKAGES)) first.
    pub fn installs_tools(&self) -> bool {
        self.install
    }

    /// The load that this process runs for another one that measures, if any: pass it to
    /// [`perform`](crate::perform) and do nothing else.
    pub fn load(&self) -> Option<&str> {
        self.perform.as_deref()
    }
}
