//! Which stacks belong to a wait: where its waker was, and where the task had left its CPU.

use wakelat_common::{Class, start::PrevState};

use super::NameCache;
use crate::{
    aggregate::key::Names as _,
    hash::HashMap,
    report::LatencyFrom,
    timeline::{
        event::SwitchEvent,
        stack::{Role, StackEvent, StackId},
    },
    wait::{Comm, Wait},
};

/// Tasks whose stacks are kept until they run.
const MAX_TASKS: usize = 1 << 16;

/// Stacks whose waits have not ended.
#[derive(Debug)]
pub struct PendingStacks {
    from: LatencyFrom,
    wakers: HashMap<u32, StackEvent>,
    wakees: HashMap<u32, StackEvent>,
    given_up: u64,
}

/// The stacks of one wait, where they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitStacks {
    /// Of whoever woke or made the task.
    pub waker: Option<StackEvent>,
    /// Of the task, where it had left its CPU.
    pub wakee: Option<StackEvent>,
}

/// What became of the stacks that were to be taken in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackCounts {
    /// How often a task's stacks were looked for.
    pub taken: u64,
    /// How often they were not, as that would have taken too much time.
    pub over_budget: u64,
    /// Stacks, of kernel and user apart, for which the kernel's map had no room.
    pub no_room: u64,
    /// Kernel stacks of which nothing could be read.
    pub no_kernel: u64,
    /// User stacks that there were not, or of which nothing could be read.
    pub no_user: u64,
    /// Stacks of tasks that had not run when there were too many of them.
    pub given_up: u64,
}

/// A stack by its functions, the innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frames {
    /// By name.
    Named(Vec<String>),
    /// By what is known without their names, mostly by address, and why.
    Unsymbolized(Vec<String>, NoSymbols),
    /// There is none to show, and why.
    Missing(StackId),
}

/// Why functions have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSymbols {
    /// The process had ended before anybody asked. What was noted of its files by then may name some.
    ProcessExited,
    /// The kernel keeps its addresses to itself.
    Restricted,
}

/// Who knows what is at an address.
pub trait Symbolize {
    /// A stack of the kernel.
    fn kernel(&self, trace: StackId) -> Frames;
    /// A stack of a process.
    fn user(&self, pid: u32, trace: StackId) -> Frames;
}

/// A task's stacks, to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolizedStack {
    /// Its thread id.
    pub tid: u32,
    /// Its name, where it is known.
    pub comm: Option<Comm>,
    /// In the kernel.
    pub kernel: Frames,
    /// In its own code.
    pub user: Frames,
}

/// Both of a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolizedStacks {
    /// Whoever woke or made the task.
    pub waker: Option<SymbolizedStack>,
    /// The task, where it had left its CPU.
    pub wakee: Option<SymbolizedStack>,
}

/// What became of the stacks of a window; those of the longest waits are with these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSummary {
    /// Whose stacks were asked for.
    pub roles: Vec<Role>,
    /// What became of all.
    pub counts: StackCounts,
}

impl PendingStacks {
    /// None yet. `from` is where the latency of a wakeup begins.
    pub fn new(from: LatencyFrom) -> Self {
        Self { from, wakers: HashMap::default(), wakees: HashMap::default(), given_up: 0 }
    }

    /// Keeps a stack until its task runs. A later one takes its place: the task went to sleep again, or was woken without
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

    /// A CPU goes from one task to the next: the stacks of the wait that ends with that.
    pub fn switch(&mut self, turn: &SwitchEvent) -> WaitStacks {
        let (prev, next) = (turn.prev.tid, turn.next.tid);
        // The stack of this leave came just before. An older one is of another, which nobody saw the end of.
        if self.wakees.get(&prev).is_some_and(|stack| stack.at_ns != turn.at_ns) {
            self.wakees.remove(&prev);
        }
        if turn.prev_state == PrevState::Dead {
            self.wakers.remove(&prev);
        }
        let (waker, wakee) = (self.wakers.remove(&next), self.wakees.remove(&next));
        turn.ended_wait.map_or(WaitStacks::default(), |waited| pair(&waited.wait, self.from, waker, wakee))
    }

    /// How many were given up so far.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }
}

/// Which of the stacks are those of `wait`.
fn pair(wait: &Wait, from: LatencyFrom, waker: Option<StackEvent>, wakee: Option<StackEvent>) -> WaitStacks {
    let begin_ns = wait.at_ns.saturating_sub(wait.latency_ns);
    let waker = waker.filter(|stack| waking_ns(wait, from) == Some(stack.at_ns));
    let wakee = wakee.filter(|stack| match wait.class {
        // A wakeup may begin while the task is still on its way to sleep.
        Class::Wakeup => stack.at_ns <= queued_ns(wait, from),
        Class::Preempted => stack.at_ns == begin_ns,
        Class::New => false,
    });
    WaitStacks { waker, wakee }
}

/// When the waker woke or made the task, where one did and that was seen: ns of CLOCK_MONOTONIC.
fn waking_ns(wait: &Wait, from: LatencyFrom) -> Option<u64> {
    let begin_ns = wait.at_ns.checked_sub(wait.latency_ns)?;
    match (wait.class, from) {
        (Class::Wakeup, LatencyFrom::Wakeup) => begin_ns.checked_sub(wait.delivery_ns?),
        (Class::Wakeup, LatencyFrom::Waking) | (Class::New, _) => Some(begin_ns),
        (Class::Preempted, _) => None,
    }
}

