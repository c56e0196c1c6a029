//! Decodes the bytes of the ring buffer to waits, and kernel terms to user terms. Never panics, whatever the
//! bytes.

use wakelat_common::{
    Class, Sample,
    record_bytes::{self, FromBytes},
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN, KIND_SAMPLE, KernelCounts},
};

use crate::wait::{Comm, Wait};

/// Why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The length is not that of a record.
    Length {
        /// Actual length: bytes.
        found: usize,
        /// Length of a record of this kind: bytes.
        expected: usize,
    },
    /// An unknown kind of record.
    Kind(u8),
    /// An unknown class.
    Class(u8),
    /// An unknown answer to whether the kernel counts a wait.
    KernelCounts(u8),
    /// An unknown previous state of a task at its switch-out.
    PrevState(u8),
    /// An unknown source of an interrupt.
    Source(u8),
    /// An unknown role of a stack.
    Role(u8),
    /// A switch from a thread (its TID) without an earlier record of a switch to it.
    UnknownPrev(u32),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length { found, expected } => {
                write!(f, "a record of `{found}` bytes in the ring buffer, expected {expected}")
            }
            Self::Kind(kind) => write!(f, "a record of the unknown kind `{kind}` in the ring buffer"),
            Self::Class(class) => write!(f, "a record of class `{class}` in the ring buffer, expected 0 to 2"),
            Self::KernelCounts(counts) => {
                write!(f, "a wait in the ring buffer with `{counts}` as its `kernel_counts`, expected 0 to 2")
            }
            Self::PrevState(state) => {
                write!(f, "a switch with previous state `{state}` in the ring buffer, expected 0 to 3")
            }
            Self::Source(source) => write!(f, "an interrupt of source `{source}` in the ring buffer, expected 0 to 2"),
            Self::Role(role) => write!(f, "a stack of role `{role}` in the ring buffer, expected 1 or 2"),
            Self::UnknownPrev(tid) => {
                write!(f, "a switch from thread `{tid}` in the ring buffer without a switch to it before")
            }
        }?;
        f.write_str("; this binary and its BPF object are from different builds")
    }
}

impl std::error::Error for DecodeError {}

/// Decodes a record, which is a [`Sample`].
///
/// # Errors
/// If the record is too short or too long, or its kind or class is unknown.
pub fn decode(record: &[u8]) -> Result<Wait, DecodeError> {
    let sample: Sample = read(record)?;
    if sample.kind == KIND_SAMPLE { wait(&sample) } else { Err(DecodeError::Kind(sample.kind)) }
}

/// Reads a record of one kind.
///
/// # Errors
/// If it has more or fewer bytes than a `T`.
pub(crate) fn read<T: FromBytes>(record: &[u8]) -> Result<T, DecodeError> {
    record_bytes::read(record).ok_or(DecodeError::Length { found: record.len(), expected: size_of::<T>() })
}

/// Converts a sample to user terms.
#[inline]
pub fn wait(sample: &Sample) -> Result<Wait, DecodeError> {
    let class = Class::from_u8(sample.class).ok_or(DecodeError::Class(sample.class))?;
    let delivered = class == Class::Wakeup && sample.delivery_ns != DELIVERY_UNKNOWN;
    Ok(Wait {
        class,
        at_ns: sample.at_ns,
        latency_ns: sample.latency_ns,
        delivery_ns: delivered.then_some(sample.delivery_ns),
        tid: sample.pid,
        pid: sample.tgid,
        comm: Comm::new(&sample.comm),
        cgroup_id: known_cgroup(sample.cgroup_id),
        prio: sample.prio,
        policy: sample.policy,
        cpu: sample.cpu,
        prev_cpu: known_cpu(sample.prev_cpu),
        waker_tid: delivered.then_some(sample.waker_pid),
        prev_tid: sample.prev_pid,
        prev_comm: Comm::new(&sample.prev_comm),
        prev_prio: sample.prev_prio,
        kernel_counts: KernelCounts::from_u8(sample.kernel_counts)
            .ok_or(DecodeError::KernelCounts(sample.kernel_counts))?,
        sampling_shift: sample.sampling_shift,
    })
}

