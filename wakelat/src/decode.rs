//! Bytes of the ring buffer to waits: where the kernel's words become the user's. Never panics, whatever the bytes.

use bytes::Buf;
use wakelat_common::{
    Class, Sample,
    sample::{COMM_LEN, CPU_UNKNOWN, DELIVERY_UNKNOWN, KIND_SAMPLE},
};

use crate::wait::{Comm, Wait};

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Another length than a record's.
    Length {
        /// The length: bytes.
        found: usize,
        /// That of a record of its kind.
        expected: usize,
    },
    /// A kind of record that is not known.
    Kind(u8),
    /// A class that is not known.
    Class(u8),
    /// What became of a task is not known.
    PrevState(u8),
    /// What took the CPU is not known.
    Source(u8),
    /// Whose stack it is is not known.
    Role(u8),
    /// Of the thread that leaves no record told.
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
            Self::PrevState(leaving) => {
                write!(f, "a task that leaves as `{leaving}` in the ring buffer, expected 0 to 3")
            }
            Self::Source(source) => write!(f, "an interrupt of source `{source}` in the ring buffer, expected 0 to 2"),
            Self::Role(role) => write!(f, "a stack of role `{role}` in the ring buffer, expected 1 or 2"),
            Self::UnknownPrev(tid) => write!(f, "a switch from thread `{tid}` in the ring buffer, which had not come"),
        }?;
        f.write_str("; the BPF programs and this program do not belong together")
    }
}

impl std::error::Error for DecodeError {}

/// Decodes one record: the fields of a [`Sample`] in order, in the machine's byte order.
///
/// # Errors
/// Where it is not one: too short, too long, or of a kind or class that is not known.
pub fn decode(mut record: &[u8]) -> Result<Wait, DecodeError> {
    expect_length(record, size_of::<Sample>())?;
    let sample = sample(&mut record);
    if sample.kind == KIND_SAMPLE { wait(&sample) } else { Err(DecodeError::Kind(sample.kind)) }
}

/// That `record` has as many bytes as one of its kind.
pub(crate) fn expect_length(record: &[u8], expected: usize) -> Result<(), DecodeError> {
    let found = record.len();
    if found == expected { Ok(()) } else { Err(DecodeError::Length { found, expected }) }
}

/// Takes the fields of a sample, which `record` must have the bytes for.
fn sample(record: &mut &[u8]) -> Sample {
    Sample {
        kind: record.get_u8(),
        sampling_shift: record.get_u8(),
        class: record.get_u8(),
        preempted_sleeping: record.get_u8(),
        cpu: record.get_u32_ne(),
        at_ns: record.get_u64_ne(),
        latency_ns: record.get_u64_ne(),
        delivery_ns: record.get_u64_ne(),
        cgroup_id: record.get_u64_ne(),
        pid: record.get_u32_ne(),
        tgid: record.get_u32_ne(),
        prio: record.get_i32_ne(),
        policy: record.get_u32_ne(),
        prev_cpu: record.get_u32_ne(),
        waker_pid: record.get_u32_ne(),
        prev_pid: record.get_u32_ne(),
        prev_prio: record.get_i32_ne(),
        comm: name(record),
        prev_comm: name(record),
    }
}

/// Takes the bytes of a name, which `record` must have.
pub(crate) fn name(record: &mut &[u8]) -> [u8; COMM_LEN] {
    let mut name = [0; COMM_LEN];
    record.copy_to_slice(&mut name);
    name
}

/// A sample in user words.
pub(crate) fn wait(sample: &Sample) -> Result<Wait, DecodeError> {
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
        preempted_sleeping: sample.preempted_sleeping != 0,
        sampling_shift: sample.sampling_shift,
    })
}

/// A cgroup's id, if there is one.
pub(crate) fn known_cgroup(id: u64) -> Option<u64> {
    (id != 0).then_some(id)
}

