//! What one CPU did, as one gapless row of segments: a ns belongs to the innermost of what had the CPU.

use std::collections::VecDeque;

use super::{
    event::{Event, InterruptEvent, InterruptSource, SwitchEvent, TaskInfo},
    part::{RunningTask, UnknownReason},
};

/// From when to when something had the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// Where it ends, and the next begins.
    pub to_ns: u64,
    /// What it was.
    pub occupant: CpuOccupant,
}

/// What had the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuOccupant {
    /// A task; real-time tasks had used up their time when it came, where so said.
    Task(RunningTask, bool),
    /// The idle task, and the C-state.
    Idle(Option<u8>, bool),
    /// An interrupt or softirq, and what interrupted it left out.
    Interrupt(InterruptSource),
    /// A task of which the next switch will tell.
    NextSwitch,
    /// It is not known.
    Unknown(UnknownReason),
}

impl CpuOccupant {
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
    current: Option<CpuOccupant>,
    /// When that came to the CPU.
    slice_start_ns: u64,
    /// The number of the last record; they begin with 1.
    last_seq: u32,
    /// Segments that are being changed.
    scratch: Vec<Segment>,
}

impl History {
    /// Takes note that an event came, about a time until `at_ns`. Returns how many before it were lost.
    pub fn follow(&mut self, event: &Event, at_ns: u64) -> u32 {
        let lost = event.lost_since(&mut self.last_seq);
        match self.until_ns {
            None => self.until_ns = Some(at_ns),
            Some(_) if lost > 0 => {
                self.extend(at_ns, CpuOccupant::Unknown(UnknownReason::Lost));
                // Whoever came meanwhile: the next switch says who leaves.
                self.current = None;
                self.slice_start_ns = self.until_ns.unwrap_or(at_ns);
            }
            Some(_) => {}
        }
        lost
    }

    /// The CPU went from one task to the next.
    pub fn switch(&mut self, turn: &SwitchEvent) {
        let prev = match occupant(&turn.prev, false) {
            CpuOccupant::Idle(..) => {
                CpuOccupant::Idle(turn.idle_state, matches!(self.current, Some(CpuOccupant::Idle(_, true))))
            }
            task => task,
        };
        let hidden = turn.unseen.and_then(|unseen| unseen.switches);
        let is_whole = self.current.is_none_or(|current| current.tid() == prev.tid());
        let came_ns = turn.unseen.and_then(|unseen| unseen.switched_in_ns);
        // Who had the CPU at first and who after that, and from when on.
        let (first, then_ns, then) = match (self.current, hidden, came_ns) {
            (current, None | Some(0), _) if is_whole => {
                let stays = current.filter(|current| matches!(current, CpuOccupant::Task(..))).unwrap_or(prev);
                (stays, turn.at_ns, stays)
            }
            // One switch was not shown: from whoever had come to whoever leaves.
            (Some(current), Some(1), Some(came_ns)) => (current, came_ns, prev),
            (_, _, Some(came_ns)) => (CpuOccupant::Unknown(UnknownReason::Unseen), came_ns, prev),
            // Somewhere between one went and another came.
            (.., None) => (CpuOccupant::Unknown(UnknownReason::Unseen), turn.at_ns, prev),
        };
        self.extend(turn.at_ns, CpuOccupant::NextSwitch);
        self.resolve_slice(first, then_ns, then);
        self.current = Some(occupant(&turn.next, turn.rt_throttled));
        self.slice_start_ns = self.until_ns.unwrap_or(turn.at_ns);
    }

    /// An interrupt or softirq came to its end.
    pub fn interrupt(&mut self, noise: &InterruptEvent) {
        let Some(until_ns) = self.until_ns else { return };
        if noise.from_ns >= noise.to_ns {
            return;
        }
        let current = self.current.unwrap_or(CpuOccupant::NextSwitch);
        if noise.from_ns >= until_ns {
            self.extend(noise.from_ns, current);
        } else {
            self.carve(noise, current.tid());
        }
        self.extend(noise.to_ns, CpuOccupant::Interrupt(noise.source));
    }

