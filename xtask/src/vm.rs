//! `cargo xtask vm`: runs the kernel tests, or one command, in real kernels under QEMU.

use std::process::ExitCode;

use kernel_vm::VmArgs;

use crate::setup::{self, Purpose};

/// Runs the guests. The exit code is a failure if anything failed in one of them.
pub fn main(args: &VmArgs) -> anyhow::Result<ExitCode> {
    setup::ensure(Purpose::Test)?;
    let failed = kernel_vm::run(args)?.iter().any(|row| row.failure().is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
