//! Writes the accessors to files and tells cargo about them.

use std::{env, fs, path::PathBuf, process};

use crate::{AccessorTable, Accessors};

/// Arguments that bpf-linker needs besides the module: they disable optimizations that break the
/// programs.
///
/// To LLVM, the offset of a field is a constant that may be hoisted out of a loop, and so above the
/// `FIELD_exists()` check around the access. On a kernel without the field, the verifier would then find
/// an invalid instruction there. Disabling these passes costs nothing: loads that do not change have
/// left the loop before them, and to load a constant takes one instruction.
pub const LINKER_ARGS: [&str; 2] = ["--llvm-args=-disable-machine-licm", "--llvm-args=-disable-postra-machine-licm"];

impl AccessorTable {
    /// Writes `core.ll` and `core.rs` into `OUT_DIR` and, if the target is BPF, has cargo link the
    /// former into the binaries. For build scripts; cargo then reruns the script only when the script
    /// itself has changed.
    ///
    /// Ends the build with an error message if the table is inconsistent or the files cannot be written.
    pub fn write_for_build_script(&self) {
        if let Err(error) = self.write_files() {
            println!("cargo::error=kernel accessors: {error}");
            process::exit(1);
        }
    }

    fn write_files(&self) -> Result<(), Box<dyn std::error::Error>> {
        let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("`OUT_DIR` is not set; call this from a build script")?);
        let Accessors { llvm_ir, rust } = self.accessors()?;
        let module = out.join("core.ll");
        for (path, text) in [(&module, llvm_ir), (&out.join("core.rs"), rust)] {
            fs::write(path, text).map_err(|error| format!("`{}` cannot be written: {error}", path.display()))?;
        }
        println!("cargo::rerun-if-changed=build.rs");
        if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("bpf") {
            println!("cargo::rustc-link-arg-bins={}", module.display());
            LINKER_ARGS.iter().for_each(|argument| println!("cargo::rustc-link-arg-bins={argument}"));
        }
        Ok(())
    }
}
