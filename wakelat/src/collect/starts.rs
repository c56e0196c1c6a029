//! Where the programs keep the starts, and who waits there.

use std::io::Read as _;

use anyhow::{Context as _, Result};
use aya::{
    Btf, Ebpf,
    maps::{Array, HashMap, MapData},
    programs::Iter,
};
use wakelat_common::{course::Entry, start::Start};

use super::{attach, load::take};

/// Where the programs keep the starts.
pub(super) enum Starts {
    /// A hash map of a fixed size.
    Map(HashMap<MapData, u64, Entry>),
    /// The tasks themselves. Only a program can go through them.
    Tasks {
        /// Tells the programs that the run has ended.
        ended: Array<MapData, u32>,
        /// The tasks that were waiting then.
        waiting: Vec<Start>,
    },
}

/// The program that gives the tasks their entries.
const PREPARE: &str = "prepare";

/// The program that tells which tasks wait.
const WAITING: &str = "waiting";

impl Starts {
    /// In a map.
    pub(super) fn in_map(ebpf: &mut Ebpf) -> Result<Self> {
        Ok(Self::Map(HashMap::try_from(take(ebpf, "STARTS")?)?))
    }

    /// In the tasks, as far as the filter, which is in place by now, wants them; has the programs that go through them
    /// verified.
    pub(super) fn in_tasks(ebpf: &mut Ebpf, btf: &Btf) -> Result<Self> {
        for name in [PREPARE, WAITING] {
            iterator(ebpf, name)?.load("task", btf).context("the kernel refuses the iterator over tasks")?;
        }
        through_tasks(iterator(ebpf, PREPARE)?)?;
        Ok(Self::Tasks { ended: Array::try_from(take(ebpf, "ENDED")?)?, waiting: Vec::new() })
    }

    /// Ends the run, as soon as no wakeup starts a wait any more. What goes with its task has to be found while the
    /// program on `sched_switch` still sees which tasks go: from now on that is all it does.
    pub(super) fn end(&mut self, ebpf: &mut Ebpf) -> Result<()> {
        let Self::Tasks { ended, waiting } = self else { return Ok(()) };
        ended.set(0, 1, 0).context("cannot end the run")?;
        attach::wait_until_done();
        let bytes = through_tasks(iterator(ebpf, WAITING)?)?;
        waiting.extend(bytes.chunks_exact(size_of::<Start>()).map(start));
        Ok(())
    }

    /// The tasks that were waiting when the run ended, of those asked for.
    pub(super) fn waiting(&self) -> Result<Vec<Start>> {
        match self {
            Self::Map(map) => {
                let mut waiting = Vec::new();
                for entry in map.iter() {
                    let (_, Entry { start, .. }) = entry.context("cannot read the map of starts")?;
                    if start.is_wanted() {
                        waiting.push(start);
                    }
                }
                Ok(waiting)
            }
            Self::Tasks { waiting, .. } => Ok(waiting.clone()),
        }
    }
}

fn iterator<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Iter> {
    let program = ebpf.program_mut(name).with_context(|| format!("the BPF object has no program `{name}`"))?;
    Ok(program.try_into()?)
}

/// Runs an iterator for every thread, and gives what it has written.
fn through_tasks(program: &mut Iter) -> Result<Vec<u8>> {
    let link = program.attach().and_then(|link| program.take_link(link));
    let mut file = link
        .map_err(anyhow::Error::from)
        .and_then(|link| Ok(link.into_file()?))
        .context("cannot go through the tasks")?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).context("cannot go through the tasks")?;
    Ok(bytes)
}

/// A start from its bytes, as long as one.
fn start(bytes: &[u8]) -> Start {
    // SAFETY: the bytes are as many as a start has, which is plain data: any bytes are one.
    unsafe { bytes.as_ptr().cast::<Start>().read_unaligned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_read_wherever_its_bytes_lie() {
        let mut bytes = [0; 1 + size_of::<Start>()];
        bytes[1..9].copy_from_slice(&7u64.to_ne_bytes());
        bytes[9..13].copy_from_slice(&42u32.to_ne_bytes());
        let found = start(&bytes[1..]);
        assert_eq!((found.at_ns, found.pid), (7, 42));
    }
}
