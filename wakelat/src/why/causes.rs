//! What the waits of a window went to, by cause: what findings are made of. However many threads there are, a cause is known by
//! its name.

use super::sums::{TimeSum, sum_by};
use crate::aggregate::bounded::{Evicted, SpaceSaving};
use crate::{
    timeline::{
        Breakdown,
        event::InterruptSource,
        part::{Actor, Component, Culprit},
    },
    wait::Comm,
};

/// Causes that are told apart, names of tasks that waited, and pairs of both.
const MAX_CAUSES: usize = 16_384;
const MAX_VICTIMS: usize = 16_384;
const MAX_PAIRS: usize = 65_536;

/// What a wait may be for, tasks by their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cause {
    /// The part.
    pub component: Component,
    /// Who in it.
    pub name: CauseName,
}

/// Who or what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CauseName {
    /// Tasks of this name.
    Task(Comm),
    /// An interrupt or softirq.
    Interrupt(InterruptSource),
    /// A cgroup.
    Cgroup(Option<u64>),
    /// wakelat itself.
    Wakelat,
    /// So many tasks, none of which stands out.
    Many(usize),
    /// The part says it all.
    Unnamed,
}

impl Cause {
    /// What a culprit is known by, where `own_pid` is wakelat's process.
    fn of(culprit: &Culprit, own_pid: Option<u32>) -> Self {
        let name = match culprit.actor {
            Actor::Task(_) if culprit.component == Component::RtThrottled => CauseName::Unnamed,
            Actor::Task(task) if own_pid == Some(task.pid) => CauseName::Wakelat,
            Actor::Task(task) => CauseName::Task(task.comm),
            Actor::Interrupt(source) => CauseName::Interrupt(source),
            Actor::Cgroup(id) => CauseName::Cgroup(id),
            Actor::Idle(_) | Actor::NoActor | Actor::Unknown(_) => CauseName::Unnamed,
        };
        Self { component: culprit.component, name }
    }

    /// The cgroup, where it is one.
    pub fn cgroup_id(&self) -> Option<u64> {
        match self.name {
            CauseName::Cgroup(id) => id,
            _ => None,
        }
    }
}

/// What all waits went to, and those of each name.
#[derive(Debug)]
pub struct Causes {
    all: SpaceSaving<Cause, TimeSum>,
    victims: SpaceSaving<Comm, TimeSum>,
    pairs: SpaceSaving<(Comm, Cause), TimeSum>,
    limits: [usize; 3],
    own_pid: Option<u32>,
}

impl Default for Causes {
    fn default() -> Self {
        Self::with_limits([MAX_CAUSES, MAX_VICTIMS, MAX_PAIRS])
    }
}

impl Causes {
    /// Nothing yet. Tasks of the process `own_pid` are wakelat itself.
    pub fn new(own_pid: Option<u32>) -> Self {
        Self { own_pid, ..Self::default() }
    }

    /// With room for so many causes, names that wait, and pairs.
    fn with_limits(limits: [usize; 3]) -> Self {
        Self {
            all: SpaceSaving::default(),
            victims: SpaceSaving::default(),
            pairs: SpaceSaving::default(),
            limits,
            own_pid: None,
        }
    }

    /// Adds a wait. It counts once for each cause, of however many tasks that is the name.
    pub fn add(&mut self, account: &Breakdown) {
        let comm = account.waiter.comm;
        self.victims.entry(comm, TimeSum::default).add(account.latency_ns);
        for (cause, _, ns) in sum_by(account, |culprit| Some(Cause::of(culprit, self.own_pid))) {
            self.all.entry(cause, TimeSum::default).add(ns);
            self.pairs.entry((comm, cause), TimeSum::default).add(ns);
        }
        let [causes, victims, pairs] = self.limits;
        self.all.evict_above(causes, |_, _| ());
        self.victims.evict_above(victims, |_, _| ());
        self.pairs.evict_above(pairs, |_, _| ());
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.all.clear();
        self.victims.clear();
        self.pairs.clear();
    }

    /// What each had of all waits, the largest first.
    pub fn ranking(&self) -> Vec<(Cause, TimeSum)> {
        self.all.ranking().into_iter().map(|(cause, sum)| (cause, *sum)).collect()
    }

    /// The causes that there was no room for.
    pub fn evicted(&self) -> Evicted {
        self.all.evicted()
    }

    /// Those that waited at least so long, by their names, the longest first: ns.
    pub fn victims(&self, least_ns: u128) -> Vec<(Comm, u128)> {
        let all = self.victims.ranking().into_iter().map(|(comm, sum)| (comm, sum.ns));
        all.take_while(|(_, ns)| *ns >= least_ns).collect()
    }

    /// What a cause had of the waits of a name: ns.
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
            fixtures::{EventStream, task},
        },
        why::sums::BreakdownSum,
    };

    /// Each task in turn has the CPU for so long while another waits for all of it.
    fn accounts(turns: &[(u8, u8, u64)]) -> Vec<Breakdown> {
        let (mut stream, mut at_ns) = (EventStream::default(), 1_000);
        stream.switch(0, at_ns, task(1, "first"));
        for (tid, waiter, ns) in turns {
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
        fn causes_add_up_to_the_parts_however_small_the_tables_are(
            turns in prop::collection::vec((0..40u8, 0..9u8, 1..1_000u64), 1..60), room in 1..20usize,
        ) {
            let mut causes = Causes::with_limits([room; 3]);
            let (mut sums, mut whole) = (BreakdownSum::default(), BreakdownSum::default());
            for account in accounts(&turns) {
                causes.add(&account);
                sums.add(&account);
                sums.evict_above(room);
                whole.add(&account);
                prop_assert!(causes.all.size() <= room && causes.victims.size() <= room && causes.pairs.size() <= room);
                prop_assert!(sums.culprit_count() <= room);
            }
            let of_parts: u128 = whole.components().iter().map(|(_, sum)| sum.ns).sum();
            prop_assert_eq!(of_parts, whole.ns);
            prop_assert_eq!(causes.ranking().iter().map(|(_, sum)| sum.ns).sum::<u128>() + causes.evicted().sum, whole.ns);
            prop_assert_eq!(sums.culprits().iter().map(|one| one.sum.ns).sum::<u128>() + sums.evicted().sum, whole.ns);
            prop_assert_eq!(sums.components(), whole.components());
            let victims: u128 = causes.victims(0).iter().map(|(_, ns)| ns).sum();
            prop_assert_eq!(victims + causes.victims.evicted().sum, whole.ns);
        }

        #[test]
        fn where_there_is_room_each_cause_has_what_its_tasks_had(
            turns in prop::collection::vec((0..40u8, 0..9u8, 1..1_000u64), 1..60),
        ) {
            let (mut causes, mut sums) = (Causes::default(), BreakdownSum::default());
            for account in accounts(&turns) {
                causes.add(&account);
                sums.add(&account);
            }
            prop_assert_eq!(causes.evicted(), Evicted::default());
            for (cause, sum) in causes.ranking() {
                let of_it = sums.culprits().into_iter().filter(|one| Cause::of(&one.culprit, None) == cause);
                prop_assert_eq!(of_it.map(|one| one.sum.ns).sum::<u128>(), sum.ns);
                // The longest of one task is not the longest of its name.
                prop_assert!(sum.ns <= u128::from(sum.max_ns) * u128::from(sum.waits));
                let of_victims = causes.victims(0).into_iter().map(|(comm, _)| causes.victim_ns(comm, cause));
                prop_assert_eq!(of_victims.sum::<u128>(), sum.ns);
            }
        }
    }
}
