//! The generated code is exactly as recorded, and rustc accepts it.

use std::{env, fs, path::Path, process::Command};

use co_re_accessors::{AccessorTable, CHAR, I32, U32, array, embedded, pointer};

/// A small table with a row of each kind.
fn kernel() -> AccessorTable {
    AccessorTable::new()
        .structure(
            "task_struct",
            [
                ("pid", I32),
                ("comm", array(CHAR, 16)),
                ("cgroups", pointer("css_set")),
                ("thread_info", embedded("thread_info")),
            ],
        )
        .structure("thread_info", [("cpu", U32)])
        .structure("css_set", [])
        .structure("cgroup", [("self", pointer("cgroup"))])
}

#[test]
fn the_llvm_ir_is_as_recorded() {
    insta::assert_snapshot!(kernel().accessors().unwrap().llvm_ir);
}

#[test]
fn the_rust_code_is_as_recorded() {
    insta::assert_snapshot!(kernel().accessors().unwrap().rust);
}

/// Compiles Rust code as a library with strict lints; returns the messages of rustc.
fn rustc(name: &str, rust: &str) -> String {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = out.join(format!("{name}.rs"));
    let module = rust.replace("// Generated", "//! Generated");
    fs::write(&source, format!("{module}\n")).unwrap();
    let output = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "-Dwarnings", "-Dmissing_docs"])
        .arg("--out-dir")
        .arg(out)
        .arg(source)
        .output()
        .unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn rustc_has_no_complaint_on_any_target() {
    let rust = kernel().accessors().unwrap().rust;
    assert_eq!(rustc("elsewhere", &rust), "");
    // The declarations for BPF, compiled for the host: there is no `core` for BPF in most toolchains.
    assert_eq!(rustc("bpf", &rust.replace("target_arch = \"bpf\"", "panic = \"unwind\"")), "");
}
