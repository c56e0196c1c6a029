//! What all guests of one architecture share: the emulator and the root file system.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use wakelat_build::Architecture;

use super::{
    emulator::Emulator,
    fetch,
    image::{GuestPrograms, ImageDirectory},
    qemu::Accel,
    rtla,
};

/// What the guests of one architecture run with.
pub struct Platform {
    /// The emulator that runs them.
    pub emulator: Emulator,
    /// The root file system.
    pub image: PathBuf,
    /// What executes their instructions.
    pub accel: Accel,
}

/// What a root file system contains besides wakelat, rtla and a shell.
pub struct ImageContent<'a> {
    /// Whether it has the test program.
    pub tests: bool,
    /// Whether it has the commands of busybox: for a command that the user gives.
    pub commands: bool,
    /// The words that go with the init's task.
    pub job: &'a [String],
}

/// The emulator of an architecture, if this machine can also build programs for it.
///
/// # Errors
/// Fails if something is missing; the error has the remedy.
pub fn emulator(architecture: Architecture) -> anyhow::Result<Emulator> {
    let missing = architecture.missing_tool();
    ensure!(missing.is_none(), "{} to build for it; run `cargo xtask setup`", missing.unwrap_or_default());
    Emulator::find(architecture)
}

impl Platform {
    /// Builds the programs and the root file system, for guests that QEMU's translator executes.
    ///
    /// # Errors
    /// Fails if the programs do not build, or the root file system cannot be written.
    pub fn prepare(emulator: Emulator, directory: &ImageDirectory, content: &ImageContent<'_>) -> anyhow::Result<Self> {
        let architecture = emulator.architecture();
        let programs = GuestPrograms::build(architecture, content.tests)?;
        let image = directory.image(architecture);
        let (mut others, mut commands) = (peers(architecture), busybox(architecture));
        if !content.commands {
            // wakelat only needs a shell. The other commands would change the environment of the tests.
            others.extend(commands.take().map(|shell| ("bin/sh".to_owned(), shell)));
        }
        programs
            .write_image(&image, &others, commands.as_deref(), content.job)
            .with_context(|| format!("no root file system for `{}`", architecture.name()))?;
        Ok(Self { emulator, image, accel: Accel::Tcg })
    }
}

/// The files of other tools to compare wakelat with; a test that does not find its tool is skipped.
fn peers(architecture: Architecture) -> Vec<(String, PathBuf)> {
    if !architecture.is_own() {
        // They are those of this machine.
        return Vec::new();
    }
    rtla::files().unwrap_or_else(|why| {
        eprintln!("vm: no rtla in the guests: {why:#}");
        Vec::new()
    })
}

fn busybox(architecture: Architecture) -> Option<PathBuf> {
    match fetch::busybox(architecture) {
        Ok(path) => Some(path),
        Err(why) => {
            eprintln!("vm: no busybox, only wakelat's own programs: {why:#}");
            None
        }
    }
}
