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
    Length(usize),
    /// A kind of record that is not known.
    Kind(u8),
    /// A class that is not known.
    Class(u8),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length(length) => {
                write!(f, "a record of `{length}` bytes in the ring buffer, expected {}", size_of::<Sample>())
            }
            Self::Kind(kind) => write!(f, "a record of kind `{kind}` in the ring buffer, expected {KIND_SAMPLE}"),
            Self::Class(class) => write!(f, "a record of class `{class}` in the ring buffer, expected 0 to 2"),
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
    if record.len() != size_of::<Sample>() {
        return Err(DecodeError::Length(record.len()));
    }
    let kind = record.get_u8();
    if kind != KIND_SAMPLE {
        return Err(DecodeError::Kind(kind));
    }
    let level = record.get_u8();
    let class = record.get_u8();
    let class = Class::from_u8(class).ok_or(DecodeError::Class(class))?;
    let woken = class == Class::Wakeup;
    let wakeable = record.get_u8() != 0;
    let cpu = record.get_u32_ne();
    let at_ns = record.get_u64_ne();
    let latency_ns = record.get_u64_ne();
    let delivery_ns = record.get_u64_ne();
    let cgroup_id = record.get_u64_ne();
    let tid = record.get_u32_ne();
    let pid = record.get_u32_ne();
    let prio = record.get_i32_ne();
    let policy = record.get_u32_ne();
    let prev_cpu = record.get_u32_ne();
    let waker_tid = record.get_u32_ne();
    let prev_tid = record.get_u32_ne();
    let prev_prio = record.get_i32_ne();
    let mut comm = [0; COMM_LEN];
    record.copy_to_slice(&mut comm);
    let mut prev_comm = [0; COMM_LEN];
    record.copy_to_slice(&mut prev_comm);
    let delivered = woken && delivery_ns != DELIVERY_UNKNOWN;
    Ok(Wait {
        class,
        at_ns,
        latency_ns,
        delivery_ns: delivered.then_some(delivery_ns),
        tid,
        pid,
        comm: Comm::new(&comm),
        cgroup_id: (cgroup_id != 0).then_some(cgroup_id),
        prio,
        policy,
        cpu,
        prev_cpu: (prev_cpu != CPU_UNKNOWN).then_some(prev_cpu),
        waker_tid: delivered.then_some(waker_tid),
        prev_tid,
        prev_comm: Comm::new(&prev_comm),
        prev_prio,
        wakeable,
        level,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes of a record, field by field, as C lays it out.
    fn bytes(sample: &Sample) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend([sample.kind, sample.level, sample.class, sample.wakeable]);
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

    fn sample() -> Sample {
        Sample {
            kind: KIND_SAMPLE,
            level: 3,
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
            wakeable: 1,
        }
    }

    #[test]
    fn every_field_arrives() {
        let wait = decode(&bytes(&sample())).unwrap();
        assert_eq!((wait.class, wait.cpu, wait.at_ns, wait.latency_ns), (Class::Wakeup, 1, 2, 3));
        assert_eq!((wait.delivery_ns, wait.cgroup_id, wait.tid, wait.pid), (Some(4), Some(5), 6, 7));
        assert_eq!((wait.prio, wait.policy, wait.prev_cpu), (-1, 6, Some(0)));
        assert_eq!((wait.waker_tid, wait.prev_tid, wait.prev_prio), (Some(8), 9, 120));
        assert!(wait.wakeable);
        assert_eq!((wait.comm.as_bytes(), wait.prev_comm.as_bytes()), (&b"waits"[..], &b"ran"[..]));
    }

    #[test]
    fn what_is_unknown_is_not_a_number() {
        let unknown = Sample { delivery_ns: DELIVERY_UNKNOWN, prev_cpu: CPU_UNKNOWN, cgroup_id: 0, ..sample() };
        let wait = decode(&bytes(&unknown)).unwrap();
        assert_eq!((wait.delivery_ns, wait.prev_cpu, wait.cgroup_id, wait.waker_tid), (None, None, None, None));
    }

    #[test]
    fn only_a_wakeup_has_a_waker() {
        let preempted = Sample { class: Class::Preempted as u8, ..sample() };
        let wait = decode(&bytes(&preempted)).unwrap();
        assert_eq!((wait.delivery_ns, wait.waker_tid), (None, None));
    }

    #[test]
    fn a_short_a_long_and_an_unknown_record_are_refused() {
        let good = bytes(&sample());
        for length in 0..good.len() {
            assert_eq!(decode(&good[..length]), Err(DecodeError::Length(length)));
        }
        assert_eq!(decode(&[good.clone(), vec![0]].concat()), Err(DecodeError::Length(105)));
        assert_eq!(decode(&bytes(&Sample { kind: 2, ..sample() })), Err(DecodeError::Kind(2)));
        assert_eq!(decode(&bytes(&Sample { class: 3, ..sample() })), Err(DecodeError::Class(3)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_wait_or_an_error(record in prop::collection::vec(any::<u8>(), 0..130)) {
            _ = decode(&record);
        }

        #[test]
        fn a_record_need_not_be_aligned(skipped in 0usize..8) {
            let shifted = [vec![0; skipped], bytes(&sample())].concat();
            prop_assert_eq!(decode(&shifted[skipped..]), decode(&bytes(&sample())));
        }
    }
}
