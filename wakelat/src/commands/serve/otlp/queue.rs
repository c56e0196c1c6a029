//! The exports that wait to be delivered, bounded in number and size.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use wakelat_core::service::{export_counts::ExportCounts, otlp::PartialSuccess};

/// Maximum number of exports. With the default interval, a receiver can be away for an hour.
const MAX_EXPORTS: usize = 60;

/// Maximum size of all exports: bytes. The newest one is kept whatever its size.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// What became of sending an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The receiver has it, except for the points that it names.
    Accepted(Option<PartialSuccess>),
    /// The receiver will never take it.
    Rejected(String),
    /// It has not arrived, and can be sent again.
    Later {
        /// Why.
        why: String,
        /// The pause that the receiver asks for.
        after: Option<Duration>,
    },
    /// It may have arrived: there was no answer.
    Unanswered(String),
}

/// Exports, the oldest first.
#[derive(Debug, Default)]
pub struct ExportQueue {
    exports: VecDeque<Bytes>,
    bytes: usize,
    /// Whether the first export is being sent, so that it may have arrived.
    is_sending: bool,
    counts: ExportCounts,
}

impl ExportQueue {
    /// Adds an export, and drops the oldest ones that are not being sent if there is no room. Returns how many.
    pub fn push(&mut self, export: Bytes) -> u64 {
        self.bytes += export.len();
        self.exports.push_back(export);
        let mut dropped = 0;
        let kept = usize::from(self.is_sending);
        while self.exports.len() > MAX_EXPORTS || self.bytes > MAX_BYTES {
            // The newest one stays.
            if self.exports.len() <= kept + 1 {
                break;
            }
            self.bytes -= self.exports.remove(kept).map_or(0, |export| export.len());
            dropped += 1;
        }
        self.counts.dropped += dropped;
        dropped
    }

    /// The oldest export, to be sent now; [`Self::end_attempt`] follows.
    pub fn begin_attempt(&mut self) -> Option<Bytes> {
        let export = self.exports.front()?.clone();
        self.is_sending = true;
        Some(export)
    }

    /// Ends the attempt to send the oldest export: it stays only if it has to be sent again. Under `delta`, an export that
    /// may have arrived is not sent again.
    pub fn end_attempt(&mut self, attempt: &Attempt, delta: bool) {
        self.is_sending = false;
        let count = match attempt {
            Attempt::Accepted(partial) => {
                self.counts.rejected_points += partial.as_ref().map_or(0, |partial| partial.rejected_points);
                &mut self.counts.delivered
            }
            Attempt::Rejected(_) => &mut self.counts.rejected,
            Attempt::Unanswered(_) if delta => &mut self.counts.unknown,
            Attempt::Unanswered(_) | Attempt::Later { .. } => return,
        };
        *count += 1;
        self.bytes -= self.exports.pop_front().map_or(0, |export| export.len());
    }

    /// Ends an attempt that was cut off, if there is one.
    pub fn cut_off(&mut self, delta: bool) {
        if self.is_sending {
            self.end_attempt(&Attempt::Unanswered("cut off".to_owned()), delta);
        }
    }

    /// What became of all exports.
    pub fn counts(&self) -> ExportCounts {
        ExportCounts { queued: self.exports.len() as u64, ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(counts: &ExportCounts) -> u64 {
        counts.queued + counts.by_result().iter().map(|(_, count)| count).sum::<u64>()
    }

    #[test]
    fn the_oldest_export_makes_room_unless_it_is_being_sent() {
        let mut queue = ExportQueue::default();
        for at in 0..MAX_EXPORTS {
            assert_eq!(queue.push(Bytes::from(at.to_string())), 0);
        }
        assert_eq!(queue.push(Bytes::from("more")), 1);
        assert_eq!(queue.begin_attempt(), Some(Bytes::from("1")));
        assert_eq!(queue.push(Bytes::from("more")), 1);
        queue.end_attempt(&Attempt::Accepted(None), true);
        assert_eq!(queue.begin_attempt(), Some(Bytes::from("3")));
        // One that is larger than all room is kept, beside the one that is being sent.
        queue.push(Bytes::from(vec![0; MAX_BYTES + 1]));
        assert_eq!(queue.counts().queued, 2);
        assert_eq!(total(&queue.counts()), MAX_EXPORTS as u64 + 3);
    }

    #[test]
    fn under_delta_an_export_that_may_have_arrived_is_not_sent_again() {
        for (delta, queued, unknown) in [(false, 1, 0), (true, 0, 1)] {
            let mut queue = ExportQueue::default();
            queue.push(Bytes::from("export"));
            queue.begin_attempt();
            queue.cut_off(delta);
            queue.cut_off(delta);
            assert_eq!((queue.counts().queued, queue.counts().unknown), (queued, unknown));
        }
    }
}