/// When the task came to a run queue: ns of CLOCK_MONOTONIC.
fn queued_ns(wait: &Wait, from: LatencyFrom) -> u64 {
    let before_ns = match from {
        LatencyFrom::Waking => wait.delivery_ns.unwrap_or(0),
        LatencyFrom::Wakeup => 0,
    };
    wait.at_ns.saturating_sub(wait.latency_ns).saturating_add(before_ns)
}

impl WaitStacks {
    /// By the names of functions and tasks.
    pub fn symbolize(&self, code: &dyn Symbolize, known: &NameCache) -> SymbolizedStacks {
        let sight = |stack: &StackEvent| SymbolizedStack {
            tid: stack.by_tid,
            comm: known.comm(stack.by_tid),
            kernel: code.kernel(stack.kernel),
            user: code.user(stack.by_pid, stack.user),
        };
        SymbolizedStacks { waker: self.waker.as_ref().map(sight), wakee: self.wakee.as_ref().map(sight) }
    }
}

impl StackCounts {
    /// What came after `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            taken: self.taken - before.taken,
            over_budget: self.over_budget - before.over_budget,
            no_room: self.no_room - before.no_room,
            no_kernel: self.no_kernel - before.no_kernel,
            no_user: self.no_user - before.no_user,
            given_up: self.given_up - before.given_up,
        }
    }
}

impl Frames {
    /// The functions, or their addresses, the innermost first; none where there is no stack.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Named(names) | Self::Unsymbolized(names, _) => names,
            Self::Missing(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::fixtures::{EventStream, idle, task};

    fn stack(role: Role, tid: u32, at_ns: u64) -> StackEvent {
        let (kernel, user) = (StackId::Id(at_ns as u32), StackId::Missing);
        StackEvent { at_ns, role, tid, by_tid: 9, by_pid: 9, kernel, user }
    }

    /// Task 1 waits from 200 to 300, as `change` has it; its stacks were taken at `waker_ns` and `wakee_ns`.
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
        let crate::timeline::event::EventKind::Switch(turn) = &stream.events[0].kind else { unreachable!() };
        let pair = stacks.switch(turn);
        assert_eq!(stacks.switch(turn), WaitStacks::default(), "stacks are of one wait");
        (pair.waker.map(|stack| stack.at_ns), pair.wakee.map(|stack| stack.at_ns))
    }

    #[test]
    fn a_woken_task_has_the_stack_of_its_waker_and_of_its_sleep() {
        let delivered = |wait: &mut Wait| wait.delivery_ns = Some(10);
        assert_eq!(joined(LatencyFrom::Wakeup, 190, 50, delivered), (Some(190), Some(50)));
        assert_eq!(joined(LatencyFrom::Waking, 200, 205, delivered), (Some(200), Some(205)));
    }

    #[test]
    fn a_stack_of_another_time_is_of_another_wait() {
        let delivered = |wait: &mut Wait| wait.delivery_ns = Some(10);
        assert_eq!(joined(LatencyFrom::Wakeup, 189, 201, delivered), (None, None));
        assert_eq!(joined(LatencyFrom::Wakeup, 190, 50, |_| ()), (None, Some(50)), "whose waker is not known");
    }

    #[test]
    fn a_preempted_task_has_the_stack_of_its_preemption_alone() {
        let preempted = |wait: &mut Wait| wait.class = Class::Preempted;
        assert_eq!(joined(LatencyFrom::Waking, 200, 200, preempted), (None, Some(200)));
        assert_eq!(joined(LatencyFrom::Waking, 200, 50, preempted), (None, None));
    }

    #[test]
    fn a_new_task_has_the_stack_of_whoever_made_it() {
        assert_eq!(joined(LatencyFrom::Waking, 200, 50, |wait| wait.class = Class::New), (Some(200), None));
    }

    #[test]
    fn a_task_that_left_again_without_a_stack_has_none() {
        let mut stream = EventStream::default();
        stream.switch(0, 60, task(1, "a"));
        stream.switch(0, 70, idle());
        stream.end_wait(0, (200, 300), task(1, "a"));
        let mut stacks = PendingStacks::new(LatencyFrom::Wakeup);
        // It came at 60 without being seen to.
        let turns = stream.events.iter().skip(1).map(|event| match &event.kind {
            crate::timeline::event::EventKind::Switch(turn) => turn,
            _ => unreachable!(),
        });
        stacks.push(stack(Role::Wakee, 1, 50));
        let pairs: Vec<WaitStacks> = turns.map(|turn| stacks.switch(turn)).collect();
        assert_eq!(pairs, [WaitStacks::default(); 2]);
    }

    #[test]
    fn too_many_tasks_are_given_up_and_counted() {
        let mut stacks = PendingStacks::new(LatencyFrom::Wakeup);
        (0..=MAX_TASKS as u32).for_each(|tid| stacks.push(stack(Role::Wakee, tid, 1)));
        assert_eq!((stacks.given_up(), stacks.wakees.len()), (MAX_TASKS as u64, 1));
    }
}
