//! Finds the tools that compile Rust for BPF on this machine, or reads an object that they made on another one
//! ([`prebuilt`]).
//!
//! Two things are needed: a rustc with `core` for the BPF target, and bpf-linker. `core` comes either
//! prebuilt, as in Debian's `libstd-rust-web-dev-bpf`, or as source with a nightly toolchain (`rust-src`),
//! whose cargo compiles it during the build (`-Zbuild-std`). The prebuilt one is preferred: it is faster
//! and does not change from one nightly to the next.

mod missing;
pub mod prebuilt;
mod search_paths;

pub use missing::MissingTools;
pub use search_paths::SearchPaths;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that names the only toolchain to use: a rustup toolchain (`nightly-2026-05-01`)
/// or a directory with `bin/rustc` (`/usr`).
pub const CHOICE: &str = "WAKELAT_BPF_TOOLCHAIN";

/// Where a compiler gets `core` for BPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreLibrary {
    /// The toolchain ships it compiled for the target.
    Prebuilt,
    /// Cargo compiles it, on a nightly with `rust-src`.
    Source,
}

/// A rustc on this machine and its support for one BPF target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The compiler itself, never rustup's proxy.
    pub rustc: PathBuf,
    /// The cargo to run it with.
    pub cargo: PathBuf,
    /// Its `core` for the target; `None` if it cannot compile for the target.
    pub core: Option<CoreLibrary>,
}

/// A complete set of tools for one BPF target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The compiler, and the cargo that goes with it.
    pub compiler: Compiler,
    /// bpf-linker.
    pub linker: PathBuf,
    /// Whether cargo has to compile `core` first.
    pub build_std: bool,
}

/// The BPF target for a host of this endianness, as `CARGO_CFG_TARGET_ENDIAN` spells it.
pub fn target(host_endian: &str) -> &'static str {
    if host_endian == "big" { "bpfeb-unknown-none" } else { "bpfel-unknown-none" }
}

/// The BPF target for the machine this was compiled for.
pub fn host_target() -> &'static str {
    target(if cfg!(target_endian = "big") { "big" } else { "little" })
}

/// The name of wakelat-ebpf's binary.
pub const PROGRAMS: &str = "wakelat-ebpf";

/// The name under which wakelat's build script stores that binary: the BPF object.
pub const OBJECT: &str = "wakelat.bpf.o";

/// Finds the tools for `target`. The error names everything that is missing.
pub fn find(target: &str) -> Result<Toolchain, MissingTools> {
    let paths = SearchPaths::from_environment();
    choose(target, paths.choice.as_deref(), &paths.compilers(target), paths.linker())
}

/// Picks the linker, and the first compiler with a prebuilt `core`, else the first that can compile `core`.
pub fn choose(
    target: &str,
    choice: Option<&str>,
    compilers: &[Compiler],
    linker: Option<PathBuf>,
) -> Result<Toolchain, MissingTools> {
    let with = |core| compilers.iter().find(|compiler| compiler.core == Some(core));
    let compiler = with(CoreLibrary::Prebuilt).or_else(|| with(CoreLibrary::Source)).cloned();
    match (compiler, linker) {
        (Some(compiler), Some(linker)) => {
            let build_std = compiler.core == Some(CoreLibrary::Source);
            Ok(Toolchain { compiler, linker, build_std })
        }
        (compiler, linker) => Err(MissingTools {
            target: target.to_owned(),
            choice: choice.map(str::to_owned),
            compiler: compiler.is_none(),
            linker: linker.is_none(),
        }),
    }
}

