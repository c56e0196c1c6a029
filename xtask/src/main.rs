//! The commands of developers and CI: `cargo xtask COMMAND`.
//!
//! Each command has its own file or directory. A command that depends on the machine's tools starts with
//! [`setup`], so that any of them can be the first one in a fresh clone.

mod bench;
mod build;
mod co_re_check;
mod dist;
mod mutants;
mod privilege;
mod run;
mod setup;
mod test;
mod vm;

use std::process::ExitCode;

use clap::Parser;

/// Build, test and measure wakelat
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
enum Command {
    /// Install what is missing to build and test
    Setup(setup::SetupArgs),
    /// Build wakelat and print the path of the program
    Build(build::BuildArgs),
    /// Build wakelat and run it: `cargo xtask run -- hist --duration 10s`
    Run(run::RunArgs),
    /// Check the format, lints and documentation, and run every test
    Test(test::TestArgs),
    /// Run the kernel tests, or a command, in real kernels under QEMU
    Vm(kernel_vm::VmArgs),
    /// Build the files of a release into target/dist
    Dist(dist::DistArgs),
    /// Measure what wakelat and other tools cost, side by side
    Bench(overhead_bench::BenchArgs),
    /// Plant bugs, one at a time, and show which tests catch them
    Mutants(mutants::MutantsArgs),
    /// Apply the CO-RE relocations against the BTF of kernels, without running them
    CoreCheck(co_re_check::CoreCheckArgs),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Setup(args) => setup::main(&args),
        Command::Build(args) => build::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Test(args) => test::main(&args),
        Command::Vm(args) => vm::main(&args),
        Command::Dist(args) => dist::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Mutants(args) => mutants::main(&args),
        Command::CoreCheck(args) => co_re_check::main(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: error: {error:#}");
        ExitCode::FAILURE
    })
}
