//! Where to look for compilers and the linker.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{CHOICE, Compiler, CoreLibrary};

/// Where this process looks for tools, as its environment configures it.
#[derive(Clone, Debug)]
pub struct SearchPaths {
    /// The toolchain that [`CHOICE`] names; if set, no other is considered.
    pub choice: Option<String>,
    /// The cargo that runs this process, or the one in `PATH`: for compilers that come without a cargo.
    pub cargo: PathBuf,
    /// The compiler of that cargo.
    pub rustc: PathBuf,
    /// Directories to search for programs, in order: `PATH`, then cargo's install directory.
    pub path: Vec<PathBuf>,
    /// The prefix of Debian's compiler: `/usr`.
    pub system: PathBuf,
}

impl SearchPaths {
    /// Reads the search paths from the environment of this process.
    pub fn from_environment() -> Self {
        let program = |variable, name: &str| env::var_os(variable).unwrap_or_else(|| OsString::from(name)).into();
        let home = |variable, below: &str| {
            env::var_os(variable).map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(below)))
        };
        let mut path: Vec<_> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
        path.extend(home("CARGO_HOME", ".cargo").map(|home| home.join("bin")));
        Self {
            choice: env::var(CHOICE).ok().filter(|choice| !choice.is_empty()),
            cargo: program("CARGO", "cargo"),
            rustc: program("RUSTC", "rustc"),
            path,
            system: "/usr".into(),
        }
    }

    /// The path of bpf-linker, if one of the directories has it.
    pub fn linker(&self) -> Option<PathBuf> {
        self.program("bpf-linker")
    }

    /// The candidate compilers, the most likely one first.
    pub fn compilers(&self, target: &str) -> Vec<Compiler> {
        let sysroots = match &self.choice {
            Some(directory) if directory.contains('/') => vec![Some(PathBuf::from(directory))],
            Some(name) => vec![self.rustup_sysroot(name)],
            None => vec![sysroot(&self.rustc), Some(self.system.clone()), self.rustup_sysroot("nightly")],
        };
        sysroots.into_iter().flatten().filter_map(|sysroot| self.compiler(&sysroot, target)).collect()
    }

    fn compiler(&self, sysroot: &Path, target: &str) -> Option<Compiler> {
        let rustc = sysroot.join("bin/rustc");
        if !rustc.exists() {
            return None;
        }
        let rustlib = sysroot.join("lib/rustlib");
        let core = if rustlib.join(target).join("lib").exists() {
            Some(CoreLibrary::Prebuilt)
        } else if rustlib.join("src/rust/library/core").exists() && is_nightly(&rustc) {
            Some(CoreLibrary::Source)
        } else {
            None
        };
        // Debian's compiler for BPF comes without a cargo, and any cargo works with it. `-Zbuild-std` needs
        // the nightly's own.
        let own = sysroot.join("bin/cargo");
        let cargo = if own.exists() { own } else { self.cargo.clone() };
        Some(Compiler { rustc, cargo, core })
    }

    fn rustup_sysroot(&self, name: &str) -> Option<PathBuf> {
        let rustup = self.program("rustup")?;
        // A lookup must not install anything: newer versions of rustup fetch a toolchain when it is
        // requested.
        let rustc =
            output(Command::new(rustup).args(["which", "--toolchain", name, "rustc"]).env("RUSTUP_AUTO_INSTALL", "0"))?;
        Some(Path::new(&rustc).parent()?.parent()?.to_owned())
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        self.path.iter().map(|directory| directory.join(name)).find(|file| file.is_file())
    }
}

fn sysroot(rustc: &Path) -> Option<PathBuf> {
    output(Command::new(rustc).args(["--print", "sysroot"])).map(PathBuf::from)
}

fn is_nightly(rustc: &Path) -> bool {
    output(Command::new(rustc).arg("--version")).is_some_and(|version| version.contains("-nightly"))
}

/// What a command prints, without the line end; `None` if it cannot be run or fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const BPF: &str = "bpfel-unknown-none";

    /// A fake machine in a directory, without rustup and compilers until the test adds them.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str) -> Self {
            let root = env::temp_dir().join(format!("bpf-toolchain-{name}-{}", std::process::id()));
            fs::create_dir_all(root.join("bin")).unwrap();
            Self(root)
        }

        fn program(&self, path: &str, script: &str) {
            let file = self.0.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn directory(&self, path: &str) {
            fs::create_dir_all(self.0.join(path)).unwrap();
        }

        fn search_paths(&self, choice: Option<&str>) -> SearchPaths {
            SearchPaths {
                choice: choice.map(str::to_owned),
                cargo: "/outer/cargo".into(),
                rustc: self.0.join("bin/rustc"),
                path: vec![self.0.join("bin")],
                system: self.0.join("usr"),
            }
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_empty_machine_has_nothing() {
        let machine = Machine::new("empty");
        assert_eq!(machine.search_paths(None).compilers(BPF), []);
        assert_eq!(machine.search_paths(None).linker(), None);
    }

    #[test]
    fn debians_compiler_is_run_by_the_outer_cargo() {
        let machine = Machine::new("debian");
        machine.program("usr/bin/rustc", "exit 1");
        machine.directory("usr/lib/rustlib/bpfel-unknown-none/lib");
        let found = machine.search_paths(None).compilers(BPF);
        let rustc = machine.0.join("usr/bin/rustc");
        assert_eq!(found, [Compiler { rustc, cargo: "/outer/cargo".into(), core: Some(CoreLibrary::Prebuilt) }]);
    }

    #[test]
    fn a_nightly_is_found_through_rustup_and_runs_its_own_cargo() {
        let machine = Machine::new("nightly");
        let nightly = machine.0.join("nightly");
        machine.program("bin/rustup", &format!("echo {}/bin/rustc", nightly.display()));
        machine.program("nightly/bin/rustc", "echo 'rustc 1.97.0-nightly (abc 2026-05-01)'");
        machine.program("nightly/bin/cargo", "");
        machine.directory("nightly/lib/rustlib/src/rust/library/core");
        let found = machine.search_paths(None).compilers(BPF);
        let cargo = nightly.join("bin/cargo");
        assert_eq!(found, [Compiler { rustc: nightly.join("bin/rustc"), cargo, core: Some(CoreLibrary::Source) }]);
    }

    #[test]
    fn source_beside_a_stable_compiler_is_not_used() {
        let machine = Machine::new("stable");
        machine.program("usr/bin/rustc", "echo 'rustc 1.95.0 (abc 2026-05-01)'");
        machine.directory("usr/lib/rustlib/src/rust/library/core");
        assert_eq!(machine.search_paths(None).compilers(BPF)[0].core, None);
    }

    #[test]
    fn a_choice_excludes_every_other_toolchain() {
        let machine = Machine::new("choice");
        machine.program("usr/bin/rustc", "exit 1");
        machine.directory("usr/lib/rustlib/bpfel-unknown-none/lib");
        let nowhere = machine.0.join("nowhere");
        assert_eq!(machine.search_paths(Some(nowhere.to_str().unwrap())).compilers(BPF), []);
    }

    #[test]
    fn a_linker_off_the_path_is_found_where_cargo_installs() {
        let machine = Machine::new("linker");
        machine.program("cargo-home/bin/bpf-linker", "");
        let mut paths = machine.search_paths(None);
        paths.path.push(machine.0.join("cargo-home/bin"));
        assert_eq!(paths.linker(), Some(machine.0.join("cargo-home/bin/bpf-linker")));
    }
}
