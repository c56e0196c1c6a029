//! What one CPU did, as a sequence of segments without gaps: each ns belongs to the innermost occupant of the CPU.

use std::collections::VecDeque;

use super::{
    component::UnknownReason,
    event::{Event, InterruptEvent, SwitchEvent, TaskInfo},
    occupants::{CpuOccupant, OccupantId, Occupants},
};

/// A time in which one occupant had the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When it begins: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// When it ends and the next one begins: ns of CLOCK_MONOTONIC.
    pub to_ns: u64,
    /// What had the CPU.
    pub occupant: OccupantId,
}

/// What one CPU did, as far back as there is room.
///
/// The records of a CPU arrive in order. An interrupt is recorded when it ends, after those that interrupted it. The
/// segments are net at all times: an event costs as many steps as it changes segments, one for most events, and no
/// event allocates once the room is used up.
#[derive(Debug, Default)]
pub struct History {
    segments: VecDeque<Segment>,
    /// Segments were dropped to have room.
    is_cut: bool,
    /// When the last segment ends: ns of CLOCK_MONOTONIC. `None` before the first event.
    until_ns: Option<u64>,
    /// What has the CPU from then on. `None` until a switch shows it, at first and after a loss.
    current: Option<OccupantId>,
    /// When the slice of `current` began: ns of CLOCK_MONOTONIC.
    slice_start_ns: u64,
    /// The number of the last record; the first is 1.
    last_seq: u32,
    /// Segments that are being changed; kept for its memory.
    scratch: Vec<Segment>,
}

impl History {
    /// Notes the arrival of an event that happened at `at_ns`. Returns how many events before it were lost.
    pub fn follow(&mut self, event: &Event, at_ns: u64) -> u32 {
        let lost = event.lost_since(&mut self.last_seq);
        match self.until_ns {
            None => self.until_ns = Some(at_ns),
            Some(_) if lost > 0 => {
                self.extend(at_ns, OccupantId::unknown(UnknownReason::Lost));
                // Another task may have been switched in meanwhile: the next switch names the outgoing one.
                self.current = None;
                self.slice_start_ns = self.until_ns.unwrap_or(at_ns);
            }
            Some(_) => {}
        }
        lost
    }

    /// Ends a slice, assigns its time to the task or tasks that had it, and begins the next slice.
    pub fn switch(&mut self, switch: &SwitchEvent, occupants: &mut Occupants) {
        let prev = match occupant(&switch.prev, false) {
            CpuOccupant::Idle(..) => {
                let current = self.current.map(|current| occupants.get(current));
                CpuOccupant::Idle(switch.idle_state, matches!(current, Some(CpuOccupant::Idle(_, true))))
            }
            task => task,
        };
        let unseen = switch.unseen.and_then(|unseen| unseen.switches);
        let is_whole = self.current.is_none_or(|current| occupants.get(current).tid() == prev.tid());
        let switched_in_ns = switch.unseen.and_then(|unseen| unseen.switched_in_ns);
        let unseen_task = OccupantId::unknown(UnknownReason::Unseen);
        // The occupant at the start of the slice, and the one at its end with the time from which it had the CPU.
        let (first, then_ns, then) = match (self.current, unseen, switched_in_ns) {
            (current, None | Some(0), _) if is_whole => {
                let task = current.filter(|current| matches!(occupants.get(*current), CpuOccupant::Task(..)));
                let only = task.unwrap_or_else(|| occupants.id(prev));
                (only, switch.at_ns, only)
            }
            // A single unseen switch went from the task that was switched in to the outgoing one.
            (Some(current), Some(1), Some(switched_in_ns)) => (current, switched_in_ns, occupants.id(prev)),
            (_, _, Some(switched_in_ns)) => (unseen_task, switched_in_ns, occupants.id(prev)),
            // When the outgoing task was switched in is unknown.
            (.., None) => (unseen_task, switch.at_ns, occupants.id(prev)),
        };
        self.extend(switch.at_ns, OccupantId::NEXT_SWITCH);
        self.resolve_slice(first, then_ns, then, occupants);
        self.current = Some(occupants.id(occupant(&switch.next, switch.rt_throttled)));
        self.slice_start_ns = self.until_ns.unwrap_or(switch.at_ns);
    }

