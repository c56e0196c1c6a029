//! Merges the records of several ring buffers into the order of time. Pure.
//!
//! # How it works
//!
//! Each ring buffer has the records of one CPU, or of a few. A program reads the clock, reserves room in the ring buffer
//! of its CPU, and submits the record. The records of one ring buffer stay in the order in which they were reserved.
//! Between ring buffers, the record with the earlier stamp comes first, and with equal stamps that of the ring buffer
//! with the lower number.
//!
//! A record that is in flight, from its stamp until it is submitted, is not visible yet. A drain therefore reads the
//! clock first, then takes only records that were stamped at least [`IN_FLIGHT_NS`] before. Whatever becomes visible in
//! any ring buffer after that reading was stamped later, provided that no record is in flight for longer:
//!
//! ```text
//!  stamps:        taken by this drain      |    left for the next drain
//!  ----------------------------------------+------------------------------+-------> time
//!                                          |<------- IN_FLIGHT_NS ------->|
//!                                                              clock reading, then all
//!                                                              ring buffers are read
//! ```
//!
//! A record that is in flight for longer, because a hypervisor or an NMI takes the CPU from the program in between, may
//! arrive after later ones have been taken. It is not lost: it comes next, and [`RecordMerger::late`] counts it.

use std::{cmp::Reverse, collections::BinaryHeap, mem::offset_of};

use wakelat_common::{
    Sample,
    sample::KIND_SAMPLE,
    stack::StackRecord,
    timeline::{
        ForkExecRecord, InterruptRecord, MigrationRecord, SwitchRecord, WakeupRecord, WorkItemRecord, kind as event,
    },
};

/// The longest time for which a record is expected to be in flight, from its stamp until it is submitted: ns. The
/// programs take less than 1 µs for it, and some 50 µs if they take stacks.
pub const IN_FLIGHT_NS: u64 = 1_000_000;

/// The stamp up to which records may be taken by a drain that begins at `now_ns`, both in ns of CLOCK_MONOTONIC: no
/// record with an earlier stamp is in flight.
pub fn settled_until_ns(now_ns: u64) -> u64 {
    now_ns.saturating_sub(IN_FLIGHT_NS)
}

/// Ring buffers, each with records in the order in which they were reserved.
pub trait RecordRings {
    /// How many ring buffers there are.
    fn rings(&self) -> usize;

    /// Calls `take` with the oldest record of `ring`, and removes it if that returns something. `None` also if the ring
    /// buffer is empty, or if its oldest record has not been submitted yet.
    fn take_if<T>(&mut self, ring: usize, take: impl FnOnce(&[u8]) -> Option<T>) -> Option<T>;
}

/// Merges records, with what it needs to know of the earlier ones.
#[derive(Debug, Default)]
pub struct RecordMerger {
    /// The latest stamp in each ring buffer so far: ns of CLOCK_MONOTONIC.
    latest_ns: Vec<u64>,
    /// The time of the oldest record of each ring buffer, and its number.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// The latest time of a record taken so far: ns of CLOCK_MONOTONIC.
    taken_until_ns: u64,
    late: u64,
}

impl RecordMerger {
    /// Passes the records that were stamped until `until_ns` (CLOCK_MONOTONIC) to `take`, at most `limit` of them, in the
    /// order of time. Returns how many there were.
    ///
    /// The records of a ring buffer keep their order. One that was stamped before its predecessor, by a program that
    /// another one interrupted in between, counts as stamped at the same time. So does one without a stamp.
    ///
    /// # Errors
    /// Errors of `take`. The record that was passed to it is removed.
    pub fn merge<E>(
        &mut self,
        rings: &mut impl RecordRings,
        until_ns: u64,
        limit: usize,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        self.latest_ns.resize(rings.rings(), 0);
        self.heads.clear();
        for ring in 0..rings.rings() {
            let head = self.head(rings, ring, until_ns);
            self.heads.extend(head.map(Reverse));
        }
        let mut taken = 0;
        while taken < limit
            && let Some(Reverse((_, ring))) = self.heads.pop()
        {
            // As long as no other ring buffer has an earlier record, there is nothing to compare.
            let other = self.heads.peek().map(|Reverse(other)| *other);
            let is_next = |at_ns: u64| at_ns <= until_ns && other.is_none_or(|other| (at_ns, ring) < other);
            while taken < limit {
                let (latest_ns, mut left_at_ns) = (self.latest_ns[ring], None);
                // One look at each record, which takes it or leaves it.
                let record = rings.take_if(ring, |record| {
                    let at_ns = effective_ns(record, latest_ns);
                    left_at_ns = Some(at_ns);
                    is_next(at_ns).then(|| (at_ns, take(record)))
                });
                let Some((at_ns, result)) = record else {
                    let left_at_ns = left_at_ns.filter(|at_ns| *at_ns <= until_ns);
                    self.heads.extend(left_at_ns.map(|at_ns| Reverse((at_ns, ring))));
                    break;
                };
                self.latest_ns[ring] = at_ns;
                taken += 1;
                self.late += u64::from(at_ns < self.taken_until_ns);
                self.taken_until_ns = self.taken_until_ns.max(at_ns);
                result?;
            }
        }
        Ok(taken)
    }

    /// Records that arrived after later ones had been taken.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The time of the oldest record of `ring` and its number, if it was stamped until `until_ns`.
    fn head(&self, rings: &mut impl RecordRings, ring: usize, until_ns: u64) -> Option<(u64, usize)> {
        let mut at_ns = None;
        rings.take_if(ring, |record| {
            at_ns = Some(effective_ns(record, self.latest_ns[ring]));
            None::<()>
        });
        at_ns.filter(|at_ns| *at_ns <= until_ns).map(|at_ns| (at_ns, ring))
    }
}

/// The time at which a record counts as stamped: not before `latest_ns`, that of its predecessor.
fn effective_ns(record: &[u8], latest_ns: u64) -> u64 {
    stamp_ns(record).unwrap_or(0).max(latest_ns)
}

/// When a record of waits or of the timeline was stamped: ns of CLOCK_MONOTONIC. `None` if its kind is unknown or it is
/// too short.
pub fn stamp_ns(record: &[u8]) -> Option<u64> {
    let at = match *record.first()? {
        KIND_SAMPLE => offset_of!(Sample, at_ns),
        event::SWITCH | event::SWITCH_FULL => offset_of!(SwitchRecord, at_ns),
        event::INTERRUPT => offset_of!(InterruptRecord, to_ns),
        event::MIGRATION => offset_of!(MigrationRecord, at_ns),
        event::WAKEUP => offset_of!(WakeupRecord, at_ns),
        event::WORK_ITEM => offset_of!(WorkItemRecord, at_ns),
        event::FORK_EXEC => offset_of!(ForkExecRecord, at_ns),
        event::STACK => offset_of!(StackRecord, at_ns),
        _ => return None,
    };
    Some(u64::from_ne_bytes(*record.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
