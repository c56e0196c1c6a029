//! Bounds the memory of answers that clients take long to read.

use std::{cell::Cell, collections::HashSet, rc::Rc};

use hyper::body::Bytes;

/// The most that answers take which are not read yet, without the newest: bytes. A body of a thousand cgroups is some 14 MB.
pub const MAX_BYTES: usize = 32 << 20;

/// The body that a connection sends, once there is one: where it is, and its length (bytes). Connections that are answered
/// from one rendering share their body.
#[derive(Clone, Debug, Default)]
pub struct SentBody(Rc<Cell<Option<(usize, usize)>>>);

impl SentBody {
    /// The connection sends `body`.
    pub fn set(&self, body: &Bytes) {
        self.0.set(Some((body.as_ptr() as usize, body.len())));
    }
}

/// Which of the connections with these bodies have to end: the oldest, as far as there is no room for the bodies of the
/// newer ones with theirs. `newest`: the one whose body came last, which stays.
pub fn without_room(bodies: &[SentBody], newest: &SentBody, max_bytes: usize) -> Vec<bool> {
    let mut kept = HashSet::new();
    let mut bytes = 0;
    let mut ends = |body: &SentBody, stays: bool| {
        let Some((at, length)) = body.0.get() else { return false };
        if kept.contains(&at) {
            return false;
        }
        let has_room = stays || bytes + length <= max_bytes;
        if has_room {
            kept.insert(at);
            // The newest may be larger than all room, and leaves it to others then.
            bytes += if stays { 0 } else { length };
        }
        !has_room
    };
    ends(newest, true);
    let mut ended: Vec<bool> = bodies.iter().rev().map(|body| ends(body, false)).collect();
    ended.reverse();
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(body: &Bytes) -> SentBody {
        let sent = SentBody::default();
        sent.set(body);
        sent
    }

    #[test]
    fn the_oldest_answers_end_when_newer_ones_need_their_room() {
        let bodies: Vec<Bytes> = (0..4u8).map(|byte| Bytes::from(vec![byte; 10])).collect();
        let all: Vec<SentBody> = bodies.iter().map(sent).collect();
        assert_eq!(without_room(&all, &all[3], 30), [false; 4]);
        assert_eq!(without_room(&all, &all[3], 20), [true, false, false, false]);
        assert_eq!(without_room(&all, &all[3], 0), [true, true, true, false]);
        // The connection whose answer came last need not be the newest.
        assert_eq!(without_room(&all, &all[0], 10), [false, true, true, false]);
    }

    #[test]
    fn a_body_that_connections_share_takes_its_room_once() {
        let (shared, other) = (Bytes::from(vec![1; 10]), Bytes::from(vec![2; 10]));
        let all = [sent(&other), sent(&shared), sent(&shared), SentBody::default(), sent(&shared)];
        assert_eq!(without_room(&all, &all[4], 9), [true, false, false, false, false]);
        assert_eq!(without_room(&all, &all[4], 10), [false; 5]);
    }
}
