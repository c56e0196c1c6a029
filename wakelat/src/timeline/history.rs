//! What one CPU did, as one gapless row of segments: a ns belongs to the innermost of what had the CPU.

use std::collections::VecDeque;

use super::{
    event::{Event, Noise, Occupant, Source, Turn},
    part::{Runner, Unknown},
};

/// From when to when something had the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// Where it ends, and the next begins.
    pub to_ns: u64,
    /// What it was.
    pub held: Held,
}

/// What had the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A task; real-time tasks had used up their time when it came, where so said.
    Task(Runner, bool),
    /// The idle task, and the C-state.
    Idle(Option<u8>, bool),
    /// An interrupt or softirq, and what interrupted it left out.
    Noise(Source),
    /// A task of which the next switch will tell.
    NotYet,
    /// It is not known.
    Unknown(Unknown),
}

impl Held {
    /// Whether real-time tasks had used up their time on the CPU, and this is a task.
    pub fn is_rt_throttled(&self) -> bool {
        matches!(self, Self::Task(_, true) | Self::Idle(_, true))
    }

    fn tid(&self) -> Option<u32> {
        match self {
            Self::Task(task, _) => Some(task.tid),
            Self::Idle(..) => Some(0),
            _ => None,
        }
    }
}

/// What one CPU did, as far back as there is room.
///
/// The CPU's own records come in their order, and an interrupt's at its end, those that interrupted it first. What is
/// remembered is always net: an event costs as many steps as it changes segments, which is one for most, and none
/// allocates once the room is filled.
#[derive(Debug, Default)]
pub struct History {
    segments: VecDeque<Segment>,
    /// Segments were dropped to have room.
    is_cut: bool,
    /// Until when it goes; none where nothing is known yet.
    until_ns: Option<u64>,
    /// What has the CPU from there.
    current: Option<Held>,
    /// When that came to the CPU.
    slice_ns: u64,
    /// The number of the last record; they begin with 1.
    last_seq: u32,
    /// Segments that are being changed.
    taken: Vec<Segment>,
}

impl History {
    /// Takes note that an event came, about a time until `at_ns`. Returns how many before it were lost.
    pub fn follow(&mut self, event: &Event, at_ns: u64) -> u32 {
        let lost = event.follow(&mut self.last_seq);
        match self.until_ns {
            None => self.until_ns = Some(at_ns),
            Some(_) if lost > 0 => {
                self.extend(at_ns, Held::Unknown(Unknown::Lost));
                // Whoever came meanwhile: the next switch says who leaves.
                self.current = None;
                self.slice_ns = self.until_ns.unwrap_or(at_ns);
            }
            Some(_) => {}
        }
        lost
    }

    /// The CPU went from one task to the next.
    pub fn turn(&mut self, turn: &Turn) {
        let prev = match held(&turn.prev, false) {
            Held::Idle(..) => Held::Idle(turn.idle_state, matches!(self.current, Some(Held::Idle(_, true)))),
            task => task,
        };
        let hidden = turn.unseen.and_then(|unseen| unseen.switches);
        let is_whole = self.current.is_none_or(|current| current.tid() == prev.tid());
        let came_ns = turn.unseen.and_then(|unseen| unseen.came_ns);
        // Who had the CPU at first and who after that, and from when on.
        let (first, then_ns, then) = match (self.current, hidden, came_ns) {
            (current, None | Some(0), _) if is_whole => {
                let stays = current.filter(|current| matches!(current, Held::Task(..))).unwrap_or(prev);
                (stays, turn.at_ns, stays)
            }
            // One switch was not shown: from whoever had come to whoever leaves.
            (Some(current), Some(1), Some(came_ns)) => (current, came_ns, prev),
            (_, _, Some(came_ns)) => (Held::Unknown(Unknown::Hidden), came_ns, prev),
            // Somewhere between one went and another came.
            (.., None) => (Held::Unknown(Unknown::Hidden), turn.at_ns, prev),
        };
        self.extend(turn.at_ns, Held::NotYet);
        self.settle_slice(first, then_ns, then);
        self.current = Some(held(&turn.next, turn.rt_throttled));
        self.slice_ns = self.until_ns.unwrap_or(turn.at_ns);
    }