impl Toolchain {
    /// Returns the cargo command that compiles wakelat-ebpf for `target`; run it in the workspace.
    /// `host_arch` is the architecture of the machine the programs will run on, as `CARGO_CFG_TARGET_ARCH`
    /// spells it.
    ///
    /// Nothing of an outer cargo leaks into it: not its compiler, its flags or clippy. All profiles of the
    /// host share one build below `target_root`, because the object is the same for each of them. This is
    /// not the outer cargo's own directory, because that cargo holds its lock.
    pub fn build(&self, target: &str, target_root: &Path, host_arch: &str) -> Command {
        let mut cargo = Command::new(&self.compiler.cargo);
        cargo.args(["build", "--quiet", "--package=wakelat-ebpf", "--bins", "--release"]);
        cargo.args(["--target", target, "--target-dir"]).arg(target_root.join("bpf"));
        // aya-ebpf's access to registers depends on the architecture.
        cargo.env("AYA_BPF_TARGET_ARCH", host_arch);
        // bpf-linker turns the debug information into BTF, which CO-RE relocations need. Encoded flags
        // override those of any configuration file, which are meant for the host.
        let linker = self.linker.display();
        cargo.env("CARGO_ENCODED_RUSTFLAGS", format!("-Cdebuginfo=2\x1f-Clink-arg=--btf\x1f-Clinker={linker}"));
        cargo.env("RUSTC", &self.compiler.rustc);
        // Lets these crates use an unstable feature (asm_experimental_arch) with a stable compiler.
        cargo.env("RUSTC_BOOTSTRAP", "aya_ebpf,wakelat_ebpf");
        // Set by the outer cargo: clippy's driver, and the toolchain rustup chose for the outer compiler.
        for leak in ["RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "RUSTUP_TOOLCHAIN", "CARGO_BUILD_TARGET"] {
            cargo.env_remove(leak);
        }
        if self.build_std {
            cargo.arg("-Zbuild-std=core");
        }
        cargo
    }

    /// The path of the object that [`Toolchain::build`] produces for the binary `name`.
    pub fn object(target: &str, target_root: &Path, name: &str) -> PathBuf {
        target_root.join("bpf").join(target).join("release").join(name)
    }

    /// The files whose change requires a rebuild.
    pub fn files(&self) -> [&Path; 2] {
        [&self.compiler.rustc, &self.linker]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BPF: &str = "bpfel-unknown-none";

    fn compiler(name: &str, core: Option<CoreLibrary>) -> Compiler {
        Compiler { rustc: format!("/{name}/bin/rustc").into(), cargo: "/cargo".into(), core }
    }

    fn linker() -> Option<PathBuf> {
        Some("/cargo-home/bin/bpf-linker".into())
    }

    #[test]
    fn a_prebuilt_core_is_preferred_in_any_position() {
        let found = [
            compiler("stable", None),
            compiler("nightly", Some(CoreLibrary::Source)),
            compiler("usr", Some(CoreLibrary::Prebuilt)),
        ];
        let toolchain = choose(BPF, None, &found, linker()).unwrap();
        assert_eq!(toolchain.compiler, found[2]);
        assert!(!toolchain.build_std);
    }

    #[test]
    fn a_nightly_with_source_builds_core() {
        let found = [compiler("stable", None), compiler("nightly", Some(CoreLibrary::Source))];
        let toolchain = choose(BPF, None, &found, linker()).unwrap();
        assert_eq!(toolchain.compiler, found[1]);
        let cargo = toolchain.build(BPF, Path::new("/target"), "x86_64");
        assert!(cargo.get_args().any(|arg| arg == "-Zbuild-std=core"));
    }

    #[test]
    fn missing_tools_are_named() {
        let missing = |compilers: &[Compiler], linker| choose(BPF, None, compilers, linker).unwrap_err();
        let usable = [compiler("usr", Some(CoreLibrary::Prebuilt))];
        let neither = missing(&[compiler("stable", None)], None);
        assert!(neither.compiler && neither.linker);
        let no_linker = missing(&usable, None);
        assert!(!no_linker.compiler && no_linker.linker);
        let no_compiler = missing(&[], linker());
        assert!(no_compiler.compiler && !no_compiler.linker);
    }

    #[test]
    fn clippy_and_host_flags_do_not_leak_into_the_bpf_build() {
        let toolchain = choose(BPF, None, &[compiler("usr", Some(CoreLibrary::Prebuilt))], linker()).unwrap();
        let cargo = toolchain.build(BPF, Path::new("/target"), "x86_64");
        let env: Vec<_> = cargo.get_envs().collect();
        assert!(env.contains(&("RUSTC_WORKSPACE_WRAPPER".as_ref(), None)));
        assert!(env.contains(&("RUSTC".as_ref(), Some("/usr/bin/rustc".as_ref()))));
        assert!(env.contains(&("RUSTC_BOOTSTRAP".as_ref(), Some("aya_ebpf,wakelat_ebpf".as_ref()))));
    }
}
