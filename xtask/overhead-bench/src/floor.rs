//! The floor: empty programs, on the tracepoints that wakelat uses.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use aya::programs::Program;
use aya::{Btf, Ebpf};

/// The attached empty programs. Dropping it detaches them.
pub struct Floor {
    programs: Ebpf,
}

impl Floor {
    /// Loads and attaches the programs of `object`.
    ///
    /// # Errors
    /// Fails if the kernel rejects them, or has no BTF, which typed tracepoints need.
    pub fn attach(object: &Path) -> anyhow::Result<Self> {
        let bytes = fs::read(object).with_context(|| format!("cannot read `{}`", object.display()))?;
        let btf = Btf::from_sys_fs().context("this kernel has no BTF")?;
        let mut programs = Ebpf::load(&bytes).context("cannot load the empty programs")?;
        for (name, program) in programs.programs_mut() {
            let Program::BtfTracePoint(program) = program else { bail!("`{name}` is not a typed tracepoint program") };
            program.load(name, &btf)?;
            program.attach()?;
        }
        Ok(Self { programs })
    }

    /// Detaches and unloads the programs.
    pub fn detach(self) {
        drop(self.programs);
    }
}
