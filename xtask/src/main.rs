//! What a developer or CI types: `cargo xtask COMMAND`.
//!
//! One file or directory per command. A command that needs something of the machine begins with
//! [`setup`], so that each can be the first thing typed in a fresh clone.

mod bench;
mod build;
mod core_check;
mod dist;
mod mutants;
mod privilege;
mod run;
mod setup;
mod test;
mod vm;
mod vmlinuz;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

/// What a developer or CI types
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
enum Command {
    /// Install what building and testing need and this machine lacks
    Setup(setup::SetupArgs),
    /// Build wakelat and run it: `cargo xtask run -- hist --duration 10s`
    Run(run::RunArgs),
    /// Check the format, lints and documentation, and run every test
    Test(test::TestArgs),
    /// Run the kernel tests, or a command, in real kernels under QEMU
    Vm(vm::VmArgs),
    /// Build the files of a release into target/dist
    Dist(dist::DistArgs),
    /// Measure what wakelat and other tools cost, side by side
    Bench(bench::BenchArgs),
    /// Plant bugs, one at a time, and show which tests notice
    Mutants(mutants::MutantsArgs),
    /// Apply the CO-RE relocations against the BTF of kernels, without running them
    CoreCheck(core_check::CoreCheckArgs),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Setup(args) => setup::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Test(args) => test::main(&args),
        Command::Vm(args) => vm::main(&args),
        Command::Dist(args) => dist::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Mutants(args) => mutants::main(&args),
        Command::CoreCheck(args) => core_check::main(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: error: {error:#}");
        ExitCode::FAILURE
    })
}
