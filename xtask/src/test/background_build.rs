//! A build that runs beside the steps before the one that needs it.

use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// A build without output: the step that needs it runs cargo again, which reports what is wrong. Dropping it waits for its
/// end.
pub struct BackgroundBuild(Child);

impl BackgroundBuild {
    /// Begins a build.
    ///
    /// # Errors
    /// If cargo cannot be run.
    pub fn begin(mut cargo: Command) -> anyhow::Result<Self> {
        let child = cargo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        child.map(Self).context("cannot run cargo")
    }
}

impl Drop for BackgroundBuild {
    fn drop(&mut self) {
        // The step that needs the build waits for cargo's lock if this fails.
        let _ = self.0.wait();
    }
}
