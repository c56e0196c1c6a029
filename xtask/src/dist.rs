//! `cargo xtask dist`: the files of a release, in `target/dist`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context as _, ensure};
use bpf_toolchain::OBJECT;
use object::build::elf;
use sha2::{Digest as _, Sha256};
use wakelat_build::{static_build, workspace};

use crate::setup::{self, Purpose};

#[derive(clap::Args)]
pub struct DistArgs {}

pub fn main(_: &DistArgs) -> anyhow::Result<ExitCode> {
    setup::ensure(Purpose::Build)?;
    let dist = workspace::root().join("target/dist");
    fs::create_dir_all(&dist).with_context(|| format!("cannot make `{}`", dist.display()))?;

    let musl = format!("{}-unknown-linux-musl", env::consts::ARCH);
    let built = static_build::released()?;
    let mut files = vec![("wakelat", fs::read(&built.binary).context("cannot read the binary")?)];
    let object = fs::read(&built.object).with_context(|| format!("cannot read `{}`", built.object.display()))?;
    files.push((OBJECT, without_debug_information(&object)?));
    let with_musl = has_standard_library(&musl);
    if with_musl {
        files.push((
            "wakelat-musl",
            fs::read(static_build::release_for(&musl)?.binary).context("cannot read the binary")?,
        ));
    }

    let mut checksums = String::new();
    for (name, content) in &files {
        write_file(&dist.join(name), content)?;
        writeln!(checksums, "{}  {name}", hex(&Sha256::digest(content)))?;
        println!("{:>10} bytes  {}", content.len(), dist.join(name).display());
    }
    write_file(&dist.join("SHA256SUMS"), checksums.as_bytes())?;
    print!("{checksums}");
    if !with_musl {
        println!("`wakelat-musl` is left out: this compiler has no `{musl}`; add it with `rustup target add {musl}`");
    }
    Ok(ExitCode::SUCCESS)
}

fn has_standard_library(target: &str) -> bool {
    let output = workspace::rustc().args(["--print=target-libdir", "--target", target]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim_end()).is_dir())
}

/// Removes DWARF from the object. Keeps BTF, which CO-RE relocations need, and the symbols, which name the
/// programs and maps.
fn without_debug_information(object: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut builder = elf::Builder::read(object).context("the BPF object is not an ELF file")?;
    for section in &mut builder.sections {
        let name = section.name.as_slice();
        if name.starts_with(b".debug_") || name.starts_with(b".rel.debug_") {
            section.delete = true;
        }
    }
    builder.delete_orphans();
    // LLVM stores the names of sections in the string table of the symbols, which is rewritten with only
    // the symbols' names. So the names of sections get a table of their own.
    let names = builder.sections.add();
    names.name = b".shstrtab".as_slice().into();
    names.sh_type = object::elf::SHT_STRTAB;
    names.data = elf::SectionData::SectionString;
    let mut stripped = vec![];
    builder.write(&mut stripped).context("cannot write the stripped object")?;
    let parsed = aya_obj::Object::parse(&stripped).context("the stripped object does not load")?;
    ensure!(parsed.has_btf_relocations(), "the stripped object has lost its relocations");
    Ok(stripped)
}

/// Writes a file. Programs are executable. A previous file is removed instead of overwritten, because it
/// may be running.
fn write_file(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let write = || {
        let _ = fs::remove_file(path);
        fs::write(path, content)?;
        let mode = if content.starts_with(b"\x7fELF") && path.extension().is_none() { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_what_sha256sum_reads() {
        // The digest of the empty message, from the test vectors of FIPS 180-4.
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex(&Sha256::digest(b"")), empty);
    }

    #[test]
    fn only_an_elf_file_can_be_stripped() {
        assert!(without_debug_information(b"no object").is_err());
    }
}
