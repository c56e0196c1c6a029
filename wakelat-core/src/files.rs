//! IDs of several recordings at once. Each machine has its own TIDs, CPUs, cgroup IDs and clock: in waits and events that
//! come from several files, the upper bits of each ID are the number of its file, so that no table mixes up two machines.
//! The first file has number 0, which leaves IDs as they are.

use std::sync::Arc;

use crate::wait::Comm;

/// Bits of a kernel's own PIDs and TIDs: they are at most `PID_MAX_LIMIT` (include/linux/threads.h).
const TID_BITS: u32 = 22;

/// Bits of a machine's own numbers of CPUs and interrupts, of which it has some thousand.
const NUMBER_BITS: u32 = 16;

/// Bits of a machine's own IDs of cgroups, which the kernel counts up.
const CGROUP_BITS: u32 = 48;

/// The most files that are shown together.
pub const MAX_FILES: usize = 1 << (u32::BITS - TID_BITS);

/// A recording that is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileName {
    /// Its name, as given.
    pub file: String,
    /// The host name of its machine.
    pub host: String,
}

/// The recordings that are shown, by number; empty for a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(Option<Arc<[FileName]>>);

impl Files {
    /// These recordings.
    pub fn new(names: impl IntoIterator<Item = FileName>) -> Self {
        Self(Some(names.into_iter().collect()))
    }

    /// Whether recordings are shown, not a measurement.
    pub fn are_recordings(&self) -> bool {
        self.0.is_some()
    }

    /// Whether there are several: then IDs alone do not identify anything.
    pub fn are_several(&self) -> bool {
        self.0.as_ref().is_some_and(|files| files.len() > 1)
    }

    /// The recording with this number; none for a measurement.
    pub fn get(&self, number: u32) -> Option<&FileName> {
        self.0.as_ref()?.get(number as usize)
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &FileName> {
        self.0.iter().flat_map(|files| files.iter())
    }

    /// The name of the idle task, if `tid` is its, and if there are several files: it has none of the CPUs of any.
    pub fn idle_name(&self, tid: u32) -> Option<Comm> {
        (tid == 0 && self.are_several()).then(|| Comm::new(b"swapper"))
    }

    /// The name of the file of a CPU, if there are several.
    pub fn of_cpu(&self, cpu: u32) -> Option<&str> {
        self.named(cpu >> NUMBER_BITS)
    }

    /// The name of the file of a task, if there are several. The idle task is in none.
    pub fn of_tid(&self, tid: u32) -> Option<&str> {
        self.named(tid >> TID_BITS).filter(|_| tid != 0)
    }

    fn named(&self, number: u32) -> Option<&str> {
        self.get(number).filter(|_| self.are_several()).map(|name| &*name.file)
    }
}

/// The number of the file that a CPU belongs to.
pub fn number_of_cpu(cpu: u32) -> u32 {
    cpu >> NUMBER_BITS
}

/// The PID or TID on its own machine.
pub fn own_tid(tid: u32) -> u32 {
    tid & ((1 << TID_BITS) - 1)
}

/// The number of the CPU, or of an interrupt, on its own machine.
pub fn own_number(number: u32) -> u32 {
    number & ((1 << NUMBER_BITS) - 1)
}

/// The ID of the cgroup on its own machine.
pub fn own_cgroup(id: u64) -> u64 {
    id & ((1 << CGROUP_BITS) - 1)
}

/// The IDs of one file among several.
#[derive(Clone, Copy, Debug)]
pub struct FileIds(u32);

impl FileIds {
    /// The IDs of the file with this number, which is below [`MAX_FILES`].
    pub fn new(number: usize) -> Self {
        debug_assert!(number < MAX_FILES);
        Self(number as u32)
    }

    /// A PID or TID of this file. There is only one idle task, 0.
    pub fn tid(self, own: u32) -> u32 {
        if own == 0 { 0 } else { self.0 << TID_BITS | own_tid(own) }
    }

    /// A CPU or an interrupt of this file.
    pub fn number(self, own: u32) -> u32 {
        self.0 << NUMBER_BITS | own_number(own)
    }

    /// A cgroup of this file. ID 0 means that there is none.
    pub fn cgroup(self, own: u64) -> u64 {
        if own == 0 { 0 } else { u64::from(self.0) << CGROUP_BITS | own_cgroup(own) }
    }

    /// A kernel stack of this file. The numbers of stacks use the lower bits first, and those of files the upper ones:
    /// a long recording among few may have more stacks than one among many.
    pub fn stack(self, own: u32) -> u32 {
        own ^ self.0.reverse_bits()
    }

    /// The address of a kernel function of this file. Addresses only differ in their lower bits.
    pub fn address(self, own: u64) -> u64 {
        own ^ u64::from(self.0) << CGROUP_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_several_files_differ_and_keep_their_own_values() {
        let files = [0, 1, 2, MAX_FILES - 1].map(FileIds::new);
        let tids = files.map(|file| file.tid(4_194_303));
        assert_eq!(tids.map(own_tid), [4_194_303; 4]);
        let numbers = files.map(|file| file.number(8_191));
        assert_eq!(numbers.map(own_number), [8_191; 4]);
        assert_eq!(numbers.map(number_of_cpu), [0, 1, 2, MAX_FILES as u32 - 1]);
        let cgroups = files.map(|file| file.cgroup(7));
        assert_eq!(cgroups.map(own_cgroup), [7; 4]);
        let addresses = files.map(|file| file.address(0xffff_ffff_8100_0000));
        // More than a kernel keeps at a time.
        let stacks = files.map(|file| [5, 5 + (1 << 16), 5 + (1 << 21)].map(|own| file.stack(own)));
        let all: std::collections::BTreeSet<u32> = stacks.iter().flatten().copied().collect();
        assert_eq!(all.len(), 12, "{stacks:?}");
        for at in 1..files.len() {
            assert!(!tids[..at].contains(&tids[at]) && !numbers[..at].contains(&numbers[at]), "{at}");
            assert!(!cgroups[..at].contains(&cgroups[at]) && !addresses[..at].contains(&addresses[at]), "{at}");
        }
        assert_eq!((files[0].tid(7), files[0].number(3), files[0].cgroup(9), files[0].address(5)), (7, 3, 9, 5));
        assert_eq!(files[0].stack(70_000), 70_000);
        assert_eq!((files[2].tid(0), files[2].cgroup(0)), (0, 0));
    }

    #[test]
    fn a_task_has_a_file_only_if_there_are_several() {
        let name = |file: &str| FileName { file: file.to_owned(), host: "host".to_owned() };
        let (one, two) = (Files::new([name("a")]), Files::new([name("a"), name("b")]));
        let second = FileIds::new(1);
        assert_eq!((one.of_tid(7), two.of_tid(7), two.of_tid(second.tid(7))), (None, Some("a"), Some("b")));
        let idle = [&one, &two].map(|files| files.idle_name(0).map(|comm| comm.to_string()));
        assert_eq!((idle, two.idle_name(second.tid(7))), ([None, Some("swapper".to_owned())], None));
        assert_eq!((two.of_tid(0), two.of_cpu(second.number(0))), (None, Some("b")));
        assert_eq!((Files::default().of_tid(7), Files::default().get(0)), (None, None));
    }
}
