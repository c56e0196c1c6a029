//! Who makes many tasks, and how long others waited for those.

use std::collections::HashMap;

use super::{
    finding::{OF_WINDOW, SHARE},
    sums::PartSum,
};
use crate::{
    timeline::{Account, event::Spawn, part::Who},
    wait::Comm,
};

/// Tasks whose maker is remembered, and names of makers. Where there are more, the tasks are forgotten, and further makers not
/// looked at.
const CHILDREN: usize = 65_536;
const MAKERS: usize = 4096;

/// It is a storm from so many new tasks on, altogether and in a second.
pub const TASKS: u64 = 20;

/// Who made whom, and how long others waited for those.
#[derive(Debug, Default)]
pub struct Storms {
    /// The name of the one that made each task.
    made_by: HashMap<u32, Comm>,
    makers: HashMap<Comm, Made>,
}

/// What tasks of one name made.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    tasks: u64,
    programs: u64,
    had: PartSum,
}

/// Tasks of one name made many others, and those were in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// The name of those who made them.
    pub comm: Comm,
    /// How many they made.
    pub tasks: u64,
    /// How many programs these took.
    pub programs: u64,
    /// What these had of the wait of others.
    pub had: PartSum,
    /// All wait: ns.
    pub whole_ns: u128,
    /// How long the window was: ns.
    pub duration_ns: u64,
}

impl Storms {
    /// Takes note of a task that made another, or took another program.
    pub fn push(&mut self, spawn: &Spawn) {
        match spawn.child {
            Some(child) => {
                if self.made_by.len() >= CHILDREN {
                    self.made_by.clear();
                }
                self.made_by.insert(child, spawn.comm);
                if self.makers.len() < MAKERS || self.makers.contains_key(&spawn.comm) {
                    self.makers.entry(spawn.comm).or_default().tasks += 1;
                }
            }
            None => {
                if let Some(made) = self.made_by.get(&spawn.tid).and_then(|maker| self.makers.get_mut(maker)) {
                    made.programs += 1;
                }
            }
        }
    }

    /// Adds a wait.
    pub fn add(&mut self, account: &Account) {
        for share in &account.shares {
            if let Who::Task(task) = share.culprit.who
                && let Some(maker) = self.made_by.get(&task.tid)
                && let Some(made) = self.makers.get_mut(maker)
            {
                made.had.merge(&PartSum { ns: share.ns.into(), max_ns: share.ns, waits: 1 });
            }
        }
    }

    /// Forgets what was made and what it had, and not who made whom.
    pub fn clear(&mut self) {
        self.makers.clear();
    }

    /// Those that stand out in a window of `duration_ns`, whose waits took `whole_ns` together; the largest first.
    pub fn storms(&self, whole_ns: u128, duration_ns: u64) -> Vec<Storm> {
        let second = u128::from(duration_ns).max(1_000_000_000);
        let is_storm = |(_, made): &(&Comm, &Made)| {
            u128::from(made.tasks) * 1_000_000_000 >= u128::from(TASKS) * second
                && made.had.ns * 100 >= whole_ns * SHARE
                && made.had.ns * OF_WINDOW >= u128::from(duration_ns)
                && made.had.ns > 0
        };
        let storm = |(comm, made): (&Comm, &Made)| Storm {
            comm: *comm,
            tasks: made.tasks,
            programs: made.programs,
            had: made.had,
            whole_ns,
            duration_ns,
        };
        let mut storms: Vec<Storm> = self.makers.iter().filter(is_storm).map(storm).collect();
        storms.sort_by_key(|storm| (std::cmp::Reverse(storm.had.ns), storm.comm));
        storms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::From,
        timeline::{
            Timeline,
            fixtures::{Stream, task},
        },
    };

    const SECOND: u64 = 1_000_000_000;

    /// `make` makes so many tasks; one of them takes a program, and nginx waits for it, and then for another, 2 ms each.
    fn storms(tasks: u32, duration_ns: u64) -> Vec<Storm> {
        const MS: u64 = 1_000_000;
        let mut storms = Storms::default();
        let spawn = |tid, child| Spawn { at_ns: 1, tid, comm: Comm::new(b"make"), child };
        (0..tasks).for_each(|child| storms.push(&spawn(10, Some(100 + child))));
        storms.push(&spawn(100, None));
        storms.push(&spawn(99, None));
        let mut stream = Stream::default();
        stream.turn(0, 1, task(100, "cc1"));
        stream.ends(0, (10 * MS, 12 * MS), task(1, "nginx"));
        stream.turn(0, 13 * MS, task(7, "other"));
        stream.ends(0, (20 * MS, 22 * MS), task(1, "nginx"));
        let mut timeline = Timeline::new(From::Wakeup);
        let mut whole_ns = 0;
        for event in &stream.events {
            if let Some(account) = timeline.push(event) {
                whole_ns += u128::from(account.latency_ns);
                storms.add(account);
            }
        }
        storms.storms(whole_ns, duration_ns)
    }

    #[test]
    fn many_new_tasks_in_the_way_are_a_storm() {
        let expected = Storm {
            comm: Comm::new(b"make"),
            tasks: 40,
            programs: 1,
            had: PartSum { ns: 2_000_000, max_ns: 2_000_000, waits: 1 },
            whole_ns: 4_000_000,
            duration_ns: 2 * SECOND,
        };
        assert_eq!(storms(40, 2 * SECOND), [expected]);
    }

    #[test]
    fn few_tasks_are_none() {
        assert_eq!(storms(39, 2 * SECOND), []);
        assert_eq!(storms(19, SECOND / 2), []);
        assert_eq!(storms(20, SECOND / 2).len(), 1);
    }

    #[test]
    fn what_nobody_waited_for_is_none() {
        let mut storms = Storms::default();
        (0..100).for_each(|child| {
            storms.push(&Spawn { at_ns: 1, tid: 1, comm: Comm::new(b"make"), child: Some(child) });
        });
        assert_eq!(storms.storms(0, SECOND), []);
        // 2 ms are much of the wait, and little of the window.
        assert_eq!(super::tests::storms(1_000, 5 * SECOND), []);
    }
}
