//! The stacks of each wait: the waker's, and the one with which the task had left its CPU.

use wakelat_common::{Class, pending_wait::PrevState};

use super::NameCache;
use crate::{
    aggregate::key::Names as _,
    hash::HashMap,
    report::LatencyFrom,
    timeline::{
        event::SwitchEvent,
        stack_event::{Role, StackEvent},
        stack_frames::{StackCounts, StackFrames, Symbolize},
    },
    wait::{Comm, Wait},
};

/// Maximum number of tasks whose stacks are kept until they run, for each role.
const MAX_TASKS: usize = 1 << 16;

/// Stacks of tasks whose waits have not ended.
#[derive(Debug)]
pub struct PendingStacks {
    from: LatencyFrom,
    wakers: HashMap<u32, StackEvent>,
    wakees: HashMap<u32, StackEvent>,
    given_up: u64,
}

/// The stacks of one wait, if they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitStacks {
    /// The stacks of the task that woke or created the task that waited.
    pub waker: Option<StackEvent>,
    /// The stacks with which the task that waited had left its CPU.
    pub wakee: Option<StackEvent>,
}

/// The symbolized stacks of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolizedStack {
    /// The TID of the task.
    pub tid: u32,
    /// Its name, if known.
    pub comm: Option<Comm>,
    /// Its kernel stack.
    pub kernel: StackFrames,
    /// Its user stack.
    pub user: StackFrames,
}

/// The symbolized stacks of one wait, if they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolizedStacks {
    /// The stacks of the task that woke or created the task that waited.
    pub waker: Option<SymbolizedStack>,
    /// The stacks with which the task that waited had left its CPU.
    pub wakee: Option<SymbolizedStack>,
}

/// What became of the stacks of a window. The stacks of the longest waits are in their [`super::worst::Exemplar`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSummary {
    /// The tasks whose stacks were requested.
    pub roles: Vec<Role>,
    /// What became of all stacks.
    pub counts: StackCounts,
}

impl PendingStacks {
    /// No stacks yet. `from` is where the latency of a wakeup begins.
    pub fn new(from: LatencyFrom) -> Self {
        Self { from, wakers: HashMap::default(), wakees: HashMap::default(), given_up: 0 }
    }

    /// Keeps a stack until its task runs. A later stack replaces it: the task went to sleep again, or was woken without
    /// having to wait.
    pub fn push(&mut self, stack: StackEvent) {
        let kept = match stack.role {
            Role::Waker => &mut self.wakers,
            Role::Wakee => &mut self.wakees,
        };
        if kept.len() >= MAX_TASKS && !kept.contains_key(&stack.tid) {
            self.given_up += kept.len() as u64;
            kept.clear();
        }
        kept.insert(stack.tid, stack);
    }

    /// Processes a switch and returns the stacks of the wait that it ends.
    pub fn switch(&mut self, switch: &SwitchEvent) -> WaitStacks {
        // Most runs have no stacks.
        if self.wakers.is_empty() && self.wakees.is_empty() {
            return WaitStacks::default();
        }
        let (prev, next) = (switch.prev.tid, switch.next.tid);
        // The stack of this switch-out, if taken, arrived just before. An older one is of an earlier switch-out, after
        // which the switch-in was not seen.
        if self.wakees.get(&prev).is_some_and(|stack| stack.at_ns != switch.at_ns) {
            self.wakees.remove(&prev);
        }
        if switch.prev_state == PrevState::Dead {
            self.wakers.remove(&prev);
        }
        let (waker, wakee) = (self.wakers.remove(&next), self.wakees.remove(&next));
        switch.ended_wait.map_or(WaitStacks::default(), |waited| pair(&waited.wait, self.from, waker, wakee))
    }

    /// The stacks of tasks that have not run yet.
    pub fn kept(&self) -> impl Iterator<Item = StackEvent> {
        self.wakers.values().chain(self.wakees.values()).copied()
    }

    /// The number of stacks given up so far.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }
}

/// The stacks that belong to `wait`, by their time.
fn pair(wait: &Wait, from: LatencyFrom, waker: Option<StackEvent>, wakee: Option<StackEvent>) -> WaitStacks {
    let begin_ns = wait.at_ns.saturating_sub(wait.latency_ns);
    let waker = waker.filter(|stack| waking_ns(wait, from) == Some(stack.at_ns));
    let wakee = wakee.filter(|stack| match wait.class {
        // The queue's clock is not that of the stacks. It times no wait of a task that ran unseen since its last
        // switch-out, so the stack of that is the one.
        Class::Wakeup | Class::Preempted if from == LatencyFrom::Queued => true,
        // A wakeup may begin while the task is still going to sleep.
        Class::Wakeup => stack.at_ns <= queued_ns(wait, from),
        Class::Preempted => stack.at_ns == begin_ns,
        Class::New => false,
    });
    WaitStacks { waker, wakee }
}

/// When the waker woke or created the task: ns of CLOCK_MONOTONIC. `None` without a waker, or if that was not seen.
fn waking_ns(wait: &Wait, from: LatencyFrom) -> Option<u64> {
    let begin_ns = wait.at_ns.checked_sub(wait.latency_ns)?;
    match (wait.class, from) {
        (Class::Wakeup, LatencyFrom::Wakeup | LatencyFrom::Queued) => begin_ns.checked_sub(wait.delivery_ns?),
        (Class::Wakeup, LatencyFrom::Waking) | (Class::New, _) => Some(begin_ns),
        (Class::Preempted, _) => None,
    }
}

