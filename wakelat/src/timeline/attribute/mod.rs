//! Events to accounts: when a wait ends, whose its time was.

use super::{
    account::{Account, Delivery},
    event::{Event, Turn, Waited, What},
    history::{Held, History},
    moves::{Moves, Stand},
    part::{Culprit, Part, Unknown, Who, is_real_time, standing},
};
use crate::{hash::HashMap, report::From};

/// Segments that are remembered of all CPUs together, and of each at most and at least.
const SEGMENTS: usize = 1 << 19;
const MOST: usize = 1 << 16;
const LEAST: usize = 1 << 12;

/// What happened on all CPUs, as far back as there is room: some 40 MB where everything is in use.
#[derive(Debug, Default)]
pub struct Timeline {
    from: From,
    cpus: HashMap<u32, History>,
    moves: Moves,
    account: Option<Account>,
    stands: Vec<Stand>,
    told: Told,
}

/// What came, and what did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Events that came.
    pub events: u64,
    /// Events that are known to have been lost.
    pub lost: u64,
}

impl Timeline {
    /// Nothing known yet. `from` is where the latency of a wakeup begins.
    pub fn new(from: From) -> Self {
        Self { from, ..Self::default() }
    }

    /// Takes an event. Where a wait ends with it, says where its time went.
    pub fn push(&mut self, event: &Event) -> Option<&Account> {
        let limit = (SEGMENTS / self.cpus.len().max(1)).clamp(LEAST, MOST);
        let history = self.cpus.entry(event.cpu).or_default();
        let at_ns = match &event.what {
            What::Turn(turn) => turn.at_ns,
            What::Noise(noise) => noise.to_ns,
            What::Moved(moved) => moved.at_ns,
            What::Woken(woken) => woken.at_ns,
            What::Work(work) => work.at_ns,
            What::Spawn(spawn) => spawn.at_ns,
            What::Stack(stack) => stack.at_ns,
        };
        self.told.events += 1;
        self.told.lost += u64::from(history.follow(event, at_ns));
        let account = match &event.what {
            What::Turn(turn) => {
                history.turn(turn);
                self.account(event.cpu, turn)
            }
            What::Noise(noise) => {
                history.noise(noise);
                false
            }
            What::Moved(moved) => {
                self.moves.push(moved);
                false
            }
            What::Woken(_) | What::Work(_) | What::Spawn(_) | What::Stack(_) => false,
        };
        // Not before: what has just ended may reach back as far.
        if let Some(history) = self.cpus.get_mut(&event.cpu) {
            history.shorten(limit);
        }
        self.account.as_ref().filter(|_| account)
    }

    /// What came so far.
    pub fn told(&self) -> Told {
        self.told
    }

    /// Accounts for the wait that ends with a switch, if one does.
    fn account(&mut self, cpu: u32, turn: &Turn) -> bool {
        let Some(waited) = turn.waited else {
            self.moves.forget(turn.next.tid);
            return false;
        };
        let account = self.account.get_or_insert_with(|| Account::new(waited, turn.next));
        account.reset(waited, turn.next);
        let begin_ns = before_the_queue(account, &waited, self.from);
        let end_ns = waited.wait.at_ns;
        self.moves.take(turn.next.tid, waited.cpu, cpu, begin_ns, end_ns, &mut self.stands);
        // What the kernel has clocks for goes first; the others share what is left.
        let out_of_quota = waited.throttled_ns.unwrap_or(0).min(end_ns - begin_ns);
        let stolen = waited.stolen_ns.min(end_ns - begin_ns - out_of_quota);
        // A group that runs out of quota while its task has the CPU does so before the switch from it (`pick_next_task()`): then
        // the wait begins out of quota too.
        let at_start = waited.throttled_at_start;
        let (begin_ns, end_ns) = if at_start {
            throttled(account, &waited, cpu, begin_ns, begin_ns + out_of_quota);
            (begin_ns + out_of_quota, end_ns)
        } else {
            (begin_ns, end_ns - out_of_quota)
        };
        for stand in &self.stands {
            let (from_ns, to_ns) = (stand.from_ns.max(begin_ns), stand.to_ns.min(end_ns - stolen));
            queued(account, self.cpus.get(&stand.cpu.unwrap_or(u32::MAX)), stand.cpu, from_ns, to_ns);
        }
        account.give(Culprit { part: Part::Stolen, who: Who::Nobody }, Some(cpu), end_ns - stolen, end_ns);
        if !at_start {
            throttled(account, &waited, cpu, end_ns, end_ns + out_of_quota);
        }
        true
    }
}