/// A CPU, if it is known.
pub(crate) fn known_cpu(cpu: u32) -> Option<u32> {
    (cpu != CPU_UNKNOWN).then_some(cpu)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes of a record, field by field, as C lays it out.
    fn bytes(sample: &Sample) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend([sample.kind, sample.sampling_shift, sample.class, sample.preempted_sleeping]);
        bytes.extend(sample.cpu.to_ne_bytes());
        for long in [sample.at_ns, sample.latency_ns, sample.delivery_ns, sample.cgroup_id] {
            bytes.extend(long.to_ne_bytes());
        }
        bytes.extend(sample.pid.to_ne_bytes());
        bytes.extend(sample.tgid.to_ne_bytes());
        bytes.extend(sample.prio.to_ne_bytes());
        bytes.extend(sample.policy.to_ne_bytes());
        bytes.extend(sample.prev_cpu.to_ne_bytes());
        bytes.extend(sample.waker_pid.to_ne_bytes());
        bytes.extend(sample.prev_pid.to_ne_bytes());
        bytes.extend(sample.prev_prio.to_ne_bytes());
        bytes.extend(sample.comm);
        bytes.extend(sample.prev_comm);
        bytes
    }

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
            preempted_sleeping: 1,
        }
    }

    #[test]
    fn every_field_arrives() {
        let wait = decode(&bytes(&a_sample())).unwrap();
        assert_eq!((wait.class, wait.cpu, wait.at_ns, wait.latency_ns), (Class::Wakeup, 1, 2, 3));
        assert_eq!((wait.delivery_ns, wait.cgroup_id, wait.tid, wait.pid), (Some(4), Some(5), 6, 7));
        assert_eq!((wait.prio, wait.policy, wait.prev_cpu), (-1, 6, Some(0)));
        assert_eq!((wait.waker_tid, wait.prev_tid, wait.prev_prio), (Some(8), 9, 120));
        assert!(wait.preempted_sleeping);
        assert_eq!((wait.comm.as_bytes(), wait.prev_comm.as_bytes()), (&b"waits"[..], &b"ran"[..]));
    }

    #[test]
    fn what_is_unknown_is_not_a_number() {
        let unknown = Sample { delivery_ns: DELIVERY_UNKNOWN, prev_cpu: CPU_UNKNOWN, cgroup_id: 0, ..a_sample() };
        let wait = decode(&bytes(&unknown)).unwrap();
        assert_eq!((wait.delivery_ns, wait.prev_cpu, wait.cgroup_id, wait.waker_tid), (None, None, None, None));
    }

    #[test]
    fn only_a_wakeup_has_a_waker() {
        let preempted = Sample { class: Class::Preempted as u8, ..a_sample() };
        let wait = decode(&bytes(&preempted)).unwrap();
        assert_eq!((wait.delivery_ns, wait.waker_tid), (None, None));
    }

    #[test]
    fn a_short_a_long_and_an_unknown_record_are_refused() {
        let good = bytes(&a_sample());
        for length in 0..good.len() {
            assert_eq!(decode(&good[..length]), Err(DecodeError::Length { found: length, expected: 104 }));
        }
        assert_eq!(decode(&[good.clone(), vec![0]].concat()), Err(DecodeError::Length { found: 105, expected: 104 }));
        assert_eq!(decode(&bytes(&Sample { kind: 2, ..a_sample() })), Err(DecodeError::Kind(2)));
        assert_eq!(decode(&bytes(&Sample { class: 3, ..a_sample() })), Err(DecodeError::Class(3)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_wait_or_an_error(record in prop::collection::vec(any::<u8>(), 0..130)) {
            _ = decode(&record);
        }

        #[test]
        fn a_record_need_not_be_aligned(skipped in 0usize..8) {
            let shifted = [vec![0; skipped], bytes(&a_sample())].concat();
            prop_assert_eq!(decode(&shifted[skipped..]), decode(&bytes(&a_sample())));
        }
    }
}
