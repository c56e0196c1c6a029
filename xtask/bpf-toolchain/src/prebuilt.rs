//! A BPF object that was compiled elsewhere, for machines that cannot compile for BPF.
//!
//! Beside the object is its checksum file, which `sha256sum -c` reads, too. A comment in it has what the object was compiled
//! for and from:
//!
//! ```text
//! # arch x86_64
//! # sources 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03
//! e258d248fda94c63753607f7c4494ee0fcbe92f1a76bfdac795c9d84101eb317  wakelat-x86_64.bpf.o
//! ```

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest as _, Sha256};

/// The environment variable that names a compiled object.
pub const PREBUILT: &str = "WAKELAT_BPF_OBJECT";

/// The files and directories of the workspace that determine the object.
pub const SOURCES: [&str; 4] = ["Cargo.lock", "Cargo.toml", "wakelat-common", "wakelat-ebpf"];

/// The name of the object for an architecture, as Rust spells it, in a release.
pub fn prebuilt_name(arch: &str) -> String {
    format!("wakelat-{arch}.bpf.o")
}

/// The path of an object's checksum file.
pub fn checksum_file(object: &Path) -> PathBuf {
    let mut path = object.as_os_str().to_owned();
    path.push(".sha256");
    path.into()
}

/// What an object is compiled for and from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectOrigin {
    /// The architecture of the machines that it runs on, as Rust spells it.
    pub arch: String,
    /// SHA-256 of the paths and contents of [`SOURCES`], in hexadecimal.
    pub sources: String,
}

impl ObjectOrigin {
    /// That of an object for `arch` compiled from `workspace`.
    ///
    /// # Errors
    /// If a source cannot be read.
    pub fn of(workspace: &Path, arch: &str) -> io::Result<Self> {
        let mut files = Vec::new();
        for source in SOURCES {
            add_files(&workspace.join(source), Path::new(source), &mut files)?;
        }
        files.sort();
        let mut digest = Sha256::new();
        for file in files {
            let content = fs::read(workspace.join(&file))?;
            // The lengths separate what follows each other.
            for part in [file.as_os_str().as_encoded_bytes(), &content] {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
        }
        Ok(Self { arch: arch.to_owned(), sources: hex(&digest.finalize()) })
    }

    /// The content of the checksum file of `object`, whose file name is `name`.
    pub fn checksum(&self, name: &str, object: &[u8]) -> String {
        let Self { arch, sources } = self;
        format!("# arch {arch}\n# sources {sources}\n{}  {name}\n", sha256(object))
    }
}

/// Adds the paths of `file`, or of all files in it if it is a directory, as paths below `relative`. Hidden files and
/// directories of build results are no sources.
fn add_files(file: &Path, relative: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !file.is_dir() {
        files.push(relative.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(file)? {
        let name = entry?.file_name();
        if name != "target" && !name.as_encoded_bytes().starts_with(b".") {
            add_files(&file.join(&name), &relative.join(&name), files)?;
        }
    }
    Ok(())
}

/// Reads the object that the value of [`PREBUILT`] names, if it is intact and was compiled for and from `origin`.
///
/// # Errors
/// If it is not, or cannot be read.
pub fn read(value: &OsString, origin: &ObjectOrigin) -> Result<Vec<u8>, PrebuiltError> {
    let file = Path::new(value);
    let fail = |reason| PrebuiltError { file: file.to_owned(), reason };
    if !file.is_absolute() {
        return Err(fail(PrebuiltFault::Relative));
    }
    let unreadable = |path: &Path, error| fail(PrebuiltFault::Unreadable(path.to_owned(), error));
    let object = fs::read(file).map_err(|error| unreadable(file, error))?;
    let beside = checksum_file(file);
    let checksum = fs::read_to_string(&beside).map_err(|error| unreadable(&beside, error))?;
    check(&object, &checksum, origin).map_err(fail)?;
    Ok(object)
}

/// Whether the checksum file describes this object, and the object is one of `origin`.
fn check(object: &[u8], checksum: &str, origin: &ObjectOrigin) -> Result<(), PrebuiltFault> {
    let comment =
        |name| checksum.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(name)?.strip_prefix(' '));
    let listed = checksum.lines().find(|line| !line.starts_with('#')).and_then(|line| line.split_whitespace().next());
    let found = |what, value: Option<&str>| value.map(str::to_owned).ok_or(PrebuiltFault::Incomplete(what));
    let listed = found("checksum", listed)?;
    let (arch, sources) = (found("arch", comment("arch"))?, found("sources", comment("sources"))?);
    let is = sha256(object);
    if !is.eq_ignore_ascii_case(&listed) {
        return Err(PrebuiltFault::Damaged { is, listed });
    }
    if arch != origin.arch {
        return Err(PrebuiltFault::Architecture { of: arch, wanted: origin.arch.clone() });
    }
    if sources != origin.sources {
        return Err(PrebuiltFault::Sources { of: sources, wanted: origin.sources.clone() });
    }
    Ok(())
}

/// A prebuilt object that cannot be used. Its text also names the remedies.
#[derive(Debug)]
pub struct PrebuiltError {
    file: PathBuf,
    reason: PrebuiltFault,
}

/// Why an object cannot be used.
#[derive(Debug)]
enum PrebuiltFault {
    /// Its path depends on a directory that the build script does not know.
    Relative,
    /// It or its checksum file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The checksum file lacks this line.
    Incomplete(&'static str),
    /// Its checksum is another one.
    Damaged { is: String, listed: String },
    /// It was compiled for another architecture.
    Architecture { of: String, wanted: String },
    /// It was compiled from other sources.
    Sources { of: String, wanted: String },
}

impl std::error::Error for PrebuiltError {}

impl fmt::Display for PrebuiltError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.reason {
            PrebuiltFault::Relative => write!(f, "{PREBUILT} needs an absolute path, not `{file}`"),
            PrebuiltFault::Unreadable(path, error) => write!(f, "cannot read `{}`: {error}", path.display()),
            PrebuiltFault::Incomplete(what) => write!(f, "the checksum file of `{file}` has no line for `{what}`"),
            PrebuiltFault::Damaged { is, listed } => {
                write!(f, "`{file}` is damaged: its SHA-256 is {is}, and its checksum file has {listed}")
            }
            PrebuiltFault::Architecture { of, wanted } => {
                write!(f, "`{file}` was compiled for {of}, and this build is for {wanted}")
            }
            PrebuiltFault::Sources { of, wanted } => write!(
                f,
                "`{file}` was compiled from other sources: the SHA-256 of its sources is {of}, and that of these is {wanted}"
            ),
        }?;
        write!(
            f,
            "; {PREBUILT} needs the object that `cargo xtask dist` makes from these sources, with its checksum file beside it; \
             without {PREBUILT}, the build compiles the object, which needs a BPF toolchain: on Debian run \
             `cargo xtask setup`, elsewhere `rustup toolchain install nightly --component rust-src` and \
             `cargo install bpf-linker`"
        )
    }
}

/// SHA-256 in hexadecimal.
pub fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