/// The ID of a cgroup, if it is known.
pub(crate) fn known_cgroup(id: u64) -> Option<u64> {
    (id != 0).then_some(id)
}

/// The number of a CPU, if it is known.
pub(crate) fn known_cpu(cpu: u32) -> Option<u32> {
    (cpu != CPU_UNKNOWN).then_some(cpu)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakelat_common::record_bytes::bytes;

    use super::*;

    fn a_sample() -> Sample {
        Sample {
            kind: KIND_SAMPLE,
            sampling_shift: 3,
            class: Class::Wakeup as u8,
            cpu: 1,
            at_ns: 2,
            latency_ns: 3,
            delivery_ns: 4,
            cgroup_id: 5,
            pid: 6,
            tgid: 7,
            prio: -1,
            policy: 6,
            prev_cpu: 0,
            waker_pid: 8,
            prev_pid: 9,
            prev_prio: 120,
            comm: *b"waits\0..........",
            prev_comm: *b"ran\0............",
            kernel_counts: 1,
        }
    }

    #[test]
    fn every_field_is_decoded() {
        let wait = decode(bytes(&a_sample())).unwrap();
        assert_eq!((wait.class, wait.cpu, wait.at_ns, wait.latency_ns), (Class::Wakeup, 1, 2, 3));
        assert_eq!((wait.delivery_ns, wait.cgroup_id, wait.tid, wait.pid), (Some(4), Some(5), 6, 7));
        assert_eq!((wait.prio, wait.policy, wait.prev_cpu), (-1, 6, Some(0)));
        assert_eq!((wait.waker_tid, wait.prev_tid, wait.prev_prio), (Some(8), 9, 120));
        assert_eq!(wait.kernel_counts, KernelCounts::No);
        assert_eq!((wait.comm.as_bytes(), wait.prev_comm.as_bytes()), (&b"waits"[..], &b"ran"[..]));
    }

    #[test]
    fn unknown_values_are_none() {
        let unknown = Sample { delivery_ns: DELIVERY_UNKNOWN, prev_cpu: CPU_UNKNOWN, cgroup_id: 0, ..a_sample() };
        let wait = decode(bytes(&unknown)).unwrap();
        assert_eq!((wait.delivery_ns, wait.prev_cpu, wait.cgroup_id, wait.waker_tid), (None, None, None, None));
    }

    #[test]
    fn only_a_wakeup_has_a_waker() {
        let preempted = Sample { class: Class::Preempted as u8, ..a_sample() };
        let wait = decode(bytes(&preempted)).unwrap();
        assert_eq!((wait.delivery_ns, wait.waker_tid), (None, None));
    }

    #[test]
    fn a_short_a_long_and_an_unknown_record_are_refused() {
        let good = bytes(&a_sample()).to_vec();
        for length in 0..good.len() {
            assert_eq!(decode(&good[..length]), Err(DecodeError::Length { found: length, expected: 104 }));
        }
        assert_eq!(decode(&[good.clone(), vec![0]].concat()), Err(DecodeError::Length { found: 105, expected: 104 }));
        assert_eq!(decode(bytes(&Sample { kind: 2, ..a_sample() })), Err(DecodeError::Kind(2)));
        assert_eq!(decode(bytes(&Sample { class: 3, ..a_sample() })), Err(DecodeError::Class(3)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_wait_or_an_error(record in prop::collection::vec(any::<u8>(), 0..130)) {
            _ = decode(&record);
        }

        #[test]
        fn a_record_need_not_be_aligned(skipped in 0usize..8) {
            let shifted = [&[0; 8][..skipped], bytes(&a_sample())].concat();
            prop_assert_eq!(decode(&shifted[skipped..]), decode(bytes(&a_sample())));
        }
    }
}
