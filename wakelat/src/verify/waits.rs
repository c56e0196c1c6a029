//! The waits of one window under both sets of rules, as they come: the trigger's for the comparison, wakelat's own to
//! tell what the trigger's make of them. Pure.

use std::collections::{HashMap, HashSet};

use wakelat_common::Class;

use super::{
    plant::InjectedError,
    side::ExactCounts,
    window::{VerifyWindow, WindowPosition},
};
use crate::wait::Wait;

/// A number of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTally {
    /// How many.
    pub count: u64,
    /// All together: ns.
    pub sum_ns: u128,
    /// The longest: ns.
    pub max_ns: u64,
}

impl WaitTally {
    /// These, all in ns.
    pub fn of(latencies_ns: &[u64]) -> Self {
        let mut tally = Self::default();
        latencies_ns.iter().for_each(|latency_ns| tally.add(*latency_ns));
        tally
    }

    fn add(&mut self, latency_ns: u64) {
        self.count += 1;
        self.sum_ns += u128::from(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }
}

/// What the window was under wakelat's own rules, and what the trigger's make of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRuleCounts {
    /// By [`Class`], in its order.
    pub classes: [WaitTally; 3],
    /// By how much the trigger's rules began a wait later than wakelat's, where the clock's tolerance does not explain it: ns,
    /// one for each such wait. A second wakeup restarted the clock, or something held the CPU up between the two readings.
    pub late_ns: Vec<u64>,
    /// Waits under the trigger's rules where no wait began at a wakeup: the start was left behind by a wakeup of a task
    /// that was running. Bogus, and as long as they appear.
    pub bogus: WaitTally,
    /// Waits at whose end the trigger's rules know of none.
    pub unknown: WaitTally,
}

/// Both streams of waits.
pub struct PairedWaits {
    /// When the window is.
    pub window: VerifyWindow,
    /// wakelat's side of the comparison.
    pub exact: ExactCounts,
    /// Waits that one side alone may have.
    pub ambiguous: u64,
    /// What is known under wakelat's own rules.
    pub own: OwnRuleCounts,
    plant: Option<InjectedError>,
    index: u64,
    /// Threads whose start the trigger may still have though their wait is over.
    behind: HashSet<u32>,
    pending: HashMap<u32, Pending>,
}

/// A thread's ends of waits for which the other stream has not yet shown its own, and in which round they came.
#[derive(Default)]
struct Pending {
    trigger: Vec<(u64, Wait)>,
    own: Vec<(u64, Wait)>,
}

impl PairedWaits {
    /// Nothing yet.
    pub fn new(window: VerifyWindow, exact: ExactCounts, plant: Option<InjectedError>) -> Self {
        Self {
            window,
            exact,
            ambiguous: 0,
            own: OwnRuleCounts::default(),
            plant,
            index: 0,
            behind: HashSet::new(),
            pending: HashMap::new(),
        }
    }

    /// A wait under the trigger's rules, in the given round of emptying the ring buffers.
    pub fn by_trigger_rules(&mut self, wait: &Wait, round: u64) {
        let began_ns = began_ns(wait);
        if self.window.leaves_start_behind(began_ns, wait.at_ns) {
            self.behind.insert(wait.tid);
        }
        match self.window.position(began_ns, wait.at_ns) {
            WindowPosition::Outside => {}
            WindowPosition::Ambiguous => self.ambiguous += 1,
            WindowPosition::Inside => {
                self.index += 1;
                let latency_ns = match self.plant {
                    Some(plant) => plant.apply(self.index - 1, wait.latency_ns),
                    None => Some(wait.latency_ns),
                };
                if let Some(latency_ns) = latency_ns {
                    self.exact.record(latency_ns);
                }
                self.pending.entry(wait.tid).or_default().trigger.push((round, *wait));
            }
        }
    }

    /// A wait under wakelat's own rules.
    pub fn by_own_rules(&mut self, wait: &Wait, round: u64) {
        let began_ns = began_ns(wait);
        let ended =
            self.window.position(self.window.starts_on.after_ns.saturating_add(self.window.clock_ns + 1), wait.at_ns);
        if !self.behind.is_empty() && !self.window.leaves_start_behind(began_ns, wait.at_ns) {
            // The trigger now takes the start that was left behind, unless a wakeup has put another in its place.
            let there = self.behind.remove(&wait.tid);
            if there && wait.class != Class::Wakeup && ended != WindowPosition::Outside {
                self.ambiguous += 1;
            }
        }
        if ended == WindowPosition::Inside {
            self.own.classes[wait.class as usize].add(wait.latency_ns);
            self.pending.entry(wait.tid).or_default().own.push((round, *wait));
        }
    }

    /// Pairs the two streams. What has no partner though the other stream has been emptied twice since has none.
    pub fn pair(&mut self, round: u64) {
        let (own, clock_ns) = (&mut self.own, self.window.clock_ns);
        self.pending.retain(|_, pending| {
            pending.resolve(own, clock_ns, round);
            !pending.trigger.is_empty() || !pending.own.is_empty()
        });
    }

    /// Pairs what is left: nothing more comes.
    pub fn finish(&mut self) {
        self.pair(u64::MAX);
    }
}

