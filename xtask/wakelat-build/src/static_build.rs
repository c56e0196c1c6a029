//! Builds wakelat and its kernel tests as programs that need no library at run time.

use std::env;
use std::process::Command;

use crate::cargo_build;
pub use crate::cargo_build::BuildOutput;
use crate::workspace;

/// Builds the binary that users get on this machine's architecture and that guests run, linked with glibc.
///
/// # Errors
/// Fails if wakelat does not build.
pub fn released() -> anyhow::Result<BuildOutput> {
    release_for(&target())
}

/// The target that [`released`] compiles for.
fn target() -> String {
    format!("{}-unknown-linux-gnu", env::consts::ARCH)
}

/// Builds the release binary for `target`, with no library that it would have to find at run time.
///
/// # Errors
/// Fails if wakelat does not build.
pub fn release_for(target: &str) -> anyhow::Result<BuildOutput> {
    cargo_build::build(["--release", "--target", target], |cargo| make_static(cargo, target))
}

/// Builds the release binary for a `target` of another architecture, with the C compiler `linker`.
///
/// # Errors
/// Fails if wakelat does not build.
pub fn release_with_linker(target: &str, linker: &str) -> anyhow::Result<BuildOutput> {
    cargo_build::build(["--release", "--target", target], |cargo| {
        make_static(cargo, target);
        cargo.env(format!("CARGO_TARGET_{}_LINKER", in_variables(target)), linker);
    })
}

/// Returns a command that builds the kernel tests as [`released`] builds wakelat. It also runs them, unless
/// the caller adds `--no-run`.
pub fn kernel_tests() -> Command {
    let target = target();
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--package=wakelat-tests", "--release", "--target", &target]);
    make_static(&mut cargo, &target);
    cargo
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
