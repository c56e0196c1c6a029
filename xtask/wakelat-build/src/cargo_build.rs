//! Runs `cargo build` for wakelat and finds the files that it produced.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use bpf_toolchain::OBJECT;
use serde_json::Value;

use crate::workspace;

/// The files that a build of wakelat produces.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BuildOutput {
    /// The `wakelat` executable.
    pub binary: PathBuf,
    /// The BPF object that is embedded in it, with its debug information.
    pub object: PathBuf,
}

/// Builds the release profile; progress goes to standard error.
///
/// # Errors
/// Fails if wakelat does not build.
pub fn release() -> anyhow::Result<BuildOutput> {
    run(command(["--release"]))
}

/// Returns a command that builds wakelat, with additional cargo arguments, for [`run`].
pub(crate) fn command<Arg: AsRef<OsStr>>(args: impl IntoIterator<Item = Arg>) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--package=wakelat", "--bin=wakelat", "--message-format=json-render-diagnostics"]).args(args);
    cargo
}

/// Builds wakelat with a [`command`]; progress goes to standard error.
pub(crate) fn run(mut cargo: Command) -> anyhow::Result<BuildOutput> {
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("wakelat does not build");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let has_object = |out_dir: &PathBuf| out_dir.join(OBJECT).exists();
    let built = built(&messages, has_object).context("cargo built wakelat but does not say where it is")?;
    Ok(built)
}

/// Parses cargo's messages, one JSON object per line, for the executable and for the output directory of
/// the one build script that produces an object.
fn built(messages: &str, has_object: impl Fn(&PathBuf) -> bool) -> Option<BuildOutput> {
    let messages = || messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let path = |value: &Value| value.as_str().map(PathBuf::from);
    let of = |reason: &'static str| messages().filter(move |message| message["reason"] == reason);
    let binary = of("compiler-artifact").find_map(|artifact| path(&artifact["executable"]))?;
    let out_dir = of("build-script-executed").filter_map(|script| path(&script["out_dir"])).find(has_object)?;
    Some(BuildOutput { binary, object: out_dir.join(OBJECT) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_where_the_build_script_left_it() {
        let messages = r#"
            {"reason":"build-script-executed","package_id":"libc","out_dir":"/target/build/libc-1/out"}
            {"reason":"compiler-artifact","target":{"name":"libc"},"executable":null}
            {"reason":"build-script-executed","package_id":"wakelat","out_dir":"/target/build/wakelat-2/out"}
            {"reason":"compiler-artifact","target":{"name":"wakelat"},"executable":"/target/release/wakelat"}
            {"reason":"build-finished","success":true}"#;
        let found = built(messages, |out_dir| out_dir.ends_with("wakelat-2/out"));
        let object = "/target/build/wakelat-2/out/wakelat.bpf.o".into();
        assert_eq!(found, Some(BuildOutput { binary: "/target/release/wakelat".into(), object }));
    }

    #[test]
    fn a_build_without_an_object_is_not_a_build() {
        let messages = r#"{"reason":"compiler-artifact","executable":"/target/release/wakelat"}"#;
        assert_eq!(built(messages, |_| true), None);
    }
}
