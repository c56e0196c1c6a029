//! The waits of a window by cause, on which findings are based. A cause is a name, whatever the number of threads that
//! have it.

use super::{
    places::Places,
    sums::{SharesInWait, TimeSum},
};
use crate::aggregate::{
    mapped_places::MappedPlaces,
    space_saving::{Evicted, SpaceSaving, Sum},
};
use crate::{
    timeline::{
        Breakdown,
        component::{Actor, Component, Culprit},
        event::{InterruptSource, TaskInfo},
    },
    wait::Comm,
};

/// Maximum number of causes, of names of tasks that waited, and of pairs of both.
const MAX_CAUSES: usize = 16_384;
const MAX_VICTIMS: usize = 16_384;
const MAX_PAIRS: usize = 65_536;

/// A cause of waits: a component, with tasks identified by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cause {
    /// The component.
    pub component: Component,
    /// What caused it.
    pub name: CauseName,
}

/// What caused a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CauseName {
    /// All tasks of this name.
    Task(Comm),
    /// An interrupt or softirq.
    Interrupt(InterruptSource),
    /// A cgroup, by ID; `None` if its ID is unknown.
    Cgroup(Option<u64>),
    /// wakelat itself.
    Wakelat,
    /// This many names of tasks, none of which is a finding of its own.
    Many(usize),
    /// Nothing beyond what the component itself says.
    Unnamed,
}

impl Cause {
    /// The cause to which a culprit belongs. Tasks of the processes `own_pids` are wakelat itself.
    pub fn of(culprit: &Culprit, own_pids: &[u32]) -> Self {
        let name = match culprit.actor {
            Actor::Task(_) if culprit.component == Component::RtThrottled => CauseName::Unnamed,
            Actor::Task(task) if own_pids.contains(&task.pid) => CauseName::Wakelat,
            Actor::Task(task) => CauseName::Task(task.comm),
            Actor::Interrupt(source) => CauseName::Interrupt(source),
            Actor::Cgroup(id) => CauseName::Cgroup(id),
            Actor::Idle(_) | Actor::NoActor | Actor::Unknown(_) => CauseName::Unnamed,
        };
        Self { component: culprit.component, name }
    }

    /// The ID of the cgroup, if the cause is a cgroup with a known ID.
    pub fn cgroup_id(&self) -> Option<u64> {
        match self.name {
            CauseName::Cgroup(id) => id,
            _ => None,
        }
    }
}

/// The time of each cause, in all waits and in the waits of each task name.
#[derive(Debug)]
pub struct Causes {
    all: SpaceSaving<Cause, CauseSum>,
    victims: SpaceSaving<Comm, TimeSum>,
    pairs: SpaceSaving<(Comm, Cause), TimeSum>,
    /// Number of waits so far.
    waits: u64,
    /// The places in `all` by culprit, in `victims` by TID, and in `pairs` by the places in the other two.
    places: Places,
    victim_places: MappedPlaces,
    pair_places: MappedPlaces,
    /// The causes of the wait that is being added, with their places; kept for its memory.
    of_wait: Vec<(Cause, u32)>,
    limits: [usize; 3],
    own_pids: Vec<u32>,
}

/// The time of a cause.
#[derive(Clone, Copy, Debug, Default)]
struct CauseSum {
    sum: TimeSum,
    in_wait: SharesInWait,
}

impl Sum for CauseSum {
    fn size(&self) -> u128 {
        self.sum.ns
    }
}

impl Default for Causes {
    fn default() -> Self {
        Self::with_limits([MAX_CAUSES, MAX_VICTIMS, MAX_PAIRS])
    }
}

impl Causes {
    /// No causes yet. Tasks of the processes `own_pids` are wakelat itself.
    pub fn new(own_pids: Vec<u32>) -> Self {
        Self { own_pids, ..Self::default() }
    }

    /// Tables for at most this many causes, names of tasks that wait, and pairs of both.
    fn with_limits(limits: [usize; 3]) -> Self {
        Self {
            all: SpaceSaving::default(),
            victims: SpaceSaving::default(),
            pairs: SpaceSaving::default(),
            waits: 0,
            places: Places::default(),
            victim_places: MappedPlaces::default(),
            pair_places: MappedPlaces::default(),
            of_wait: Vec::new(),
            limits,
            own_pids: Vec::new(),
        }
    }

    /// Adds a wait, which counts once for each cause, whatever the number of tasks with that name.
    pub fn add(&mut self, breakdown: &Breakdown) {
        let TaskInfo { tid, comm, .. } = breakdown.waiter;
        let victim_place = self.victim_places.of(tid.into());
        self.victims.entry_near(victim_place, comm, TimeSum::default).add(breakdown.latency_ns);
        let victim_place = *victim_place;
        self.waits += 1;
        for share in &breakdown.shares {
            let (cause, place) = (Cause::of(&share.culprit, &self.own_pids), self.places.of(share.number));
            let sum = self.all.entry_near(place, cause, CauseSum::default);
            if sum.in_wait.add(self.waits, share.ns, &mut sum.sum) {
                self.of_wait.push((cause, *place));
            }
        }
        for (cause, mut place) in self.of_wait.drain(..) {
            let ns = self.all.entry_near(&mut place, cause, CauseSum::default).in_wait.ns();
            let pair_place = self.pair_places.of(u64::from(victim_place) << 32 | u64::from(place));
            self.pairs.entry_near(pair_place, (comm, cause), TimeSum::default).add(ns);
        }
        let [causes, victims, pairs] = self.limits;
        self.all.evict_above(causes, |_, _| ());
        self.victims.evict_above(victims, |_, _| ());
        self.pairs.evict_above(pairs, |_, _| ());
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.all.clear();
        self.victims.clear();
        self.pairs.clear();
    }

