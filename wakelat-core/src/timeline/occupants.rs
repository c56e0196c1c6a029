//! The occupants of CPUs by number. A busy CPU has the same few occupants in thousands of segments, and each wait goes through
//! all segments of its time: a segment has only the number, and what follows from an occupant is looked up once per wait.

use super::{
    component::{Actor, Component, Culprit, CulpritKey, RunningTask, UnknownReason, is_real_time, relative_priority},
    culprit_number::CulpritNumber,
    event::InterruptSource,
};
use crate::hash::HashMap;

/// What had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuOccupant {
    /// A task, and whether real-time tasks had used up their time when it was switched in.
    Task(RunningTask, bool),
    /// The idle task with its C-state, and whether real-time tasks had used up their time when it was switched in.
    Idle(Option<u8>, bool),
    /// An interrupt or softirq, without what interrupted it.
    Interrupt(InterruptSource),
    /// A task that the next switch will identify.
    NextSwitch,
    /// Unknown, for this reason.
    Unknown(UnknownReason),
}

impl CpuOccupant {
    /// Whether real-time tasks had used up their time on the CPU, and this is a task.
    pub fn is_rt_throttled(&self) -> bool {
        matches!(self, Self::Task(_, true) | Self::Idle(_, true))
    }

    /// The TID of the task; none if this is no task.
    pub fn tid(&self) -> Option<u32> {
        match self {
            Self::Task(task, _) => Some(task.tid),
            Self::Idle(..) => Some(0),
            _ => None,
        }
    }

    /// The culprit of a time in which it had the CPU, for a waiting task of this priority and policy.
    fn culprit(&self, waiter: (i32, u32)) -> Culprit {
        let (component, actor) = match *self {
            Self::Task(task, _) => (relative_priority(waiter, &task), Actor::Task(task)),
            Self::Idle(state, _) => (Component::Idle, Actor::Idle(state)),
            Self::Interrupt(source @ InterruptSource::Softirq(_)) => (Component::Softirq, Actor::Interrupt(source)),
            Self::Interrupt(source) => (Component::Irq, Actor::Interrupt(source)),
            Self::NextSwitch => (Component::Unexplained, Actor::Unknown(UnknownReason::BeforeStart)),
            Self::Unknown(why) => (Component::Unexplained, Actor::Unknown(why)),
        };
        // A task of a lower class, or none, has the CPU because real-time tasks must not run.
        let kept_out = self.is_rt_throttled() && is_real_time(waiter.0, waiter.1);
        let component = if kept_out && matches!(component, Component::Lower | Component::Idle) {
            Component::RtThrottled
        } else {
            component
        };
        Culprit { component, actor }
    }
}

/// The number of an occupant, until [`Occupants::renumber`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OccupantId(u32);

impl OccupantId {
    /// [`CpuOccupant::NextSwitch`].
    pub const NEXT_SWITCH: Self = Self(0);

    /// [`CpuOccupant::Unknown`].
    pub const fn unknown(reason: UnknownReason) -> Self {
        Self(1 + reason as u32)
    }

    /// The number as an index: below [`Occupants::size`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Up to this many occupants, those without a segment are not looked for.
const MIN_RENUMBERED: usize = 4096;

/// All occupants that have a number.
#[derive(Debug)]
pub struct Occupants {
    /// The occupants, each with the number of what it is, whatever its priority or cgroup.
    by_id: Vec<(CpuOccupant, u32)>,
    ids: HashMap<CpuOccupant, OccupantId>,
    actors: HashMap<CulpritKey, u32>,
    /// The number of occupants from which on those without a segment are dropped.
    renumber_at: usize,
}

impl Default for Occupants {
    fn default() -> Self {
        let (by_id, ids, actors) = (Vec::new(), HashMap::default(), HashMap::default());
        let mut occupants = Self { by_id, ids, actors, renumber_at: MIN_RENUMBERED };
        occupants.add_fixed();
        occupants
    }
}

impl Occupants {
    /// Gives the occupants that are no tasks or interrupts their numbers, which never change.
    fn add_fixed(&mut self) {
        self.id(CpuOccupant::NextSwitch);
        UnknownReason::ALL.into_iter().for_each(|reason| _ = self.id(CpuOccupant::Unknown(reason)));
    }

    /// The number of an occupant.
    pub fn id(&mut self, occupant: CpuOccupant) -> OccupantId {
        let Self { by_id, ids, actors, .. } = self;
        *ids.entry(occupant).or_insert_with(|| {
            let next = actors.len() as u32;
            // Any waiting task: only the component depends on it.
            let actor = *actors.entry(occupant.culprit((0, 0)).identity()).or_insert(next);
            by_id.push((occupant, actor));
            OccupantId(by_id.len() as u32 - 1)
        })
    }

    /// The occupant with this number.
    pub fn get(&self, id: OccupantId) -> &CpuOccupant {
        &self.by_id[id.index()].0
    }

    /// The culprit of a time in which this occupant had the CPU, for a waiting task of this priority and policy.
    pub fn culprit(&self, id: OccupantId, waiter: (i32, u32)) -> (Culprit, CulpritNumber) {
        let (occupant, actor) = &self.by_id[id.index()];
        let culprit = occupant.culprit(waiter);
        (culprit, CulpritNumber::of(&culprit, *actor))
    }

    /// The number of occupants that have a number.
    pub fn size(&self) -> usize {
        self.by_id.len()
    }

    /// Whether so many occupants have a number that most of them may have no segment any more.
    pub fn has_many(&self) -> bool {
        self.by_id.len() >= self.renumber_at
    }

    /// Drops the occupants that none of the numbers `in_use` has, and gives the others new numbers.
    pub fn renumber<'a>(&mut self, in_use: impl Iterator<Item = &'a mut OccupantId>) {
        let before = std::mem::take(&mut self.by_id);
        self.ids.clear();
        self.actors.clear();
        self.add_fixed();
        for id in in_use {
            *id = self.id(before[id.index()].0);
        }
        self.renumber_at = MIN_RENUMBERED.max(2 * self.by_id.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_task_or_interrupt_has_a_fixed_number() {
        let mut occupants = Occupants::default();
        for _ in 0..2 {
            assert_eq!(*occupants.get(OccupantId::NEXT_SWITCH), CpuOccupant::NextSwitch);
            for reason in UnknownReason::ALL {
                assert_eq!(*occupants.get(OccupantId::unknown(reason)), CpuOccupant::Unknown(reason));
            }
            occupants.id(CpuOccupant::Idle(Some(1), false));
            occupants.renumber([].into_iter());
        }
        assert_eq!(occupants.size(), 1 + UnknownReason::ALL.len());
    }
}
