//! `cargo xtask dist`: the files of a release, in `target/dist`.

mod archive;
mod bpf_object;
mod tree;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use anyhow::Context as _;
use bpf_toolchain::prebuilt::{ObjectOrigin, checksum_file, prebuilt_name, sha256};
use wakelat_build::{Architecture, has_standard_library, static_build, workspace};

use crate::setup::{self, Purpose};
use tree::ReleaseFiles;

#[derive(clap::Args)]
pub struct DistArgs {
    /// Architectures to build for, comma-separated; installs the cross compiler if it is missing [default: this
    /// machine's]
    #[arg(long, value_enum, value_delimiter = ',')]
    arch: Vec<Architecture>,
}

pub fn main(args: &DistArgs) -> anyhow::Result<ExitCode> {
    setup::ensure(Purpose::Build)?;
    let own = Architecture::own()?;
    let wanted = if args.arch.is_empty() { vec![own] } else { args.arch.clone() };
    let dist = workspace::root().join("target/dist");
    fs::create_dir_all(&dist).with_context(|| format!("cannot make `{}`", dist.display()))?;

    let manual = tree::Manual::write(&workspace::root().join("target/dist-manual"))?;
    let mut files = Vec::new();
    for architecture in wanted {
        setup::cross_compiler(architecture)?;
        let built = static_build::released(architecture)?;
        let release = ReleaseFiles { architecture, binary: &built.binary, manual: &manual };
        files.push(archive::tarball(&release, &dist)?);
        files.push(archive::debian_package(&release, &dist)?);
        files.extend(object_files(&dist, architecture, &built.object)?);
        if architecture == own {
            files.extend(single_files(&dist, &built)?);
        }
    }
    let mut checksums = String::new();
    for file in &files {
        let content = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        writeln!(checksums, "{}  {name}", sha256(&content))?;
        println!("{:>10} bytes  {}", content.len(), file.display());
    }
    write_file(&dist.join("SHA256SUMS"), checksums.as_bytes())?;
    print!("{checksums}");
    Ok(ExitCode::SUCCESS)
}

/// Writes what needs no installation: the program, and the same with musl.
fn single_files(dist: &Path, built: &static_build::BuildOutput) -> anyhow::Result<Vec<PathBuf>> {
    let musl = format!("{}-unknown-linux-musl", env::consts::ARCH);
    let mut files = vec![("wakelat", fs::read(&built.binary).context("cannot read the binary")?)];
    if has_standard_library(&musl) {
        let binary = static_build::release_for(&musl)?.binary;
        files.push(("wakelat-musl", fs::read(binary).context("cannot read the binary")?));
    } else {
        println!("`wakelat-musl` is left out: this compiler has no `{musl}`; add it with `rustup target add {musl}`");
    }
    let written = files.iter().map(|(name, content)| {
        let path = dist.join(name);
        write_file(&path, content).map(|()| path)
    });
    written.collect()
}

/// Writes the BPF object, for builds on machines that cannot compile for BPF, and its checksum file.
fn object_files(dist: &Path, architecture: Architecture, object: &Path) -> anyhow::Result<[PathBuf; 2]> {
    let object = fs::read(object).with_context(|| format!("cannot read `{}`", object.display()))?;
    let object = bpf_object::without_debug_information(&object)?;
    let origin = ObjectOrigin::of(&workspace::root(), architecture.name()).context("cannot read the sources")?;
    let name = prebuilt_name(architecture.name());
    let path = dist.join(&name);
    write_file(&path, &object)?;
    let checksum = checksum_file(&path);
    write_file(&checksum, origin.checksum(&name, &object).as_bytes())?;
    Ok([path, checksum])
}

/// Writes a file. Programs are executable. A previous file is removed instead of overwritten, because it
/// may be running.
fn write_file(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let write = || {
        let _ = fs::remove_file(path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, content)?;
        let mode = if content.starts_with(b"\x7fELF") && path.extension().is_none() { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}