    /// The time of each cause in all waits, the largest first.
    pub fn ranking(&self) -> Vec<(Cause, TimeSum)> {
        self.all.ranking().into_iter().map(|(cause, sum)| (cause, sum.sum)).collect()
    }

    /// The causes that were evicted.
    pub fn evicted(&self) -> Evicted {
        self.all.evicted()
    }

    /// The names of tasks that waited at least `least_ns` in total, with that time, the longest first: ns.
    pub fn victims(&self, least_ns: u128) -> Vec<(Comm, u128)> {
        let all = self.victims.ranking().into_iter().map(|(comm, sum)| (comm, sum.ns));
        all.take_while(|(_, ns)| *ns >= least_ns).collect()
    }

    /// The time of a cause in the waits of the tasks of one name: ns.
    pub fn victim_ns(&self, comm: Comm, cause: Cause) -> u128 {
        self.pairs.get(&(comm, cause)).map_or(0, |sum| sum.ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        report::LatencyFrom,
        timeline::{
            Timeline,
            testing::{EventStream, task},
        },
        why::sums::BreakdownSum,
    };

    /// Breakdowns of one wait after the other: the task that runs, the task that waits, and for how many ns it waits
    /// for the task that ran before and then again for this one.
    fn breakdowns(slices: &[(u8, u8, u64)]) -> Vec<Breakdown> {
        let (mut stream, mut at_ns) = (EventStream::default(), 1_000);
        stream.switch(0, at_ns, task(1, "first"));
        for (tid, waiter, ns) in slices {
            let from_ns = at_ns;
            at_ns += ns;
            stream.switch(0, at_ns, task(100 + u32::from(*tid), &format!("runs{}", tid % 16)));
            at_ns += ns;
            stream.end_wait(0, (from_ns, at_ns), task(10 + u32::from(*waiter), &format!("waits{waiter}")));
        }
        let mut timeline = Timeline::new(LatencyFrom::Wakeup);
        stream.events.iter().filter_map(|event| timeline.push(event).cloned()).collect()
    }

    proptest! {
        #[test]
        fn causes_add_up_to_the_components_whatever_the_table_sizes(
            slices in prop::collection::vec((0..40u8, 0..9u8, 1..1_000u64), 1..60), size in 1..20usize,
        ) {
            let mut causes = Causes::with_limits([size; 3]);
            let (mut sums, mut whole) = (BreakdownSum::default(), BreakdownSum::default());
            let [mut places, mut whole_places] = [Places::default(), Places::default()];
            for breakdown in breakdowns(&slices) {
                causes.add(&breakdown);
                sums.add(&breakdown, &mut places);
                sums.evict_above(size);
                whole.add(&breakdown, &mut whole_places);
                prop_assert!(causes.all.size() <= size && causes.victims.size() <= size && causes.pairs.size() <= size);
                prop_assert!(sums.culprit_count() <= size);
            }
            let components_ns: u128 = whole.components().iter().map(|(_, sum)| sum.ns).sum();
            prop_assert_eq!(components_ns, whole.ns);
            prop_assert_eq!(causes.ranking().iter().map(|(_, sum)| sum.ns).sum::<u128>() + causes.evicted().sum, whole.ns);
            prop_assert_eq!(sums.culprits().iter().map(|one| one.sum.ns).sum::<u128>() + sums.evicted().sum, whole.ns);
            prop_assert_eq!(sums.components(), whole.components());
            let victims: u128 = causes.victims(0).iter().map(|(_, ns)| ns).sum();
            prop_assert_eq!(victims + causes.victims.evicted().sum, whole.ns);
        }

        #[test]
        fn without_evictions_a_cause_has_the_time_of_its_tasks(
            slices in prop::collection::vec((0..40u8, 0..9u8, 1..1_000u64), 1..60),
        ) {
            let (mut causes, mut sums) = (Causes::default(), BreakdownSum::default());
            let mut places = Places::default();
            for breakdown in breakdowns(&slices) {
                causes.add(&breakdown);
                sums.add(&breakdown, &mut places);
            }
            prop_assert_eq!(causes.evicted(), Evicted::default());
            for (cause, sum) in causes.ranking() {
                let tasks = sums.culprits().into_iter().filter(|one| Cause::of(&one.culprit, &[]) == cause);
                prop_assert_eq!(tasks.map(|one| one.sum.ns).sum::<u128>(), sum.ns);
                // The longest time of a single task may be shorter than that of its name.
                prop_assert!(sum.ns <= u128::from(sum.max_ns) * u128::from(sum.waits));
                let of_victims = causes.victims(0).into_iter().map(|(comm, _)| causes.victim_ns(comm, cause));
                prop_assert_eq!(of_victims.sum::<u128>(), sum.ns);
            }
        }
    }
}
