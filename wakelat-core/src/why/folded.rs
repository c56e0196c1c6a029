//! The waits of a run as folded stacks, for flame graphs.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use super::{NameCache, stacks::WaitStacks};
use crate::{
    aggregate::key::Names as _,
    files::own_tid,
    hash::HashMap,
    timeline::{
        Breakdown,
        stack_event::{Role, StackEvent, StackId},
        stack_frames::{StackFrames, Symbolize},
    },
    wait::Comm,
};

/// Maximum number of distinct combinations of task and stacks; the waits of further ones go into one line.
const MAX_LINES: usize = 1 << 16;

/// Separates the stack of the task that waited from its waker's, which is upside down, so that sleep and wakeup meet in
/// the middle, as in the off-wake graphs of other tools.
const SEPARATOR: &str = "--";

/// The total wait of each combination of task and stacks so far: ns.
#[derive(Debug, Default)]
pub struct FoldedStacks {
    sums: HashMap<FoldedKey, u128>,
    others_ns: u128,
}

/// The task name and stacks that the waits of one line have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FoldedKey {
    comm: Comm,
    waker: Option<TaskStack>,
    wakee: Option<TaskStack>,
}

/// The stacks of one task.
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
    pub fn add(&mut self, breakdown: &Breakdown, stacks: &WaitStacks) {
        let key = FoldedKey {
            comm: breakdown.waiter.comm,
            waker: stacks.waker.map(TaskStack::of),
            // The line has the name of the waiting task, so threads with the same stacks share one.
            wakee: stacks.wakee.map(|stack| TaskStack { tid: 0, ..TaskStack::of(stack) }),
        };
        if self.sums.len() < MAX_LINES || self.sums.contains_key(&key) {
            *self.sums.entry(key).or_default() += u128::from(breakdown.latency_ns);
        } else {
            self.others_ns += u128::from(breakdown.latency_ns);
        }
    }

    /// Passes the kernel and the user stack of each task in a line to `visit`.
    pub fn visit_stacks(&self, visit: &mut dyn FnMut(StackId, StackId)) {
        let tasks = self.sums.keys().flat_map(|key| [key.waker, key.wakee]).flatten();
        tasks.for_each(|task| visit(task.kernel, task.user));
    }

    /// Writes each of [`Self::lines`] with its time.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(
        &self,
        roles: &[Role],
        code: &dyn Symbolize,
        known: &NameCache,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.lines(roles, code, known).iter().try_for_each(|(line, ns)| writeln!(out, "{line} {ns}"))
    }

    /// A line for each stack: frames from the outermost to the innermost, separated by `;`, and the ns that tasks
    /// waited. The lines add up to all waits. `roles` selects the stacks that a line contains.
    pub fn lines(&self, roles: &[Role], code: &dyn Symbolize, known: &NameCache) -> BTreeMap<String, u128> {
        let mut lines: BTreeMap<String, u128> = BTreeMap::new();
        for (key, ns) in &self.sums {
            *lines.entry(line(key, roles, code, known)).or_default() += ns;
        }
        if self.others_ns > 0 {
            lines.insert("(other)".to_owned(), self.others_ns);
        }
        lines
    }
}

/// A line without its time.
fn line(key: &FoldedKey, roles: &[Role], code: &dyn Symbolize, known: &NameCache) -> String {
    let mut frames = vec![frame(&key.comm.to_string())];
    let stacks = |task: &TaskStack| {
        let mut frames = outermost_first(&code.user(task.pid, task.user), "");
        frames.extend(outermost_first(&code.kernel(task.kernel), "_[k]"));
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
        frames.push(name.unwrap_or_else(|| format!("thread {}", own_tid(waker.tid))));
    }
    frames.join(";")
}

/// The frames of one stack, from the outermost to the innermost, each followed by `mark`.
fn outermost_first(frames: &StackFrames, mark: &str) -> Vec<String> {
    if let StackFrames::Missing(StackId::MapFull) = frames {
        return vec![format!("[no room]{mark}")];
    }
    frames.names().iter().rev().map(|name| format!("{}{mark}", frame(name))).collect()
}

/// A name as a frame: `;`, which separates frames, and control characters become `:`.
fn frame(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { ':' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::LatencyFrom,
        timeline::{Timeline, testing::EventStream, testing::task},
        why::testing::TestNames,
    };

    struct TestSymbolizer;

    impl Symbolize for TestSymbolizer {
        fn kernel(&self, trace: StackId) -> StackFrames {
            named(trace, &["__schedule", "pipe_read"])
        }

        fn user(&self, _: u32, trace: StackId) -> StackFrames {
            named(trace, &["read", "a;b"])
        }
    }

    fn named(trace: StackId, names: &[&str]) -> StackFrames {
        match trace {
            StackId::Id(_) => StackFrames::Named(names.iter().map(|name| (*name).to_owned()).collect()),
            missing => StackFrames::Missing(missing),
        }
    }

    fn stack(role: Role, number: u32, user: StackId) -> StackEvent {
        StackEvent { at_ns: 1, role, tid: 1, by_tid: 2, by_pid: 2, kernel: StackId::Id(number), user }
    }

    /// The lines of four waits: two with all stacks, one without a waker's stack, and one without any.
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
            if let Some(breakdown) = timeline.push(event) {
                folded.add(breakdown, &pairs.next().unwrap());
            }
        }
        let mut out = Vec::new();
        folded.write(roles, &TestSymbolizer, &known, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_has_the_sleep_and_then_the_waker_upside_down() {
        assert_eq!(
            written(&[Role::Waker, Role::Wakee]),
            "wl:x;[no stack] 500\n\
             wl:x;a:b;read;pipe_read_[k];__schedule_[k] 500\n\
             wl:x;a:b;read;pipe_read_[k];__schedule_[k];--;__schedule_[k];pipe_read_[k];[no room];waker 1000\n"
        );
    }

    #[test]
    fn a_line_has_only_the_requested_stacks() {
        assert_eq!(written(&[Role::Waker]), "wl:x 1000\nwl:x;--;__schedule_[k];pipe_read_[k];[no room];waker 1000\n");
        assert_eq!(written(&[Role::Wakee]), "wl:x;[no stack] 500\nwl:x;a:b;read;pipe_read_[k];__schedule_[k] 1500\n");
    }
}
