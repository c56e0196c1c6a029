//! `cargo xtask bench`: measures the cost of wakelat and of other tools, side by side.

use std::process::ExitCode;

use anyhow::ensure;
use overhead_bench::BenchArgs;

use crate::setup::Purpose;
use crate::{privilege, setup};

/// Measures, or runs a load for the process that measures.
pub fn main(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if let Some(load) = args.load() {
        overhead_bench::perform(load)?;
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(privilege::is_root(), "measuring needs root; run `sudo cargo xtask bench`");
    setup::ensure(Purpose::Build)?;
    if args.installs_tools() {
        setup::install(&overhead_bench::DEBIAN_PACKAGES)?;
    }
    overhead_bench::measure(args)?;
    Ok(ExitCode::SUCCESS)
}
