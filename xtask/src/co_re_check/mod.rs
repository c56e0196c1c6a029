//! `cargo xtask core-check`: checks that the programs would find every kernel field that they read.
//!
//! Applies the CO-RE relocations of the BPF object to the BTF of kernels, as the loader does, without
//! booting them. If a kernel lacks a field, the loader invalidates ("poisons") the instruction that reads
//! it. The kernel then rejects the program, unless the program reads the field only after checking that it
//! exists.

mod fields;
mod kernels;
mod relocation;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use aya_obj::Object;
use aya_obj::btf::Btf;
use wakelat_build::{Architecture, static_build};

use crate::setup::{self, Purpose};
use kernels::KernelFile;
use relocation::Relocation;

#[derive(clap::Args)]
pub struct CoreCheckArgs {
    /// BTF files, kernel images, or directories with them [default: the running kernel and the kernels of
    /// `cargo xtask vm`]
    kernels: Vec<PathBuf>,
    /// The object to check [default: build it]
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
}

/// Checks the object against each kernel. The exit code is a failure if relocation fails on any of them.
pub fn main(args: &CoreCheckArgs) -> anyhow::Result<ExitCode> {
    let object = match &args.object {
        Some(object) => object.clone(),
        None => {
            setup::ensure(Purpose::Build)?;
            static_build::released(Architecture::own()?)?.object
        }
    };
    let kernels = if args.kernels.is_empty() { default_kernels()? } else { kernels::find(&args.kernels)? };
    if kernels.is_empty() {
        bail!("no BTF and no kernel image found in the given paths");
    }
    println!("{}", object.display());
    Ok(if check(&object, &kernels)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether relocation succeeds on all of `kernels`.
fn check(object: &Path, kernels: &[KernelFile]) -> anyhow::Result<bool> {
    let object = fs::read(object).with_context(|| format!("cannot read `{}`", object.display()))?;
    let parsed = Object::parse(&object).context("aya cannot read the object")?;
    let relocations = relocation::read(&object).context("cannot read the object's relocations")?;

    let width = kernels.iter().map(|kernel| kernel.name.len()).max().unwrap_or(0).max("kernel".len());
    println!("{:<width$}  {:>5}  {:>8}  poisoned fields", "kernel", "ok", "poisoned");
    let mut failed = false;
    for KernelFile { name, path } in kernels {
        match kernels::btf(path).and_then(|btf| poisoned(&parsed, &relocations, &btf)) {
            Ok(poisoned) => {
                let ok = relocations.len() - poisoned.len();
                println!("{name:<width$}  {ok:>5}  {:>8}  {}", poisoned.len(), distinct(&poisoned).join(" "));
            }
            Err(error) => {
                failed = true;
                let error = format!("{error:#}");
                let field = relocations.iter().find(|relocation| relocation.is_meant_by(&error));
                let field = field.map(|relocation| format!(" (`{}`)", relocation.access)).unwrap_or_default();
                println!("{name:<width$}  failed: {error}{field}");
            }
        }
    }
    Ok(!failed)
}

/// The running kernel and the kernels of the list that are available.
fn default_kernels() -> anyhow::Result<Vec<KernelFile>> {
    let mut kernels = kernels::find(&["/sys/kernel/btf/vmlinux".into()])?;
    for (spec, kernel) in kernel_vm::fetch_kernels(kernel_vm::KERNELS)? {
        match kernel {
            Ok(kernel) => kernels.push(KernelFile { name: spec.to_string(), path: kernel.btf }),
            Err(why) => eprintln!("core-check: skipping {spec}: {why:#}"),
        }
    }
    Ok(kernels)
}

/// The relocations that the BTF of a kernel does not satisfy.
fn poisoned<'a>(object: &Object, relocations: &'a [Relocation], btf: &Btf) -> anyhow::Result<Vec<&'a Relocation>> {
    let mut object = object.clone();
    object.relocate_btf(btf).context("cannot relocate")?;
    Ok(relocations.iter().filter(|relocation| relocation.is_poisoned_in(&object)).collect())
}

fn distinct(relocations: &[&Relocation]) -> Vec<String> {
    let mut accesses: Vec<_> = relocations.iter().map(|relocation| relocation.access.clone()).collect();
    accesses.sort();
    accesses.dedup();
    accesses
}
