//! The accessors as files, and what cargo has to know of them.

use std::{env, fs, path::PathBuf, process};

use crate::{AccessorTable, Accessors};

/// What bpf-linker has to be told beside the name of the module: what LLVM must not do to the programs.
///
/// To LLVM, the offset of a field is a constant, free to be moved out of a loop, and so past the `FIELD_exists()` around
/// the access. On a kernel without the field, the verifier would find an invalid instruction there. Nothing is lost: by
/// the time of these passes, loads that do not change have left the loop, and making a constant costs an instruction.
pub const LINKER_ARGS: [&str; 2] = ["--llvm-args=-disable-machine-licm", "--llvm-args=-disable-postra-machine-licm"];

impl AccessorTable {
    /// Writes `core.ll` and `core.rs` into `OUT_DIR`, and has cargo link the former into the binaries where the target is
    /// BPF. To be called from a build script, which is run again when itself has changed, and at no other time.
    ///
    /// Ends the build with a message where the table contradicts itself or the files cannot be written.
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
