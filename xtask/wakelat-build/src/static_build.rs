//! Builds wakelat and its kernel tests as programs that need no library at run time.

use std::process::Command;

use crate::architecture::Architecture;
use crate::cargo_build;
pub use crate::cargo_build::BuildOutput;
use crate::workspace;

/// Builds the binary that users of this architecture run, linked with glibc.
///
/// # Errors
/// Fails if wakelat does not build.
pub fn released(architecture: Architecture) -> anyhow::Result<BuildOutput> {
    cargo_build::run(released_command(architecture))
}

/// Returns the command with which [`released`] builds that binary.
pub fn released_command(architecture: Architecture) -> Command {
    let mut cargo = cargo_build::command(["--release", "--target", &architecture.target()]);
    link_for(&mut cargo, architecture, RELEASED);
    cargo
}

/// Builds the binary that guests of this architecture run: the one that users run, or, for another architecture than this
/// machine's, the same with less optimization.
///
/// # Errors
/// Fails if wakelat does not build.
pub fn for_guests(architecture: Architecture) -> anyhow::Result<BuildOutput> {
    let mut cargo = released_command(architecture);
    cargo.args(guest_profile(architecture));
    cargo_build::run(cargo)
}

/// Builds the release binary for a `target` of this machine's architecture, with no library that it would have to find
/// at run time.
///
/// # Errors
/// Fails if wakelat does not build.
pub fn release_for(target: &str) -> anyhow::Result<BuildOutput> {
    let mut cargo = cargo_build::command(["--release", "--target", target]);
    make_static(&mut cargo, target, RELEASED);
    cargo_build::run(cargo)
}

/// Returns a command that builds the tests of the workspace that need no kernel, and runs them on this machine.
pub fn unit_tests() -> Command {
    Architecture::own().map_or_else(
        |_| {
            let mut cargo = workspace::cargo();
            cargo.args(TESTS);
            cargo
        },
        tests_for,
    )
}

/// Returns a command that builds the kernel tests and runs them on this machine. They have the dependencies of
/// [`unit_tests`], so cargo builds these only once.
///
/// # Errors
/// Fails on a machine of an architecture that there are no releases for.
pub fn kernel_tests() -> anyhow::Result<Command> {
    let mut cargo = tests_for(Architecture::own()?);
    cargo.arg(KERNEL_TESTS);
    Ok(cargo)
}

/// Returns a command that builds the programs of the kernel tests for guests: those that a guest starts with, and, if it
/// runs `tests`, the tests: for this machine's architecture, the ones of [`kernel_tests`].
pub fn guest_programs(architecture: Architecture, tests: bool) -> Command {
    if tests {
        // Cargo also builds the programs of the package that are not tests, because a test may run them.
        let mut cargo = tests_for(architecture);
        cargo.args([KERNEL_TESTS, "--no-run"]);
        return cargo;
    }
    cargo_for(architecture, &["build", "--bins", "--package=wakelat-tests"])
}

/// The test program of the package `wakelat-tests`, which cargo runs only if it is named.
const KERNEL_TESTS: &str = "--test=kernel";

/// Of the whole workspace: with fewer packages, their dependencies would have fewer features, and cargo would build them
/// again.
const TESTS: [&str; 2] = ["test", "--workspace"];

fn tests_for(architecture: Architecture) -> Command {
    cargo_for(architecture, &TESTS)
}

fn cargo_for(architecture: Architecture, arguments: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(arguments).args(["--target", &architecture.target()]);
    link_for(&mut cargo, architecture, STATIC);
    cargo
}

/// Cargo's arguments for the wakelat of guests. Building for another architecture takes longer than its guests run, so it is
/// done with little optimization; on this machine's architecture, they run the wakelat that the machine itself runs.
fn guest_profile(architecture: Architecture) -> &'static [&'static str] {
    // Not a variable, which the build of the BPF programs would inherit.
    if architecture.is_own() { &[] } else { &["--config", "profile.release.opt-level=1"] }
}

/// The compiler's flags for a program that needs no library at run time, and for one without symbols too.
const STATIC: &str = "-Ctarget-feature=+crt-static";
const RELEASED: &str = "-Ctarget-feature=+crt-static -Cstrip=symbols";

/// Makes cargo link programs for `architecture` statically, with these flags.
fn link_for(cargo: &mut Command, architecture: Architecture, flags: &str) {
    let target = architecture.target();
    make_static(cargo, &target, flags);
    if !architecture.is_own() {
        cargo.env(format!("CARGO_TARGET_{}_LINKER", in_variables(&target)), architecture.cross_linker());
    }
}

/// Makes cargo link programs for `target` statically, with these flags.
fn make_static(cargo: &mut Command, target: &str, flags: &str) {
    // Set for this target only, because build scripts and procedural macros cannot be static.
    cargo.env(format!("CARGO_TARGET_{}_RUSTFLAGS", in_variables(target)), flags);
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    if target.ends_with("-musl") {
        // ring's C code calls nothing but memcpy and the like, so any compiler for this architecture will do. Some
        // distributions compile with checks that are functions of glibc.
        let target = target.replace('-', "_");
        cargo.env(format!("CC_{target}"), "cc").env(format!("CFLAGS_{target}"), "-U_FORTIFY_SOURCE");
    }
}

/// A target as the names of cargo's variables contain it.
fn in_variables(target: &str) -> String {
    target.replace('-', "_").to_uppercase()
}
