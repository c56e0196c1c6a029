//! The tasks that wait on a run queue now, by the queue's clock: the output of the program `waiting_tasks`, which
//! iterates over all tasks.

use std::io::Read as _;

use anyhow::{Context as _, Result, bail};
use aya::{
    Btf, Ebpf,
    programs::{Iter, Program},
};
use bytes::Buf as _;
use wakelat_common::{pending_wait::PendingWait, queue_clock::WaitingTask};

/// The name of the program in the object.
const PROGRAM: &str = "waiting_tasks";

/// Loads and verifies the program.
///
/// # Errors
/// If the kernel rejects it.
pub(super) fn load(ebpf: &mut Ebpf, btf: &Btf) -> Result<()> {
    iterator(ebpf)?.load("task", btf).context("the kernel rejects the BPF program that iterates over tasks")
}

/// Runs the program.
///
/// # Errors
/// If the kernel refuses to run it.
pub(super) fn read(ebpf: &mut Ebpf) -> Result<Vec<PendingWait>> {
    const FAILED: &str = "cannot iterate over the tasks that still wait";
    let program = iterator(ebpf)?;
    let link = program.attach().context(FAILED)?;
    let mut file = program.take_link(link).context(FAILED)?.into_file().context(FAILED)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).context(FAILED)?;
    Ok(bytes.chunks_exact(size_of::<WaitingTask>()).map(pending).collect())
}

/// Decodes a [`WaitingTask`], which is long enough.
fn pending(mut record: &[u8]) -> PendingWait {
    let (at_ns, pid, prev_cpu) = (record.get_u64_ne(), record.get_u32_ne(), record.get_u32_ne());
    PendingWait { at_ns, pid, prev_cpu, wanted: 1, ..PendingWait::IDLE }
}

fn iterator(ebpf: &mut Ebpf) -> Result<&mut Iter> {
    match ebpf.program_mut(PROGRAM) {
        Some(Program::Iter(program)) => Ok(program),
        _ => bail!("the BPF object has no iterator `{PROGRAM}`"),
    }
}