    /// Assigns its time to an interrupt or softirq that has ended.
    pub fn interrupt(&mut self, noise: &InterruptEvent, occupants: &mut Occupants) {
        let Some(until_ns) = self.until_ns else { return };
        if noise.from_ns >= noise.to_ns {
            return;
        }
        let current = self.current.unwrap_or(OccupantId::NEXT_SWITCH);
        let interrupt = occupants.id(CpuOccupant::Interrupt(noise.source));
        if noise.from_ns >= until_ns {
            self.extend(noise.from_ns, current);
        } else {
            self.carve(noise, interrupt, occupants.get(current).tid(), occupants);
        }
        self.extend(noise.to_ns, interrupt);
    }

    /// Assigns to an interrupt the time that had been assigned to the task that it interrupted: not the time of nested
    /// interrupts, and, where a softirq can be preempted, not the time of other tasks.
    fn carve(&mut self, interrupt: &InterruptEvent, id: OccupantId, interrupted: Option<u32>, occupants: &Occupants) {
        while self.segments.back().is_some_and(|last| last.to_ns > interrupt.from_ns) {
            self.scratch.extend(self.segments.pop_back());
        }
        while let Some(segment) = self.scratch.pop() {
            let is_interrupted = segment.occupant == OccupantId::NEXT_SWITCH
                || occupants
                    .get(segment.occupant)
                    .tid()
                    .is_some_and(|tid| interrupted.is_none_or(|interrupted| interrupted == tid));
            if !is_interrupted {
                self.segments.push_back(segment);
                continue;
            }
            // An interrupt that comes between the end of this one and the sending of its record is recorded first, so
            // segments may already go on after the end.
            let from_ns = segment.from_ns.max(interrupt.from_ns);
            let to_ns = segment.to_ns.min(interrupt.to_ns).max(from_ns);
            self.put(segment.from_ns, from_ns, segment.occupant);
            self.put(from_ns, to_ns, id);
            self.put(to_ns, segment.to_ns, segment.occupant);
        }
    }

    /// Assigns the task time since the last switch to `first`, and from `then_ns` on to `then`.
    fn resolve_slice(&mut self, first: OccupantId, then_ns: u64, then: OccupantId, occupants: &Occupants) {
        while self.segments.back().is_some_and(|last| last.from_ns >= self.slice_start_ns) {
            self.scratch.extend(self.segments.pop_back());
        }
        while let Some(segment) = self.scratch.pop() {
            if segment.occupant == OccupantId::NEXT_SWITCH || occupants.get(segment.occupant).tid().is_some() {
                let middle_ns = then_ns.clamp(segment.from_ns, segment.to_ns);
                self.put(segment.from_ns, middle_ns, first);
                self.put(middle_ns, segment.to_ns, then);
            } else {
                self.segments.push_back(segment);
            }
        }
    }

    fn put(&mut self, from_ns: u64, to_ns: u64, occupant: OccupantId) {
        if from_ns < to_ns {
            self.segments.push_back(Segment { from_ns, to_ns, occupant });
        }
    }

