//! The data of the in-kernel filter: which tasks are measured. All of it is about the task that waits,
//! never its waker.

use crate::glob::Glob;

/// Highest number of CPUs that a filter can name (`NR_CPUS` of the largest distribution kernels, 8192).
pub const MAX_CPUS: usize = 8192;

/// Number of processes that a filter can follow at a time, with all descendants.
pub const MAX_PROCESSES: u32 = 1 << 15;

/// Lowest kernel priority: that of a deadline task.
pub const MIN_PRIO: i32 = -1;
/// Highest kernel priority: nice 19 (`MAX_PRIO - 1`, include/linux/sched/prio.h).
pub const MAX_PRIO: i32 = 139;

/// Bits of the load-time integer that says which criteria the filter uses, so that the verifier removes
/// the code of the others.
pub mod part {
    /// Only the processes in the map of process IDs.
    pub const TGID: u32 = 1 << 0;
    /// Only the threads in the map of thread IDs.
    pub const PID: u32 = 1 << 1;
    /// Only names that match [`super::Filter::comm`].
    pub const COMM: u32 = 1 << 2;
    /// Only the cgroups in the map of cgroup IDs, and their descendants.
    pub const CGROUP: u32 = 1 << 3;
    /// Only the CPUs in [`super::Filter::cpus`].
    pub const CPU: u32 = 1 << 4;
    /// Only the priorities in [`super::Filter::prios`].
    pub const PRIO: u32 = 1 << 5;
    /// Only the policies in [`super::Filter::policies`].
    pub const POLICY: u32 = 1 << 6;
    /// Excludes the process in the load-time integer `OWN_TGID`.
    pub const OTHERS: u32 = 1 << 7;
    /// With [`TGID`]: also the descendants of the processes, which the programs add to the map.
    pub const DESCENDANTS: u32 = 1 << 8;
}

/// The values that a filter compares with, except for IDs, which have maps of their own.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Filter {
    /// Patterns for task names.
    pub comm: Glob,
    /// Bit `prio - MIN_PRIO` is set if that priority is accepted. (Four words, a power of two, of which
    /// three are used.)
    pub prios: [u64; 4],
    /// Bit `policy` is set if that policy is accepted.
    pub policies: u64,
    /// Bit `cpu` is set if that CPU, on which a wait ends, is accepted.
    pub cpus: [u64; MAX_CPUS / 64],
}

impl Filter {
    /// A filter that accepts nothing; set the bits of each criterion in use afterwards.
    pub const fn new() -> Self {
        Self { comm: Glob::new(), prios: [0; 4], policies: 0, cpus: [0; MAX_CPUS / 64] }
    }

    /// Whether `prio` is accepted; one outside the kernel's range never is.
    #[inline(always)]
    pub fn wants_prio(&self, prio: i32) -> bool {
        bit(&self.prios, prio.wrapping_sub(MIN_PRIO) as u32)
    }

    /// Whether `policy` is accepted.
    #[inline(always)]
    pub fn wants_policy(&self, policy: u32) -> bool {
        policy < 64 && self.policies >> policy & 1 != 0
    }

    /// Whether `cpu` is accepted.
    #[inline(always)]
    pub fn wants_cpu(&self, cpu: u32) -> bool {
        bit(&self.cpus, cpu)
    }

    /// Accepts `prio`. Returns false if the kernel has no such priority.
    pub fn want_prio(&mut self, prio: i32) -> bool {
        (MIN_PRIO..=MAX_PRIO).contains(&prio) && set(&mut self.prios, (prio - MIN_PRIO) as u32)
    }

    /// Accepts `cpu`. Returns false if it is not below [`MAX_CPUS`].
    pub fn want_cpu(&mut self, cpu: u32) -> bool {
        set(&mut self.cpus, cpu)
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::new()
    }
}

/// Tests bit `index`; the number of words must be a power of two. Reads first and tests the range
/// afterwards: in the other order LLVM proves the mask superfluous and drops it, and the verifier, which
/// cannot follow the proof, rejects the program.
#[inline(always)]
fn bit<const WORDS: usize>(words: &[u64; WORDS], index: u32) -> bool {
    const { assert!(WORDS.is_power_of_two()) };
    let bit = (words[(index as usize / 64) & (WORDS - 1)] >> (index % 64)) & 1;
    bit & u64::from((index as usize) < WORDS * 64) != 0
}

fn set(words: &mut [u64], index: u32) -> bool {
    let Some(word) = words.get_mut(index as usize / 64) else {
        return false;
    };
    *word |= 1 << (index % 64);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_outside_the_kernels_range_is_never_wanted() {
        let mut filter = Filter::new();
        for prio in MIN_PRIO..=MAX_PRIO {
            assert!(filter.want_prio(prio));
        }
        assert!(!filter.want_prio(140) && !filter.want_prio(-2));
        assert!(filter.wants_prio(-1) && filter.wants_prio(0) && filter.wants_prio(139));
        assert!(!filter.wants_prio(-2) && !filter.wants_prio(140));
        assert!(!filter.wants_prio(i32::MIN) && !filter.wants_prio(i32::MAX));
    }

    #[test]
    fn only_the_named_cpus_are_wanted() {
        let mut filter = Filter::new();
        assert!(filter.want_cpu(0) && filter.want_cpu(64) && filter.want_cpu(8191));
        assert!(!filter.want_cpu(8192));
        assert!(filter.wants_cpu(0) && filter.wants_cpu(64) && filter.wants_cpu(8191));
        assert!(!filter.wants_cpu(1) && !filter.wants_cpu(8192) && !filter.wants_cpu(u32::MAX));
    }
}
