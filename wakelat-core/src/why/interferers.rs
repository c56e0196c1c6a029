//! Interferers: the tasks, interrupts and softirqs that made others wait, by the time they had while others waited.

use super::{
    places::Places,
    sums::{SharesInWait, TimeSum},
    tid_set::TidSet,
};
use crate::aggregate::space_saving::{Evicted, SpaceSaving, Sum};
use crate::timeline::{
    Breakdown,
    component::{Actor, CulpritKey},
};

/// Maximum number of interferers.
const MAX_INTERFERERS: usize = 16_384;

/// Maximum number of victims of all interferers together.
const MAX_VICTIMS: usize = 262_144;

/// The interferers of a window.
#[derive(Debug)]
pub struct Interferers {
    by_actor: SpaceSaving<CulpritKey, Interferer>,
    places: Places,
    victims: usize,
    /// Number of waits so far.
    waits: u64,
    limits: [usize; 2],
}

/// A task, interrupt or softirq that made others wait.
#[derive(Clone, Debug)]
pub struct Interferer {
    /// The task, interrupt or softirq, as last seen.
    pub actor: Actor,
    /// The time it had while others waited, added up over the waiting tasks.
    pub sum: TimeSum,
    in_wait: SharesInWait,
    victims: VictimSet,
}

/// The threads that waited for one interferer.
#[derive(Clone, Debug)]
enum VictimSet {
    /// The TIDs of all of them.
    Exact(TidSet),
    /// This many before their TIDs were dropped for lack of room.
    AtLeast(usize),
}

impl Sum for Interferer {
    fn size(&self) -> u128 {
        self.sum.ns
    }
}

impl Interferer {
    fn new(actor: Actor) -> Self {
        Self {
            actor,
            sum: TimeSum::default(),
            in_wait: SharesInWait::default(),
            victims: VictimSet::Exact(TidSet::default()),
        }
    }

    /// The number of threads that waited for it; a lower bound if [`Self::has_more_victims`].
    pub fn victims(&self) -> usize {
        match &self.victims {
            VictimSet::Exact(victims) => victims.size(),
            VictimSet::AtLeast(victims) => *victims,
        }
    }

    /// Whether more threads may have waited for it, because there was no room for all TIDs.
    pub fn has_more_victims(&self) -> bool {
        matches!(self.victims, VictimSet::AtLeast(_))
    }

    /// The number of victims that take room.
    fn kept(&self) -> usize {
        if self.has_more_victims() { 0 } else { self.victims() }
    }
}

impl Default for Interferers {
    fn default() -> Self {
        Self::with_limits([MAX_INTERFERERS, MAX_VICTIMS])
    }
}

impl Interferers {
    /// A table for at most this many interferers and this many victims.
    fn with_limits(limits: [usize; 2]) -> Self {
        Self { by_actor: SpaceSaving::default(), places: Places::default(), victims: 0, waits: 0, limits }
    }

    /// Adds a wait.
    pub fn add(&mut self, breakdown: &Breakdown) {
        self.waits += 1;
        for share in &breakdown.shares {
            let actor = share.culprit.actor;
            if !matches!(actor, Actor::Task(_) | Actor::Interrupt(_)) {
                continue;
            }
            // A task is the same interferer in every component.
            let place = self.places.of(share.number);
            let known = self.by_actor.entry_near(place, share.culprit.identity(), || Interferer::new(actor));
            known.actor = actor;
            known.in_wait.add(self.waits, share.ns, &mut known.sum);
            if let VictimSet::Exact(victims) = &mut known.victims {
                self.victims += usize::from(victims.insert(breakdown.waiter.tid));
            }
        }
        let [interferers, victims] = self.limits;
        if self.by_actor.evict_above(interferers, |_, _| ()) {
            self.victims = self.by_actor.values().map(Interferer::kept).sum();
        }
        if self.victims > victims {
            self.evict_victims(victims / 2);
        }
    }

    /// Replaces the victims of the smallest interferers by their number, until at most `most` victims are left.
    fn evict_victims(&mut self, most: usize) {
        let keys: Vec<CulpritKey> = self.by_actor.ranking().into_iter().map(|(key, _)| key).collect();
        for key in keys.into_iter().rev() {
            if self.victims <= most {
                break;
            }
            if let Some(one) = self.by_actor.get_mut(&key) {
                self.victims -= one.kept();
                one.victims = VictimSet::AtLeast(one.victims());
            }
        }
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.by_actor.clear();
        self.victims = 0;
    }