impl Pending {
    /// A thread's waits do not overlap, and it runs between two of them: so an end belongs to the last of wakelat's own
    /// waits that began before it.
    fn resolve(&mut self, own: &mut OwnRuleCounts, clock_ns: u64, round: u64) {
        let ours = std::mem::take(&mut self.own);
        let mut ours = ours.into_iter().peekable();
        for (came, theirs) in std::mem::take(&mut self.trigger) {
            let mut partner = None;
            while let Some(candidate) = ours.next_if(|(_, wait)| began_ns(wait) < theirs.at_ns) {
                if let Some(earlier) = partner.replace(candidate) {
                    self.take_unpaired(own, earlier, round);
                }
            }
            match partner {
                Some((_, wait)) if wait.class == Class::Wakeup => {
                    let late_ns = began_ns(&theirs).saturating_sub(began_ns(&wait));
                    if late_ns > clock_ns {
                        own.late_ns.push(late_ns);
                    }
                }
                Some(_) => own.bogus.add(theirs.latency_ns),
                None if came.saturating_add(1) < round => own.bogus.add(theirs.latency_ns),
                None => self.trigger.push((came, theirs)),
            }
        }
        for alone in ours {
            self.take_unpaired(own, alone, round);
        }
    }

    fn take_unpaired(&mut self, own: &mut OwnRuleCounts, (came, wait): (u64, Wait), round: u64) {
        if came.saturating_add(1) >= round {
            self.own.push((came, wait));
        } else if wait.class == Class::Wakeup {
            // That the trigger knows nothing of the other classes is no surprise, and they are counted by themselves.
            own.unknown.add(wait.latency_ns);
        }
    }
}

fn began_ns(wait: &Wait) -> u64 {
    wait.at_ns.saturating_sub(wait.latency_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hist_trigger::recipe::Buckets, sink::fixtures, verify::window::TimeBracket};

    fn waits() -> PairedWaits {
        let moment = |at_ns| TimeBracket { before_ns: at_ns, after_ns: at_ns };
        let window = VerifyWindow {
            starts_on: moment(1_000),
            ends_on: moment(2_000),
            counting_on: moment(3_000),
            counting_off: Some(moment(100_000)),
            clock_ns: 5,
        };
        PairedWaits::new(window, ExactCounts::new(Buckets::Log2, 5), None)
    }

    fn wait(class: Class, began: u64, at_ns: u64) -> Wait {
        Wait { class, at_ns, latency_ns: at_ns - began, tid: 7, ..fixtures::wait() }
    }

    #[test]
    fn the_same_wait_on_both_sides_is_neither_bogus_nor_unknown() {
        let mut waits = waits();
        // The one that reads its clock later may be held up before it does.
        for (round, (began, theirs, ours)) in [(4_000, 5_000, 5_001), (6_000, 7_900, 7_000)].into_iter().enumerate() {
            waits.by_trigger_rules(&wait(Class::Wakeup, began, theirs), round as u64);
            waits.by_own_rules(&wait(Class::Wakeup, began, ours), round as u64);
            waits.pair(round as u64);
        }
        waits.finish();
        assert_eq!(waits.exact.side.count(), 2);
        assert_eq!(waits.own.classes[0].count, 2);
        assert_eq!((waits.own.bogus, waits.own.unknown, waits.own.late_ns), Default::default());
    }

    #[test]
    fn t6_a_clock_that_was_restarted_is_too_short_by_as_much() {
        let mut waits = waits();
        waits.by_trigger_rules(&wait(Class::Wakeup, 4_700, 5_000), 0);
        waits.by_own_rules(&wait(Class::Wakeup, 4_000, 5_000), 0);
        waits.finish();
        assert_eq!(waits.own.late_ns, [700]);
    }

    #[test]
    fn a_start_left_behind_by_a_running_task_ends_as_a_bogus_wait() {
        let mut waits = waits();
        waits.by_trigger_rules(&wait(Class::Wakeup, 4_000, 9_000), 0);
        waits.by_own_rules(&wait(Class::Preempted, 8_000, 9_000), 0);
        waits.finish();
        assert_eq!(waits.own.bogus, WaitTally { count: 1, sum_ns: 5_000, max_ns: 5_000 });
        assert_eq!(waits.own.classes[Class::Preempted as usize].count, 1);
    }

    #[test]
    fn a_partner_that_comes_a_round_later_is_waited_for() {
        let mut waits = waits();
        waits.by_trigger_rules(&wait(Class::Wakeup, 4_000, 5_000), 0);
        waits.pair(0);
        waits.by_own_rules(&wait(Class::Wakeup, 4_000, 5_000), 1);
        waits.pair(1);
        waits.finish();
        assert_eq!(waits.own.bogus.count, 0);
    }

    #[test]
    fn a_start_left_behind_while_triggers_were_placed_is_ambiguous_once() {
        let mut waits = waits();
        waits.by_trigger_rules(&wait(Class::Wakeup, 1_200, 1_500), 0);
        waits.by_own_rules(&wait(Class::Wakeup, 1_200, 1_500), 0);
        waits.by_own_rules(&wait(Class::Preempted, 4_000, 5_000), 1);
        waits.by_own_rules(&wait(Class::Preempted, 6_000, 7_000), 1);
        waits.finish();
        assert_eq!((waits.ambiguous, waits.exact.side.count()), (1, 0));
    }
}
