//! The tasks that wait on a run queue now, by the queue's clock: the output of the program `waiting_tasks`, which
//! iterates over all tasks.

use std::io::Read as _;

use anyhow::{Context as _, Result, bail};
use aya::{
    Btf, Ebpf,
    programs::{Iter, Program},
};
use wakelat_common::{pending_wait::PendingWait, queue_clock::WaitingTask, record_bytes};

/// The name of the program in the object.
const PROGRAM: &str = "waiting_tasks";

/// Loads and verifies the program. Returns whether the kernel accepts it: it needs BTF of its own for an iterator.
pub(super) fn load(ebpf: &mut Ebpf, btf: &Btf) -> bool {
    let loaded = iterator(ebpf).and_then(|program| Ok(program.load("task", btf)?));
    if let Err(error) = &loaded {
        log::info!("tasks that still wait at the end are not counted: {error:#}");
    }
    loaded.is_ok()
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
    Ok(bytes.chunks(size_of::<WaitingTask>()).filter_map(record_bytes::read).map(pending).collect())
}

fn pending(WaitingTask { at_ns, pid, cpu }: WaitingTask) -> PendingWait {
    PendingWait { at_ns, pid, prev_cpu: cpu, wanted: 1, ..PendingWait::IDLE }
}

fn iterator(ebpf: &mut Ebpf) -> Result<&mut Iter> {
    match ebpf.program_mut(PROGRAM) {
        Some(Program::Iter(program)) => Ok(program),
        _ => bail!("the BPF object has no iterator `{PROGRAM}`"),
    }
}
