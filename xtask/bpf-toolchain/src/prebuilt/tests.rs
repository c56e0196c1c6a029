use super::*;

const OBJECT: &[u8] = b"\x7fELF and so on";

/// A directory with the sources of the programs and, beside them, an object compiled from them.
struct Release(tempfile::TempDir);

impl Release {
    fn new() -> Self {
        let release = Self(tempfile::tempdir().unwrap());
        for (file, content) in
            [("Cargo.lock", "lock"), ("Cargo.toml", "[workspace]"), ("wakelat-ebpf/src/main.rs", "fn main() {}")]
        {
            release.write(file, content.as_bytes());
        }
        release.write("wakelat-common/src/lib.rs", b"#![no_std]");
        release.write("wakelat-x86_64.bpf.o", OBJECT);
        let checksum = release.origin().checksum("wakelat-x86_64.bpf.o", OBJECT);
        release.write("wakelat-x86_64.bpf.o.sha256", checksum.as_bytes());
        release
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn write(&self, file: &str, content: &[u8]) {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        fs::write(self.path(file), content).unwrap();
    }

    fn origin(&self) -> ObjectOrigin {
        ObjectOrigin::of(self.0.path(), "x86_64").unwrap()
    }

    fn read(&self, origin: &ObjectOrigin) -> Result<Vec<u8>, PrebuiltError> {
        read(&self.path("wakelat-x86_64.bpf.o").into(), origin)
    }

    /// The error without the remedies, which each error names.
    fn error(&self) -> String {
        let text = self.read(&self.origin()).unwrap_err().to_string();
        let (reason, remedies) = text.split_once("; ").unwrap();
        assert!(remedies.contains("WAKELAT_BPF_OBJECT") && remedies.contains("cargo install bpf-linker"), "{text}");
        reason.replace(&self.0.path().display().to_string(), "DIR")
    }
}

#[test]
fn an_object_of_these_sources_is_used_as_it_is() {
    let release = Release::new();
    assert_eq!(release.read(&release.origin()).unwrap(), OBJECT);
}

#[test]
fn sha256sum_accepts_the_checksum_file() {
    let release = Release::new();
    let mut sha256sum = std::process::Command::new("sha256sum");
    let output = sha256sum.args(["--check", "--strict", "wakelat-x86_64.bpf.o.sha256"]).current_dir(release.0.path());
    let output = output.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "wakelat-x86_64.bpf.o: OK\n");
}

#[test]
fn a_changed_object_is_refused_with_both_checksums() {
    let release = Release::new();
    release.write("wakelat-x86_64.bpf.o", b"another");
    let (is, listed) = (sha256(b"another"), sha256(OBJECT));
    let expected =
        format!("`DIR/wakelat-x86_64.bpf.o` is damaged: its SHA-256 is {is}, and its checksum file has {listed}");
    assert_eq!(release.error(), expected);
}

#[test]
fn an_object_of_other_sources_is_refused_whichever_of_them_differs() {
    for (file, content) in [
        ("wakelat-ebpf/src/main.rs", "fn main() { }"),
        ("wakelat-ebpf/src/more.rs", ""),
        ("wakelat-common/src/lib.rs", ""),
        ("Cargo.lock", "lock 2"),
        ("Cargo.toml", ""),
    ] {
        let release = Release::new();
        release.write(file, content.as_bytes());
        let expected = "`DIR/wakelat-x86_64.bpf.o` was compiled from other sources: ";
        assert!(release.error().starts_with(expected), "{file}: {}", release.error());
    }
}

#[test]
fn a_renamed_source_is_another_source() {
    let release = Release::new();
    let before = release.origin();
    fs::rename(release.path("wakelat-ebpf/src/main.rs"), release.path("wakelat-ebpf/src/mai.rs")).unwrap();
    assert_ne!(release.origin(), before);
}

#[test]
fn build_results_hidden_files_and_the_rest_of_the_workspace_are_no_sources() {
    let release = Release::new();
    let before = release.origin();
    for file in ["wakelat-ebpf/target/debug/x", "wakelat-ebpf/.main.rs.swp", "wakelat/src/main.rs"] {
        release.write(file, b"x");
    }
    assert_eq!(release.origin(), before);
}

#[test]
fn an_object_for_another_architecture_is_refused() {
    let release = Release::new();
    let origin = ObjectOrigin { arch: "aarch64".to_owned(), ..release.origin() };
    let error = release.read(&origin).unwrap_err().to_string();
    assert!(error.contains("was compiled for x86_64, and this build is for aarch64"), "{error}");
}

#[test]
fn an_object_without_a_whole_checksum_file_is_refused() {
    let release = Release::new();
    release.write("wakelat-x86_64.bpf.o.sha256", format!("{}  wakelat-x86_64.bpf.o\n", sha256(OBJECT)).as_bytes());
    assert_eq!(release.error(), "the checksum file of `DIR/wakelat-x86_64.bpf.o` has no line for `arch`");
    release.write("wakelat-x86_64.bpf.o.sha256", b"# arch x86_64\n");
    assert_eq!(release.error(), "the checksum file of `DIR/wakelat-x86_64.bpf.o` has no line for `checksum`");
    fs::remove_file(release.path("wakelat-x86_64.bpf.o.sha256")).unwrap();
    let expected = "cannot read `DIR/wakelat-x86_64.bpf.o.sha256`: No such file or directory (os error 2)";
    assert_eq!(release.error(), expected);
}

#[test]
fn a_relative_path_is_refused() {
    let release = Release::new();
    let error = read(&"wakelat-x86_64.bpf.o".into(), &release.origin()).unwrap_err().to_string();
    assert!(error.starts_with("WAKELAT_BPF_OBJECT needs an absolute path, not `wakelat-x86_64.bpf.o`; "), "{error}");
}

#[test]
fn checksums_are_those_of_sha_256() {
    // The digest of the empty message, from the test vectors of FIPS 180-4.
    assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