    /// Gives the noise what went to the task that it interrupted: not what interrupted it in turn, and, where a softirq
    /// can be preempted, not what other tasks had.
    fn carve(&mut self, noise: &InterruptEvent, interrupted: Option<u32>) {
        while self.segments.back().is_some_and(|last| last.to_ns > noise.from_ns) {
            self.scratch.extend(self.segments.pop_back());
        }
        while let Some(segment) = self.scratch.pop() {
            let is_interrupted = segment.occupant == CpuOccupant::NextSwitch
                || segment.occupant.tid().is_some_and(|tid| interrupted.is_none_or(|interrupted| interrupted == tid));
            if !is_interrupted {
                self.segments.push_back(segment);
                continue;
            }
            // What was after it came before it where it was interrupted on its last instructions.
            let from_ns = segment.from_ns.max(noise.from_ns);
            let to_ns = segment.to_ns.min(noise.to_ns).max(from_ns);
            self.put(segment.from_ns, from_ns, segment.occupant);
            self.put(from_ns, to_ns, CpuOccupant::Interrupt(noise.source));
            self.put(to_ns, segment.to_ns, segment.occupant);
        }
    }

    /// Gives what tasks had since the last switch to `first`, and from `then_ns` on to `then`.
    fn resolve_slice(&mut self, first: CpuOccupant, then_ns: u64, then: CpuOccupant) {
        while self.segments.back().is_some_and(|last| last.from_ns >= self.slice_start_ns) {
            self.scratch.extend(self.segments.pop_back());
        }
        while let Some(segment) = self.scratch.pop() {
            if segment.occupant == CpuOccupant::NextSwitch || segment.occupant.tid().is_some() {
                let middle_ns = then_ns.clamp(segment.from_ns, segment.to_ns);
                self.put(segment.from_ns, middle_ns, first);
                self.put(middle_ns, segment.to_ns, then);
            } else {
                self.segments.push_back(segment);
            }
        }
    }

    fn put(&mut self, from_ns: u64, to_ns: u64, held: CpuOccupant) {
        if from_ns < to_ns {
            self.segments.push_back(Segment { from_ns, to_ns, occupant: held });
        }
    }

    fn extend(&mut self, to_ns: u64, held: CpuOccupant) {
        let until_ns = self.until_ns.unwrap_or(to_ns);
        // The clock may step back by some ns.
        if to_ns > until_ns {
            self.segments.push_back(Segment { from_ns: until_ns, to_ns, occupant: held });
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
    pub fn over(&self, from_ns: u64, to_ns: u64, mut each: impl FnMut(u64, u64, CpuOccupant)) {
        let until_ns = self.until_ns.unwrap_or(u64::MAX);
        let begin_ns = self.segments.front().map_or(until_ns, |first| first.from_ns);
        let mut piece = |from: u64, to: u64, held: CpuOccupant| {
            let (from, to) = (from.max(from_ns), to.min(to_ns));
            if from < to {
                each(from, to, held);
            }
        };
        piece(
            0,
            begin_ns,
            CpuOccupant::Unknown(if self.is_cut { UnknownReason::HistoryLimit } else { UnknownReason::BeforeStart }),
        );
        let first = self.segments.partition_point(|segment| segment.to_ns <= from_ns);
        for segment in self.segments.range(first..).take_while(|segment| segment.from_ns < to_ns) {
            piece(segment.from_ns, segment.to_ns, segment.occupant);
        }
        if self.until_ns.is_some() {
            piece(until_ns, u64::MAX, self.current.unwrap_or(CpuOccupant::NextSwitch));
        }
    }
}

fn occupant(occupant: &TaskInfo, rt_throttled: bool) -> CpuOccupant {
    if occupant.tid == 0 {
        CpuOccupant::Idle(None, rt_throttled)
    } else {
        CpuOccupant::Task(occupant.into(), rt_throttled)
    }
}