    fn extend(&mut self, to_ns: u64, occupant: OccupantId) {
        let until_ns = self.until_ns.unwrap_or(to_ns);
        // The clock may step back by a few ns.
        if to_ns > until_ns {
            self.segments.push_back(Segment { from_ns: until_ns, to_ns, occupant });
            self.until_ns = Some(to_ns);
        }
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The occupants of all segments, and the one that has the CPU now.
    pub fn occupants_mut(&mut self) -> impl Iterator<Item = &mut OccupantId> {
        self.segments.iter_mut().map(|segment| &mut segment.occupant).chain(&mut self.current)
    }

    /// When each segment ends: ns of CLOCK_MONOTONIC.
    pub fn ends_ns(&self) -> impl Iterator<Item = u64> {
        self.segments.iter().map(|segment| segment.to_ns)
    }

    /// Drops the segments that end until `at_ns`.
    pub fn drop_until(&mut self, at_ns: u64) {
        let kept = self.segments.len() - self.segments.partition_point(|segment| segment.to_ns <= at_ns);
        self.shorten(kept);
    }

    /// Drops the oldest segments if there are more than `limit`.
    pub fn shorten(&mut self, limit: usize) {
        while self.segments.len() > limit {
            self.segments.pop_front();
            self.is_cut = true;
        }
    }

    /// Calls `each` with what had the CPU between `from_ns` and `to_ns`, piece by piece, in order and without gaps.
    pub fn over(&self, from_ns: u64, to_ns: u64, mut each: impl FnMut(u64, u64, OccupantId)) {
        let until_ns = self.until_ns.unwrap_or(u64::MAX);
        let begin_ns = self.segments.front().map_or(until_ns, |first| first.from_ns);
        if from_ns < begin_ns.min(to_ns) {
            let reason = if self.is_cut { UnknownReason::HistoryLimit } else { UnknownReason::BeforeStart };
            each(from_ns, begin_ns.min(to_ns), OccupantId::unknown(reason));
        }
        // Two slices instead of a range of the queue: this loop takes the most time of a busy recording.
        let (older, newer) = self.segments.as_slices();
        let first = self.first_after(from_ns);
        let (older, newer) = (&older[first.min(older.len())..], &newer[first.saturating_sub(older.len())..]);
        for segments in [older, newer] {
            for segment in segments {
                if segment.from_ns >= to_ns {
                    return;
                }
                each(segment.from_ns.max(from_ns), segment.to_ns.min(to_ns), segment.occupant);
            }
        }
        let since_ns = until_ns.max(from_ns);
        if self.until_ns.is_some() && since_ns < to_ns {
            each(since_ns, to_ns, self.current.unwrap_or(OccupantId::NEXT_SWITCH));
        }
    }

    /// The index of the first segment that ends after `at_ns`. Most waits are short: searches from the end, in steps that
    /// double.
    fn first_after(&self, at_ns: u64) -> usize {
        let (mut low, mut high, mut step) = (self.segments.len(), self.segments.len(), 1);
        while low > 0 {
            low = high.saturating_sub(step);
            if self.segments[low].to_ns <= at_ns {
                break;
            }
            (high, step) = (low, 2 * step);
        }
        while low < high {
            let middle = low.midpoint(high);
            if self.segments[middle].to_ns <= at_ns {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

fn occupant(occupant: &TaskInfo, rt_throttled: bool) -> CpuOccupant {
    if occupant.tid == 0 {
        CpuOccupant::Idle(None, rt_throttled)
    } else {
        CpuOccupant::Task(occupant.into(), rt_throttled)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            component::RunningTask,
            event::EventKind,
            testing::{EventStream, task},
        },
        *,
    };

    #[test]
    fn a_search_from_the_end_finds_the_segment_of_any_instant() {
        let occupant = OccupantId::NEXT_SWITCH;
        for segments in 0..40 {
            let of = |at: u64| Segment { from_ns: 10 * at, to_ns: 10 * at + 10, occupant };
            let history = History { segments: (0..segments).map(of).collect(), ..History::default() };
            for at_ns in 0..10 * segments + 20 {
                let expected = history.segments.partition_point(|segment| segment.to_ns <= at_ns);
                assert_eq!(history.first_after(at_ns), expected, "{at_ns} of {segments}");
            }
        }
    }

    #[test]
    fn a_slice_belongs_to_its_task_as_it_was_switched_in() {
        let old = TaskInfo { cgroup_id: Some(1), ..task(1, "old") };
        let new = TaskInfo { cgroup_id: Some(2), ..task(1, "new") };
        let mut stream = EventStream::default();
        stream.switch(0, 100, old);
        // It is moved and renamed in its first slice.
        stream.switch(0, 500, task(2, "other")).prev = new;
        stream.switch(0, 600, new);
        stream.switch(0, 900, task(2, "other"));
        let (mut history, mut occupants) = (History::default(), Occupants::default());
        for event in &stream.events {
            let EventKind::Switch(switch) = &event.kind else { panic!("{event:?}") };
            history.follow(event, switch.at_ns);
            history.switch(switch, &mut occupants);
        }
        let mut found = Vec::new();
        history.over(100, 900, |from_ns, to_ns, occupant| {
            if let CpuOccupant::Task(RunningTask { tid: 1, cgroup_id, comm, .. }, _) = *occupants.get(occupant) {
                found.push((to_ns - from_ns, cgroup_id, comm));
            }
        });
        assert_eq!(found, [(400, Some(1), old.comm), (300, Some(2), new.comm)]);
    }
}