    /// The `limit` largest interferers, the largest first, and the number of all that are kept.
    pub fn ranking(&self, limit: usize) -> (Vec<Interferer>, usize) {
        let first = self.by_actor.ranking().into_iter().take(limit).map(|(_, one)| one.clone());
        (first.collect(), self.by_actor.size())
    }

    /// The interferers that were evicted.
    pub fn evicted(&self) -> Evicted {
        self.by_actor.evicted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::LatencyFrom,
        timeline::{
            Timeline,
            event::TaskInfo,
            testing::{EventStream, fifo, task},
        },
    };

    /// The interferers of one wait after the other: the task that waits, and the tasks that run for 100 ns each.
    fn interferers(limits: [usize; 2], waits: &[(u32, &[TaskInfo])]) -> Interferers {
        let (mut stream, mut at_ns) = (EventStream::default(), 1_000);
        for (waiter, behind) in waits {
            let from_ns = at_ns;
            for runs in *behind {
                stream.switch(0, at_ns, *runs);
                at_ns += 100;
            }
            stream.end_wait(0, (from_ns, at_ns), task(*waiter, "waits"));
            at_ns += 10;
        }
        let (mut timeline, mut found) = (Timeline::new(LatencyFrom::Wakeup), Interferers::with_limits(limits));
        stream.events.iter().for_each(|event| _ = timeline.push(event).map(|breakdown| found.add(breakdown)));
        found
    }

    /// The interferers as name and TID, ns, number of waits, number of victims, and whether there may be more victims.
    fn ranked(found: &Interferers) -> Vec<(String, u128, u64, usize, bool)> {
        let name = |actor: &Actor| match actor {
            Actor::Task(task) => format!("{}/{}", task.comm, task.tid),
            _ => unreachable!(),
        };
        let all = found.ranking(usize::MAX).0;
        all.iter()
            .map(|one| (name(&one.actor), one.sum.ns, one.sum.waits, one.victims(), one.has_more_victims()))
            .collect()
    }

    #[test]
    fn a_task_in_two_components_interferes_with_one_wait() {
        let found = interferers([8, 8], &[(1, &[task(7, "hog"), task(8, "other"), fifo(7, "hog", 49)])]);
        let hog = ("hog/7".to_owned(), 200, 1, 1, false);
        assert_eq!(ranked(&found), [hog, ("other/8".to_owned(), 100, 1, 1, false)]);
        assert_eq!(found.ranking(1).0[0].sum.max_ns, 200);
    }

    #[test]
    fn a_reused_tid_is_another_task() {
        let found = interferers([8, 8], &[(1, &[task(7, "cc1")]), (1, &[task(7, "cc1")]), (1, &[task(7, "sh")])]);
        let row = |name: &str, waits: u64| (name.to_owned(), 100 * u128::from(waits), waits, 1, false);
        assert_eq!(ranked(&found), [row("cc1/7", 2), row("sh/7", 1)]);
    }

    #[test]
    fn a_full_table_loses_no_time_and_admits_newcomers() {
        let short: Vec<[TaskInfo; 1]> = (0..100).map(|tid| [task(100 + tid, "short")]).collect();
        let mut waits: Vec<(u32, &[TaskInfo])> = short.iter().map(|runs| (1, &runs[..])).collect();
        let hog = [task(7, "hog"), task(7, "hog")];
        (0..100).for_each(|waiter| waits.push((10 + waiter, &hog[..])));
        let found = interferers([10, 1_000], &waits);
        let ranked = ranked(&found);
        let (hog, ns, waits, victims, more) = ranked[0].clone();
        assert_eq!((hog.as_str(), waits, victims, more), ("hog/7", 100, 100, false));
        assert!(ns <= 20_000 && ns + found.evicted().error >= 20_000);
        assert!(ranked.len() <= 10);
        let kept: u128 = ranked.iter().map(|row| row.1).sum();
        assert_eq!(kept + found.evicted().sum, 30_000);
        assert_eq!(ranked.len() as u64 + found.evicted().count, 101);
    }

    #[test]
    fn victims_of_the_smallest_interferers_are_dropped_first() {
        let (hog, small) = ([task(7, "hog"); 4], [task(8, "small")]);
        let mut waits: Vec<(u32, &[TaskInfo])> = (0..8).map(|waiter| (10 + waiter, &small[..])).collect();
        waits.extend((0..6).map(|waiter| (20 + waiter, &hog[..])));
        // The third victim of the hog is the eleventh in total.
        let found = interferers([8, 10], &waits);
        let expected = [("hog/7".to_owned(), 2_400, 6, 6, false), ("small/8".to_owned(), 800, 8, 8, true)];
        assert_eq!(ranked(&found), expected);
    }
}
