//! The programs that run in a guest, and the one root file system that all guests of an architecture share.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, ensure};
use serde_json::Value;
use wakelat_build::{Architecture, static_build, workspace};

use super::initramfs::Initramfs;

/// The programs that the guests run, sorted by name. In the order in which cargo happens to finish them, no
/// two images would be the same, and so no two runs in the deterministic mode.
#[derive(Default)]
pub struct GuestPrograms {
    /// Programs for `/bin`, and the init.
    binaries: BTreeMap<String, PathBuf>,
    /// The test program, for `/tests`, if the guests run tests.
    tests: BTreeMap<String, PathBuf>,
}

impl GuestPrograms {
    /// Builds the static `wakelat` for an architecture, and the static test program if the guests run `tests`.
    pub fn build(architecture: Architecture, tests: bool) -> anyhow::Result<Self> {
        let mut programs = Self::default();
        programs.binaries.insert("wakelat".to_owned(), static_build::for_guests(architecture)?.binary);
        // Static programs need neither a libc nor a loader in the guest.
        let mut cargo = static_build::guest_programs(architecture, tests);
        let output = cargo
            .arg("--message-format=json-render-diagnostics")
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run cargo")?;
        ensure!(output.status.success(), "the kernel tests do not build for `{}`", architecture.name());
        for message in String::from_utf8_lossy(&output.stdout).lines() {
            programs.add_message(message);
        }
        Ok(programs)
    }

    /// Records the program that a message of cargo's announces, if any.
    fn add_message(&mut self, message: &str) {
        let Ok(artifact) = serde_json::from_str::<Value>(message) else { return };
        let target = &artifact["target"];
        let (Some(path), Some(name)) = (artifact["executable"].as_str(), target["name"].as_str()) else { return };
        let (name, path) = (name.to_owned(), PathBuf::from(path));
        match target["kind"][0].as_str() {
            Some("test") => drop(self.tests.insert(name, path)),
            // `cargo test` builds a binary twice: as itself, and with its unit tests.
            Some("bin") if artifact["profile"]["test"] != true => drop(self.binaries.insert(name, path)),
            _ => {}
        }
    }

    /// Writes the root file system to `path`. `others` lists third-party programs and their libraries, each
    /// with its path in the guest; `job` holds the words that go with the init's task.
    pub fn write_image(
        &self,
        path: &Path,
        others: &[(String, PathBuf)],
        busybox: Option<&Path>,
        job: &[String],
    ) -> anyhow::Result<()> {
        let mut root = Initramfs::default();
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read `{}`", path.display()));
        for (name, program) in &self.binaries {
            let location = if name == "init" { "init".to_owned() } else { format!("bin/{name}") };
            root.program(&location, &read(program)?);
        }
        for (name, program) in &self.tests {
            root.program(&format!("tests/{name}"), &read(program)?);
        }
        for (location, file) in others {
            root.program(location, &read(file)?);
        }
        if let Some(busybox) = busybox {
            root.program("bin/busybox", &read(busybox)?);
        }
        let words: String = job.iter().map(|word| format!("{word}\0")).collect();
        root.data("job", words.as_bytes());
        fs::write(path, root.finish()).with_context(|| format!("cannot write `{}`", path.display()))
    }
}

/// The directory of the images, for one run at a time.
pub struct ImageDirectory {
    path: PathBuf,
    _lock: File,
}

impl ImageDirectory {
    /// Locks the directory; waits while another run uses it.
    pub fn take() -> anyhow::Result<Self> {
        let dir = workspace::root().join("target/vm");
        fs::create_dir_all(&dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
        let lock = File::create(dir.join("lock")).context("cannot create the lock of `target/vm`")?;
        if lock.try_lock().is_err() {
            eprintln!("vm: waiting for another run in this checkout");
            lock.lock().context("cannot lock `target/vm`")?;
        }
        Ok(Self { path: dir, _lock: lock })
    }

    /// The path of the image for an architecture.
    pub fn image(&self, architecture: Architecture) -> PathBuf {
        self.path.join(format!("initramfs-{}.cpio", architecture.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_and_integration_tests_go_into_the_image() {
        let message = |kind: &str, name: &str, test: bool, executable: &str| {
            format!(
                r#"{{"target":{{"name":"{name}","kind":["{kind}"]}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let mut programs = GuestPrograms::default();
        programs.add_message(&message("bin", "init", false, r#""/t/release/init""#));
        programs.add_message(&message("bin", "init", true, r#""/t/release/deps/init-1a2b""#));
        programs.add_message(&message("test", "kernel", true, r#""/t/release/deps/kernel-1a2b""#));
        programs.add_message(&message("lib", "wakelat_tests", true, r#""/t/release/deps/wakelat_tests-1a2b""#));
        programs.add_message(&message("lib", "libc", false, "null"));
        programs.add_message(r#"{"reason":"build-finished","success":true}"#);
        assert_eq!(programs.binaries, [("init".to_owned(), PathBuf::from("/t/release/init"))].into());
        assert_eq!(programs.tests, [("kernel".to_owned(), PathBuf::from("/t/release/deps/kernel-1a2b"))].into());
    }
}
