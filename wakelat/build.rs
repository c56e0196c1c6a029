//! Puts the BPF object into `OUT_DIR/*.bpf.o`, for the binary to embed: compiles wakelat-ebpf, or takes an object that was
//! compiled elsewhere.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use bpf_toolchain::{
    CHOICE, OBJECT, PROGRAMS, Toolchain,
    prebuilt::{self, ObjectOrigin, PREBUILT, SOURCES},
};

fn main() {
    if let Err(error) = build() {
        // Not an exit code: then cargo would bury this in the script's whole output.
        for line in error.to_string().lines() {
            println!("cargo::error={line}");
        }
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let workspace = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("..");
    for input in SOURCES {
        println!("cargo::rerun-if-changed={}", workspace.join(input).display());
    }
    for variable in [CHOICE, PREBUILT] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let host_arch = env::var("CARGO_CFG_TARGET_ARCH")?;
    if let Some(file) = env::var_os(PREBUILT) {
        for input in [Path::new(&file), &prebuilt::checksum_file(Path::new(&file))] {
            println!("cargo::rerun-if-changed={}", input.display());
        }
        let object = prebuilt::read(&file, &ObjectOrigin::of(&workspace, &host_arch)?)?;
        fs::write(out_dir.join(OBJECT), object)?;
        return Ok(());
    }

    let target = bpf_toolchain::target(&env::var("CARGO_CFG_TARGET_ENDIAN")?);
    let toolchain = bpf_toolchain::find(target)?;
    for file in toolchain.files() {
        println!("cargo::rerun-if-changed={}", file.display());
    }

    let target_root = target_root(&out_dir, &env::var("TARGET")?);
    let output = toolchain.build(target, &target_root, &host_arch).current_dir(&workspace).output()?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("cannot compile wakelat-ebpf for {target}\n{messages}").into());
    }
    for line in messages.lines() {
        println!("cargo::warning={line}");
    }
    let object = Toolchain::object(target, &target_root, PROGRAMS);
    fs::copy(&object, out_dir.join(OBJECT)).map_err(|e| format!("cannot copy {}: {e}", object.display()))?;
    Ok(())
}

/// The target directory of the cargo around us, which `OUT_DIR` lies in as
/// `[TARGET/]PROFILE/build/PACKAGE/out`.
fn target_root(out_dir: &Path, target: &str) -> PathBuf {
    let root = out_dir.ancestors().nth(4).unwrap_or(out_dir);
    let root = if root.ends_with(target) { root.parent().unwrap_or(root) } else { root };
    root.to_owned()
}
