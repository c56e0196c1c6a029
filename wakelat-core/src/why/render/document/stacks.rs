//! The JSON documents of the stacks of the longest waits, and of the counts of all stacks.

use serde::Serialize;

use crate::{
    timeline::stack_event::StackId,
    why::{
        Summary,
        stacks::{Frames, NoSymbols, StackCounts, SymbolizedStack, SymbolizedStacks},
    },
};

/// What became of the stacks that wakelat tried to capture.
#[derive(Serialize)]
pub struct StackCountsDocument {
    attempts: u64,
    over_budget: u64,
    no_room: u64,
    no_kernel: u64,
    no_user: u64,
    given_up: u64,
}

impl StackCountsDocument {
    /// The counts of a summary, or `None` if no stacks were requested.
    pub fn of(summary: &Summary) -> Option<Self> {
        let StackCounts { attempts, over_budget, no_room, no_kernel, no_user, given_up } =
            summary.stacks.as_ref()?.counts;
        Some(Self { attempts, over_budget, no_room, no_kernel, no_user, given_up })
    }
}

/// The stacks of a wait.
#[derive(Serialize)]
pub struct StacksDocument<'a> {
    waker: Option<StackDocument<'a>>,
    wakee: Option<StackDocument<'a>>,
}

impl<'a> StacksDocument<'a> {
    /// The document of symbolized stacks.
    pub fn new(SymbolizedStacks { waker, wakee }: &'a SymbolizedStacks) -> Self {
        Self { waker: waker.as_ref().map(StackDocument::new), wakee: wakee.as_ref().map(StackDocument::new) }
    }
}

#[derive(Serialize)]
struct StackDocument<'a> {
    tid: u32,
    comm: Option<String>,
    kernel: &'a [String],
    kernel_missing: Option<&'static str>,
    user: &'a [String],
    user_missing: Option<&'static str>,
}

impl<'a> StackDocument<'a> {
    fn new(stack: &'a SymbolizedStack) -> Self {
        Self {
            tid: stack.tid,
            comm: stack.comm.map(|comm| comm.to_string()),
            kernel: stack.kernel.names(),
            kernel_missing: missing(&stack.kernel),
            user: stack.user.names(),
            user_missing: missing(&stack.user),
        }
    }
}

/// Why a stack has no names, or `None` if it has.
fn missing(frames: &Frames) -> Option<&'static str> {
    match frames {
        Frames::Named(_) => None,
        Frames::Unsymbolized(_, NoSymbols::ProcessExited) => Some("ended"),
        Frames::Unsymbolized(_, NoSymbols::Restricted) => Some("hidden"),
        Frames::Missing(StackId::MapFull) => Some("no_room"),
        Frames::Missing(_) => Some("none"),
    }
}
