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
    cargo_build::build(["--release", "--target", &architecture.target()], |cargo| link_for(cargo, architecture))
}

/// Builds the binary that guests of this architecture run: the one that users run, or, for another architecture than this
/// machine's, the same with less optimization.
///
/// # Errors
/// Fails if wakelat does not build.
pub fn for_guests(architecture: Architecture) -> anyhow::Result<BuildOutput> {
    cargo_build::build(["--release", "--target", &architecture.target()], |cargo| {
        cargo.args(guest_profile(architecture));
        link_for(cargo, architecture);
    })
}

/// Builds the release binary for a `target` of this machine's architecture, with no library that it would have to find
/// at run time.
///
/// # Errors
/// Fails if wakelat does not build.
pub fn release_for(target: &str) -> anyhow::Result<BuildOutput> {
    cargo_build::build(["--release", "--target", target], |cargo| make_static(cargo, target))
}

/// Returns a command that builds the kernel tests and runs them on this machine.
///
/// # Errors
/// Fails on a machine of an architecture that there are no releases for.
pub fn kernel_tests() -> anyhow::Result<Command> {
    let own = Architecture::own()?;
    Ok(cargo_for(own, &["test"]))
}

/// Returns a command that builds the programs of the kernel tests for guests: those that a guest starts with, and the
/// tests if it runs `tests`. Those for this machine's architecture are the ones of [`kernel_tests`].
pub fn guest_programs(architecture: Architecture, tests: bool) -> Command {
    // With a test, cargo also builds the programs that are not tests, because a test may run them.
    cargo_for(architecture, if tests { &["test", "--no-run", "--test=kernel"] } else { &["build", "--bins"] })
}

fn cargo_for(architecture: Architecture, arguments: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(arguments).args(["--package=wakelat-tests", "--target", &architecture.target()]);
    link_for(&mut cargo, architecture);
    cargo
}

/// Cargo's arguments for the wakelat of guests. Building for another architecture takes longer than its guests run, so it is
/// done with little optimization; on this machine's architecture, they run the wakelat that the machine itself runs.
fn guest_profile(architecture: Architecture) -> &'static [&'static str] {
    // Not a variable, which the build of the BPF programs would inherit.
    if architecture.is_own() { &[] } else { &["--config", "profile.release.opt-level=1"] }
}

/// Makes cargo link programs for `architecture` statically.
fn link_for(cargo: &mut Command, architecture: Architecture) {
    let target = architecture.target();
    make_static(cargo, &target);
    if !architecture.is_own() {
        cargo.env(format!("CARGO_TARGET_{}_LINKER", in_variables(&target)), architecture.cross_linker());
    }
}

/// Makes cargo link programs for `target` statically.
fn make_static(cargo: &mut Command, target: &str) {
    // Set for this target only, because build scripts and procedural macros cannot be static.
    cargo.env(
        format!("CARGO_TARGET_{}_RUSTFLAGS", in_variables(target)),
        "-Ctarget-feature=+crt-static -Cstrip=symbols",
    );
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