/// When the task was enqueued: ns of CLOCK_MONOTONIC.
fn queued_ns(wait: &Wait, from: LatencyFrom) -> u64 {
    let before_ns = match from {
        LatencyFrom::Waking => wait.delivery_ns.unwrap_or(0),
        LatencyFrom::Wakeup | LatencyFrom::Queued => 0,
    };
    wait.at_ns.saturating_sub(wait.latency_ns).saturating_add(before_ns)
}

impl WaitStacks {
    /// The stacks that are known.
    pub fn known(self) -> impl Iterator<Item = StackEvent> {
        [self.waker, self.wakee].into_iter().flatten()
    }

    /// Looks up the names of the functions and tasks.
    pub fn symbolize(&self, code: &dyn Symbolize, known: &NameCache) -> SymbolizedStacks {
        let symbolize = |stack: &StackEvent| SymbolizedStack {
            tid: stack.by_tid,
            comm: known.comm(stack.by_tid),
            kernel: code.kernel(stack.kernel),
            user: code.user(stack.by_pid, stack.user),
        };
        SymbolizedStacks { waker: self.waker.as_ref().map(symbolize), wakee: self.wakee.as_ref().map(symbolize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{
        stack_event::StackId,
        testing::{EventStream, idle, task},
    };

    fn stack(role: Role, tid: u32, at_ns: u64) -> StackEvent {
        let (kernel, user) = (StackId::Id(at_ns as u32), StackId::Missing);
        StackEvent { at_ns, role, tid, by_tid: 9, by_pid: 9, kernel, user }
    }

    /// The times of the stacks of a wait of task 1 from 200 to 300, modified by `change`. Its stacks were taken at
    /// `waker_ns` and `wakee_ns`.
    fn joined(
        from: LatencyFrom,
        waker_ns: u64,
        wakee_ns: u64,
        change: impl FnOnce(&mut Wait),
    ) -> (Option<u64>, Option<u64>) {
        let mut stream = EventStream::default();
        change(&mut stream.end_wait(0, (200, 300), task(1, "a")).wait);
        let mut stacks = PendingStacks::new(from);
        stacks.push(stack(Role::Waker, 1, waker_ns));
        stacks.push(stack(Role::Wakee, 1, wakee_ns));
        let crate::timeline::event::EventKind::Switch(switch) = &stream.events[0].kind else { unreachable!() };
        let pair = stacks.switch(switch);
        assert_eq!(stacks.switch(switch), WaitStacks::default(), "stacks belong to one wait only");
        (pair.waker.map(|stack| stack.at_ns), pair.wakee.map(|stack| stack.at_ns))
    }

    #[test]
    fn a_woken_task_has_the_stack_of_its_waker_and_of_its_sleep() {
        let delivered = |wait: &mut Wait| wait.delivery_ns = Some(10);
        assert_eq!(joined(LatencyFrom::Wakeup, 190, 50, delivered), (Some(190), Some(50)));
        assert_eq!(joined(LatencyFrom::Waking, 200, 205, delivered), (Some(200), Some(205)));
    }

    #[test]
    fn a_stack_of_another_time_belongs_to_another_wait() {
        let delivered = |wait: &mut Wait| wait.delivery_ns = Some(10);
        assert_eq!(joined(LatencyFrom::Wakeup, 189, 201, delivered), (None, None));
        assert_eq!(joined(LatencyFrom::Wakeup, 190, 50, |_| ()), (None, Some(50)), "the waker is unknown");
    }

    #[test]
    fn a_preempted_task_has_only_the_stack_of_its_preemption() {
        let preempted = |wait: &mut Wait| wait.class = Class::Preempted;
        assert_eq!(joined(LatencyFrom::Waking, 200, 200, preempted), (None, Some(200)));
        assert_eq!(joined(LatencyFrom::Waking, 200, 50, preempted), (None, None));
    }

    #[test]
    fn by_the_queue_clock_a_task_has_the_stack_of_its_last_switch_out() {
        for class in [Class::Wakeup, Class::Preempted] {
            assert_eq!(joined(LatencyFrom::Queued, 150, 203, |wait| wait.class = class), (None, Some(203)));
        }
        assert_eq!(joined(LatencyFrom::Queued, 150, 50, |wait| wait.class = Class::New), (None, None));
    }

    #[test]
    fn a_new_task_has_the_stack_of_its_parent() {
        assert_eq!(joined(LatencyFrom::Waking, 200, 50, |wait| wait.class = Class::New), (Some(200), None));
    }

    #[test]
    fn a_task_without_a_stack_of_its_last_switch_out_has_none() {
        let mut stream = EventStream::default();
        stream.switch(0, 60, task(1, "a"));
        stream.switch(0, 70, idle());
        stream.end_wait(0, (200, 300), task(1, "a"));
        let mut stacks = PendingStacks::new(LatencyFrom::Wakeup);
        // Its switch-in at 60 was not seen.
        let switches = stream.events.iter().skip(1).map(|event| match &event.kind {
            crate::timeline::event::EventKind::Switch(switch) => switch,
            _ => unreachable!(),
        });
        stacks.push(stack(Role::Wakee, 1, 50));
        let pairs: Vec<WaitStacks> = switches.map(|switch| stacks.switch(switch)).collect();
        assert_eq!(pairs, [WaitStacks::default(); 2]);
    }

    #[test]
    fn stacks_of_too_many_tasks_are_given_up_and_counted() {
        let mut stacks = PendingStacks::new(LatencyFrom::Wakeup);
        (0..=MAX_TASKS as u32).for_each(|tid| stacks.push(stack(Role::Wakee, tid, 1)));
        assert_eq!((stacks.given_up(), stacks.wakees.len()), (MAX_TASKS as u64, 1));
    }
}
