//! The waits of a run by their stacks, folded: what flame graphs are drawn of.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use super::{
    NameCache,
    stacks::{Frames, Symbolize, WaitStacks},
};
use crate::{
    aggregate::key::Names as _,
    hash::HashMap,
    timeline::{
        Breakdown,
        stack::{Role, StackEvent, StackId},
    },
    wait::Comm,
};

/// Waits that are told apart, by task and stacks; further ones go into one line.
const MAX_LINES: usize = 1 << 16;

/// Between the task that waited and its waker, whose stack is upside down: so both meet in the middle, as in the off-wake
/// graphs of others.
const SEPARATOR: &str = "--";

/// The waits so far: ns.
#[derive(Debug, Default)]
pub struct FoldedStacks {
    sums: HashMap<FoldedKey, u128>,
    others_ns: u128,
}

/// What waits in one line have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FoldedKey {
    comm: Comm,
    waker: Option<TaskStack>,
    wakee: Option<TaskStack>,
}

/// Somewhere in the code of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TaskStack {
    tid: u32,
    pid: u32,
    kernel: StackId,
    user: StackId,
}

impl TaskStack {
    fn of(stack: StackEvent) -> Self {
        Self { tid: stack.by_tid, pid: stack.by_pid, kernel: stack.kernel, user: stack.user }
    }
}

impl FoldedStacks {
    /// Adds a wait.
    pub fn add(&mut self, account: &Breakdown, stacks: &WaitStacks) {
        let key = FoldedKey {
            comm: account.waiter.comm,
            waker: stacks.waker.map(TaskStack::of),
            // The task is named by the wait: only its code matters.
            wakee: stacks.wakee.map(|stack| TaskStack { tid: 0, ..TaskStack::of(stack) }),
        };
        if self.sums.len() < MAX_LINES || self.sums.contains_key(&key) {
            *self.sums.entry(key).or_default() += u128::from(account.latency_ns);
        } else {
            self.others_ns += u128::from(account.latency_ns);
        }
    }

    /// Writes a line for each stack: frames from the outermost to the innermost, `;` between them, and the ns that tasks waited.
    /// The lines add up to all waits. `roles` are those whose stacks were asked for.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(
        &self,
        roles: &[Role],
        code: &dyn Symbolize,
        known: &NameCache,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut lines: BTreeMap<String, u128> = BTreeMap::new();
        for (key, ns) in &self.sums {
            *lines.entry(line(key, roles, code, known)).or_default() += ns;
        }
        if self.others_ns > 0 {
            lines.insert("(other)".to_owned(), self.others_ns);
        }
        lines.iter().try_for_each(|(line, ns)| writeln!(out, "{line} {ns}"))
    }
}

/// The frames of a line.
fn line(key: &FoldedKey, roles: &[Role], code: &dyn Symbolize, known: &NameCache) -> String {
    let mut frames = vec![frame(&key.comm.to_string())];
    let stacks = |place: &TaskStack| {
        let mut frames = outermost_first(&code.user(place.pid, place.user), "");
        frames.extend(outermost_first(&code.kernel(place.kernel), "_[k]"));
        frames
    };
    if roles.contains(&Role::Wakee) {
        frames.extend(key.wakee.as_ref().map_or_else(|| vec!["[no stack]".to_owned()], stacks));
    }
    if roles.contains(&Role::Waker)
        && let Some(waker) = &key.waker
    {
        frames.push(SEPARATOR.to_owned());
        frames.extend(stacks(waker).into_iter().rev());
        let name = known.comm(waker.tid).map(|comm| frame(&comm.to_string()));
        frames.push(name.unwrap_or_else(|| format!("thread {}", waker.tid)));
    }
    frames.join(";")
}

/// The frames of one stack, marked with `mark`.
fn outermost_first(frames: &Frames, mark: &str) -> Vec<String> {
    if let Frames::Missing(StackId::MapFull) = frames {
        return vec![format!("[no room]{mark}")];
    }
    frames.names().iter().rev().map(|name| format!("{}{mark}", frame(name))).collect()
}

/// A name without what has a meaning between names.
fn frame(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { ':' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::LatencyFrom,
        timeline::{Timeline, fixtures::EventStream, fixtures::task},
        why::fixtures::TestNames,
    };

    struct TestSymbolizer;

    impl Symbolize for TestSymbolizer {
        fn kernel(&self, trace: StackId) -> Frames {
            named(trace, &["__schedule", "pipe_read"])
        }

        fn user(&self, _: u32, trace: StackId) -> Frames {
            named(trace, &["read", "a;b"])
        }
    }

    fn named(trace: StackId, names: &[&str]) -> Frames {
        match trace {
            StackId::Id(_) => Frames::Named(names.iter().map(|name| (*name).to_owned()).collect()),
            missing => Frames::Missing(missing),
        }
    }

    fn stack(role: Role, number: u32, user: StackId) -> StackEvent {
        StackEvent { at_ns: 1, role, tid: 1, by_tid: 2, by_pid: 2, kernel: StackId::Id(number), user }
    }

    /// Two waits with all stacks, one without a waker, one without any.
    fn written(roles: &[Role]) -> String {
        let (mut stream, mut timeline, mut known) =
            (EventStream::default(), Timeline::new(LatencyFrom::Wakeup), NameCache::default());
        let mut folded = FoldedStacks::default();
        stream.switch(0, 50, task(2, "waker"));
        for at_ns in [1_000, 3_000, 5_000, 7_000] {
            stream.end_wait(0, (at_ns, at_ns + 500), task(1, "wl;x"));
            stream.switch(0, at_ns + 600, task(2, "waker"));
        }
        let all = WaitStacks {
            waker: Some(stack(Role::Waker, 7, StackId::MapFull)),
            wakee: Some(stack(Role::Wakee, 8, StackId::Id(9))),
        };
        let mut pairs = [all, all, WaitStacks { waker: None, ..all }, WaitStacks::default()].into_iter();
        for event in &stream.events {
            known.learn(event, &TestNames);
            if let Some(account) = timeline.push(event) {
                folded.add(account, &pairs.next().unwrap());
            }
        }
        let mut out = Vec::new();
        folded.write(roles, &TestSymbolizer, &known, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_has_the_sleep_and_behind_it_the_waker_upside_down() {
        assert_eq!(
            written(&[Role::Waker, Role::Wakee]),
            "wl:x;[no stack] 500\n\
             wl:x;a:b;read;pipe_read_[k];__schedule_[k] 500\n\
             wl:x;a:b;read;pipe_read_[k];__schedule_[k];--;__schedule_[k];pipe_read_[k];[no room];waker 1000\n"
        );
    }

    #[test]
    fn only_what_is_asked_for_is_in_a_line() {
        assert_eq!(written(&[Role::Waker]), "wl:x 1000\nwl:x;--;__schedule_[k];pipe_read_[k];[no room];waker 1000\n");
        assert_eq!(written(&[Role::Wakee]), "wl:x;[no stack] 500\nwl:x;a:b;read;pipe_read_[k];__schedule_[k] 1500\n");
    }
}
