//! Who was in the way: the time that each task or interrupt had while others waited for it.

use super::sums::{TimeSum, sum_by};
use crate::aggregate::bounded::{Evicted, SpaceSaving, Sum};
use crate::{
    hash::HashSet,
    timeline::{
        Breakdown,
        part::{Actor, Culprit, CulpritKey},
    },
};

/// Those that are told apart.
const MAX_INTERFERERS: usize = 16_384;

/// Victims that are told apart, of all of them together.
const MAX_VICTIMS: usize = 262_144;

/// Those in the way of others.
#[derive(Debug)]
pub struct Interferers {
    by_actor: SpaceSaving<CulpritKey, Interferer>,
    victims: usize,
    limits: [usize; 2],
}

/// One that was in the way of others.
#[derive(Clone, Debug)]
pub struct Interferer {
    /// Who, as last seen.
    pub actor: Actor,
    /// The time it had while others waited, over all of them.
    pub sum: TimeSum,
    victims: VictimSet,
}

/// The threads that waited for one.
#[derive(Clone, Debug)]
enum VictimSet {
    /// All of them.
    Exact(HashSet<u32>),
    /// There was no room to tell more than so many apart.
    AtLeast(usize),
}

impl Sum for Interferer {
    fn size(&self) -> u128 {
        self.sum.ns
    }
}

impl Interferer {
    fn new(actor: Actor) -> Self {
        Self { actor, sum: TimeSum::default(), victims: VictimSet::Exact(HashSet::default()) }
    }

    /// How many threads waited for it.
    pub fn victims(&self) -> usize {
        match &self.victims {
            VictimSet::Exact(victims) => victims.len(),
            VictimSet::AtLeast(victims) => *victims,
        }
    }

    /// Whether more of them may have waited: there was no room to tell all apart.
    pub fn has_more_victims(&self) -> bool {
        matches!(self.victims, VictimSet::AtLeast(_))
    }

    /// Those that take room.
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
    /// With room for so many, and for so many victims.
    fn with_limits(limits: [usize; 2]) -> Self {
        Self { by_actor: SpaceSaving::default(), victims: 0, limits }
    }

    /// Adds a wait.
    pub fn add(&mut self, account: &Breakdown) {
        // In whatever part it was, it is the same task.
        let whose = |culprit: &Culprit| {
            matches!(culprit.actor, Actor::Task(_) | Actor::Interrupt(_)).then(|| culprit.identity())
        };
        for (key, culprit, ns) in sum_by(account, whose) {
            let known = self.by_actor.entry(key, || Interferer::new(culprit.actor));
            known.actor = culprit.actor;
            known.sum.add(ns);
            if let VictimSet::Exact(victims) = &mut known.victims {
                self.victims += usize::from(victims.insert(account.waiter.tid));
            }
        }
        let [antagonists, victims] = self.limits;
        if self.by_actor.evict_above(antagonists, |_, _| ()) {
            self.victims = self.by_actor.values().map(Interferer::kept).sum();
        }
        if self.victims > victims {
            self.evict_victims(victims / 2);
        }
    }

    /// Tells no longer apart the victims of those that had least, until so many at most are left.
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

    /// Forgets all.
    pub fn clear(&mut self) {
        self.by_actor.clear();
        self.victims = 0;
    }

    /// The first `limit`, the most in the way first, and how many are known.
    pub fn ranking(&self, limit: usize) -> (Vec<Interferer>, usize) {
        let first = self.by_actor.ranking().into_iter().take(limit).map(|(_, one)| one.clone());
        (first.collect(), self.by_actor.size())
    }

    /// Those that there was no room for.
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
            fixtures::{EventStream, fifo, task},
        },
    };

    /// Waits one after the other: who waits, and behind whom for 100 ns each.
    fn interferers(room: [usize; 2], waits: &[(u32, &[TaskInfo])]) -> Interferers {
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
        let (mut timeline, mut imposed) = (Timeline::new(LatencyFrom::Wakeup), Interferers::with_limits(room));
        stream.events.iter().for_each(|event| _ = timeline.push(event).map(|account| imposed.add(account)));
        imposed
    }

    /// Who it is, what it had, in how many waits, and of how many.
    fn ranked(imposed: &Interferers) -> Vec<(String, u128, u64, usize, bool)> {
        let name = |who: &Actor| match who {
            Actor::Task(task) => format!("{}/{}", task.comm, task.tid),
            _ => unreachable!(),
        };
        let all = imposed.ranking(usize::MAX).0;
        all.iter()
            .map(|one| (name(&one.actor), one.sum.ns, one.sum.waits, one.victims(), one.has_more_victims()))
            .collect()
    }

    #[test]
    fn a_task_in_two_parts_of_a_wait_was_in_the_way_of_one_wait() {
        let imposed = interferers([8, 8], &[(1, &[task(7, "hog"), task(8, "other"), fifo(7, "hog", 49)])]);
        let hog = ("hog/7".to_owned(), 200, 1, 1, false);
        assert_eq!(ranked(&imposed), [hog, ("other/8".to_owned(), 100, 1, 1, false)]);
        assert_eq!(imposed.ranking(1).0[0].sum.max_ns, 200);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_task() {
        let imposed = interferers([8, 8], &[(1, &[task(7, "cc1")]), (1, &[task(7, "cc1")]), (1, &[task(7, "sh")])]);
        let row = |name: &str, waits: u64| (name.to_owned(), 100 * u128::from(waits), waits, 1, false);
        assert_eq!(ranked(&imposed), [row("cc1/7", 2), row("sh/7", 1)]);
    }

    #[test]
    fn where_there_is_no_room_nothing_is_lost_and_newcomers_are_told_apart() {
        let short: Vec<[TaskInfo; 1]> = (0..100).map(|tid| [task(100 + tid, "short")]).collect();
        let mut waits: Vec<(u32, &[TaskInfo])> = short.iter().map(|runs| (1, &runs[..])).collect();
        let hog = [task(7, "hog"), task(7, "hog")];
        (0..100).for_each(|waiter| waits.push((10 + waiter, &hog[..])));
        let imposed = interferers([10, 1_000], &waits);
        let ranked = ranked(&imposed);
        let (hog, ns, waits, victims, more) = ranked[0].clone();
        assert_eq!((hog.as_str(), waits, victims, more), ("hog/7", 100, 100, false));
        assert!(ns <= 20_000 && ns + imposed.evicted().error >= 20_000);
        assert!(ranked.len() <= 10);
        let told: u128 = ranked.iter().map(|one| one.1).sum();
        assert_eq!(told + imposed.evicted().sum, 30_000);
        assert_eq!(ranked.len() as u64 + imposed.evicted().count, 101);
    }

    #[test]
    fn victims_of_those_that_had_least_are_the_first_that_are_not_told_apart() {
        let (hog, small) = ([task(7, "hog"); 4], [task(8, "small")]);
        let mut waits: Vec<(u32, &[TaskInfo])> = (0..8).map(|waiter| (10 + waiter, &small[..])).collect();
        waits.extend((0..6).map(|waiter| (20 + waiter, &hog[..])));
        // With the third of the hog's there are eleven.
        let imposed = interferers([8, 10], &waits);
        let expected = [("hog/7".to_owned(), 2_400, 6, 6, false), ("small/8".to_owned(), 800, 8, 8, true)];
        assert_eq!(ranked(&imposed), expected);
    }
}