/// Accounts for what comes before the run queue: delivery, where it counts, and what no clock can have seen. Returns when
/// the task was put on a run queue.
fn before_the_queue(account: &mut Account, waited: &Waited, from: From) -> u64 {
    let wait = &waited.wait;
    let mut begin_ns = account.from_ns;
    // Where the latency is longer than the clock has run.
    let impossible = wait.latency_ns - (wait.at_ns - begin_ns);
    account.give_some(unknown(Unknown::Clock), impossible);
    if let Some(ns) = wait.delivery_ns {
        let part = if waited.remote { Part::Ipi } else { Part::Placement };
        let is_counted = from == From::Waking;
        account.delivery = Some(Delivery { part, ns, is_counted });
        if is_counted {
            let to_ns = begin_ns.saturating_add(ns).min(wait.at_ns);
            account.give(Culprit { part, who: Who::Nobody }, None, begin_ns, to_ns);
            begin_ns = to_ns;
        }
    }
    begin_ns
}

fn throttled(account: &mut Account, waited: &Waited, cpu: u32, from_ns: u64, to_ns: u64) {
    let who = Who::Cgroup(waited.wait.cgroup_id);
    account.give(Culprit { part: Part::Throttled, who }, waited.cpu.or(Some(cpu)), from_ns, to_ns);
}

/// Accounts for the time on one run queue.
fn queued(account: &mut Account, history: Option<&History>, cpu: Option<u32>, from_ns: u64, to_ns: u64) {
    if from_ns >= to_ns {
        return;
    }
    let Some(history) = history else {
        let why = if cpu.is_some() { Unknown::Before } else { Unknown::Place };
        account.give(unknown(why), cpu, from_ns, to_ns);
        return;
    };
    let waiter = (account.waiter.prio, account.waiter.policy);
    history.over(from_ns, to_ns, |from_ns, to_ns, held| {
        account.give(whose(waiter, held), cpu, from_ns, to_ns);
    });
}

/// What a time was to a task that waited, given its priority and policy.
fn whose(waiter: (i32, u32), held: Held) -> Culprit {
    use super::event::Source;
    let (part, who) = match held {
        Held::Task(task, _) => (standing(waiter, &task), Who::Task(task)),
        Held::Idle(state, _) => (Part::Idle, Who::Idle(state)),
        Held::Noise(source @ Source::Softirq(_)) => (Part::Softirq, Who::Noise(source)),
        Held::Noise(source) => (Part::Irq, Who::Noise(source)),
        Held::NotYet => (Part::Unexplained, Who::Unknown(Unknown::Before)),
        Held::Unknown(why) => (Part::Unexplained, Who::Unknown(why)),
    };
    // Where anybody of a lower class has the CPU because real-time tasks must not.
    let kept_out = held.is_rt_throttled() && is_real_time(waiter.0, waiter.1);
    let part = if kept_out && matches!(part, Part::Lower | Part::Idle) { Part::RtThrottled } else { part };
    Culprit { part, who }
}

fn unknown(why: Unknown) -> Culprit {
    Culprit { part: Part::Unexplained, who: Who::Unknown(why) }
}

#[cfg(test)]
mod schedules;
#[cfg(test)]
mod tests;