    /// An interrupt or softirq came to its end.
    pub fn noise(&mut self, noise: &Noise) {
        let Some(until_ns) = self.until_ns else { return };
        if noise.from_ns >= noise.to_ns {
            return;
        }
        let current = self.current.unwrap_or(Held::NotYet);
        if noise.from_ns >= until_ns {
            self.extend(noise.from_ns, current);
        } else {
            self.carve(noise, current.tid());
        }
        self.extend(noise.to_ns, Held::Noise(noise.source));
    }

    /// Gives the noise what went to the task that it interrupted: not what interrupted it in turn, and, where a softirq
    /// can be preempted, not what other tasks had.
    fn carve(&mut self, noise: &Noise, interrupted: Option<u32>) {
        while self.segments.back().is_some_and(|last| last.to_ns > noise.from_ns) {
            self.taken.extend(self.segments.pop_back());
        }
        while let Some(segment) = self.taken.pop() {
            let is_interrupted = segment.held == Held::NotYet
                || segment.held.tid().is_some_and(|tid| interrupted.is_none_or(|interrupted| interrupted == tid));
            if !is_interrupted {
                self.segments.push_back(segment);
                continue;
            }
            // What was after it came before it where it was interrupted on its last instructions.
            let from_ns = segment.from_ns.max(noise.from_ns);
            let to_ns = segment.to_ns.min(noise.to_ns).max(from_ns);
            self.put(segment.from_ns, from_ns, segment.held);
            self.put(from_ns, to_ns, Held::Noise(noise.source));
            self.put(to_ns, segment.to_ns, segment.held);
        }
    }

    /// Gives what tasks had since the last switch to `first`, and from `then_ns` on to `then`.
    fn settle_slice(&mut self, first: Held, then_ns: u64, then: Held) {
        while self.segments.back().is_some_and(|last| last.from_ns >= self.slice_ns) {
            self.taken.extend(self.segments.pop_back());
        }
        while let Some(segment) = self.taken.pop() {
            if segment.held == Held::NotYet || segment.held.tid().is_some() {
                let middle_ns = then_ns.clamp(segment.from_ns, segment.to_ns);
                self.put(segment.from_ns, middle_ns, first);
                self.put(middle_ns, segment.to_ns, then);
            } else {
                self.segments.push_back(segment);
            }
        }
    }

    fn put(&mut self, from_ns: u64, to_ns: u64, held: Held) {
        if from_ns < to_ns {
            self.segments.push_back(Segment { from_ns, to_ns, held });
        }
    }

    fn extend(&mut self, to_ns: u64, held: Held) {
        let until_ns = self.until_ns.unwrap_or(to_ns);
        // The clock may step back by some ns.
        if to_ns > until_ns {
            self.segments.push_back(Segment { from_ns: until_ns, to_ns, held });
            self.until_ns = Some(to_ns);
        }
    }

    /// Forgets the oldest so that at most `limit` segments are left.
    pub fn shorten(&mut self, limit: usize) {
        while self.segments.len() > limit {
            self.segments.pop_front();
            self.is_cut = true;
        }
    }

    /// Goes through what had the CPU from `from_ns` to `to_ns`, piece by piece and without a gap.
    pub fn over(&self, from_ns: u64, to_ns: u64, mut each: impl FnMut(u64, u64, Held)) {
        let until_ns = self.until_ns.unwrap_or(u64::MAX);
        let begin_ns = self.segments.front().map_or(until_ns, |first| first.from_ns);
        let mut piece = |from: u64, to: u64, held: Held| {
            let (from, to) = (from.max(from_ns), to.min(to_ns));
            if from < to {
                each(from, to, held);
            }
        };
        piece(0, begin_ns, Held::Unknown(if self.is_cut { Unknown::Reach } else { Unknown::Before }));
        let first = self.segments.partition_point(|segment| segment.to_ns <= from_ns);
        for segment in self.segments.range(first..).take_while(|segment| segment.from_ns < to_ns) {
            piece(segment.from_ns, segment.to_ns, segment.held);
        }
        if self.until_ns.is_some() {
            piece(until_ns, u64::MAX, self.current.unwrap_or(Held::NotYet));
        }
    }
}

fn held(occupant: &Occupant, rt_throttled: bool) -> Held {
    if occupant.tid == 0 { Held::Idle(None, rt_throttled) } else { Held::Task(occupant.into(), rt_throttled) }
}
