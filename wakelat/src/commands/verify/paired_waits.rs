//! The waits of one window by both sets of rules, as they arrive: by the trigger's rules for the
//! comparison, and by wakelat's own rules to find the errors of the trigger's. Pure.

use std::collections::{HashMap, HashSet};

use wakelat_common::Class;

use super::{
    side::ExactCounts,
    window::{VerifyWindow, WindowPosition},
};
use crate::config::InjectedError;
use wakelat_core::wait::Wait;

/// Number, sum and maximum of latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTally {
    /// Number of waits.
    pub count: u64,
    /// Sum of the latencies in ns.
    pub sum_ns: u128,
    /// Longest latency in ns.
    pub max_ns: u64,
}

impl WaitTally {
    /// Tallies these latencies, in ns.
    pub fn of(latencies_ns: &[u64]) -> Self {
        let mut tally = Self::default();
        latencies_ns.iter().for_each(|latency_ns| tally.add(*latency_ns));
        tally
    }

    pub(super) fn add(&mut self, latency_ns: u64) {
        self.count += 1;
        self.sum_ns += u128::from(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }
}

/// The waits of the window by wakelat's own rules, and the errors of the trigger's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRuleCounts {
    /// Waits by wakelat's rules, indexed by [`Class`].
    pub classes: [WaitTally; 3],
    /// For each wait that began later by the trigger's rules than by wakelat's, beyond the clock's
    /// tolerance: by how much, in ns. A second wakeup overwrote the start, or something delayed the CPU
    /// between the two readings.
    pub late_ns: Vec<u64>,
    /// Waits by the trigger's rules that did not begin at a wakeup: a wakeup of a running task left a stale
    /// start behind. Their sum and maximum are of the bogus latencies.
    pub bogus: WaitTally,
    /// Waits after a wakeup that the trigger's rules miss.
    pub unknown: WaitTally,
}

/// Pairs the waits by the trigger's rules with those by wakelat's own rules.
pub struct PairedWaits {
    /// The window.
    pub window: VerifyWindow,
    /// wakelat's side of the comparison, by the trigger's rules.
    pub exact: ExactCounts,
    /// Waits that only one side may have.
    pub ambiguous: u64,
    /// The result by wakelat's own rules.
    pub own: OwnRuleCounts,
    plant: Option<InjectedError>,
    index: u64,
    /// Threads whose start may still be in the trigger's table although their wait has ended.
    behind: HashSet<u32>,
    pending: HashMap<u32, Pending>,
}

/// A thread's waits that have no partner in the other stream yet, each with the round in which it arrived.
#[derive(Default)]
struct Pending {
    trigger: Vec<(u64, Wait)>,
    own: Vec<(u64, Wait)>,
}

impl PairedWaits {
    /// Creates an empty set of waits.
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

    /// Adds a wait by the trigger's rules; `round` counts how often the ring buffers have been drained.
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

    /// Adds a wait by wakelat's own rules; `round` is as in [`Self::by_trigger_rules`].
    pub fn by_own_rules(&mut self, wait: &Wait, round: u64) {
        let began_ns = began_ns(wait);
        let ended =
            self.window.position(self.window.starts_on.after_ns.saturating_add(self.window.clock_ns + 1), wait.at_ns);
        if !self.behind.is_empty() && !self.window.leaves_start_behind(began_ns, wait.at_ns) {
            // The trigger now consumes the stale start, unless a wakeup has overwritten it.
            let stale = self.behind.remove(&wait.tid);
            if stale && wait.class != Class::Wakeup && ended != WindowPosition::Outside {
                self.ambiguous += 1;
            }
        }
        if ended == WindowPosition::Inside {
            self.own.classes[wait.class as usize].add(wait.latency_ns);
            self.pending.entry(wait.tid).or_default().own.push((round, *wait));
        }
    }

    /// Pairs the two streams. A wait that finds no partner within two drains of the other stream has none.
    pub fn pair(&mut self, round: u64) {
        let (own, clock_ns) = (&mut self.own, self.window.clock_ns);
        self.pending.retain(|_, pending| {
            pending.resolve(own, clock_ns, round);
            !pending.trigger.is_empty() || !pending.own.is_empty()
        });
    }

    /// Pairs the remaining waits once no more can arrive.
    pub fn finish(&mut self) {
        self.pair(u64::MAX);
    }
}

impl Pending {
    /// Pairs each wait by the trigger's rules with the last of wakelat's own waits that began before its
    /// end. This is the partner because a thread's waits do not overlap and it runs between any two of
    /// them.
    fn resolve(&mut self, own: &mut OwnRuleCounts, clock_ns: u64, round: u64) {
        let own_waits = std::mem::take(&mut self.own);
        let mut own_waits = own_waits.into_iter().peekable();
        for (arrived, trigger_wait) in std::mem::take(&mut self.trigger) {
            let mut partner = None;
            while let Some(candidate) = own_waits.next_if(|(_, wait)| began_ns(wait) < trigger_wait.at_ns) {
                if let Some(earlier) = partner.replace(candidate) {
                    self.take_unpaired(own, earlier, round);
                }
            }
            match partner {
                Some((_, wait)) if wait.class == Class::Wakeup => {
                    let late_ns = began_ns(&trigger_wait).saturating_sub(began_ns(&wait));
                    if late_ns > clock_ns {
                        own.late_ns.push(late_ns);
                    }
                }
                Some(_) => own.bogus.add(trigger_wait.latency_ns),
                None if arrived.saturating_add(1) < round => own.bogus.add(trigger_wait.latency_ns),
                None => self.trigger.push((arrived, trigger_wait)),
            }
        }
        for unpaired in own_waits {
            self.take_unpaired(own, unpaired, round);
        }
    }

    fn take_unpaired(&mut self, own: &mut OwnRuleCounts, (arrived, wait): (u64, Wait), round: u64) {
        if arrived.saturating_add(1) >= round {
            self.own.push((arrived, wait));
        } else if wait.class == Class::Wakeup {
            // The trigger cannot see waits of the other classes, and `classes` counts them separately.
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
    use crate::commands::verify::window::TimeBracket;
    use wakelat_core::render::testing;
    use wakelat_tracefs::hist_trigger::wakeup_latency::Buckets;

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
        Wait { class, at_ns, latency_ns: at_ns - began, tid: 7, ..testing::wait() }
    }

    #[test]
    fn the_same_wait_on_both_sides_is_neither_bogus_nor_unknown() {
        let mut waits = waits();
        // The side that reads its clock second may be delayed before its reading.
        for (round, (began, trigger_end, own_end)) in
            [(4_000, 5_000, 5_001), (6_000, 7_900, 7_000)].into_iter().enumerate()
        {
            waits.by_trigger_rules(&wait(Class::Wakeup, began, trigger_end), round as u64);
            waits.by_own_rules(&wait(Class::Wakeup, began, own_end), round as u64);
            waits.pair(round as u64);
        }
        waits.finish();
        assert_eq!(waits.exact.side.count(), 2);
        assert_eq!(waits.own.classes[0].count, 2);
        assert_eq!((waits.own.bogus, waits.own.unknown, waits.own.late_ns), Default::default());
    }

    #[test]
    fn t6_an_overwritten_start_shortens_the_wait_by_the_difference() {
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
    fn a_partner_may_arrive_one_round_later() {
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
