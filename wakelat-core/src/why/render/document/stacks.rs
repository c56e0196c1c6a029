//! The JSON documents of the stacks of the longest waits, and of the counts of all stacks.

use serde::Serialize;

use crate::{
    files::own_tid,
    timeline::{
        stack_event::StackId,
        stack_frames::{NoSymbols, StackCounts, StackFrames},
    },
    why::{
        Summary,
        stacks::{SymbolizedStack, SymbolizedStacks},
    },
};

/// What became of the stacks that wakelat tried to capture.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StackCountsDocument {
    /// How often wakelat captured the stacks of a task.
    attempts: u64,
    /// How often it skipped them, because they would have taken more than 5 % of the CPU's time.
    over_budget: u64,
    /// Stacks for which the kernel's map had no room; kernel and user stacks count separately.
    no_room: u64,
    /// Kernel stacks that do not exist or could not be read.
    no_kernel: u64,
    /// User stacks that do not exist, as for kernel threads, or could not be read.
    no_user: u64,
    /// Stacks of tasks that had not run again by the time the stacks of 65,536 others were kept.
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StacksDocument<'a> {
    /// The task that woke or created this one; `null` if the task was preempted, if wakers were not requested, or
    /// if no stack was taken.
    waker: Option<StackDocument<'a>>,
    /// The task itself; `null` if it is new, if its stack was not requested, or if no stack was taken.
    wakee: Option<StackDocument<'a>>,
}

impl<'a> StacksDocument<'a> {
    /// The document of symbolized stacks.
    pub fn new(SymbolizedStacks { waker, wakee }: &'a SymbolizedStacks) -> Self {
        Self { waker: waker.as_ref().map(StackDocument::new), wakee: wakee.as_ref().map(StackDocument::new) }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StackDocument<'a> {
    /// Thread; 0 is idle.
    tid: u32,
    /// Name; `null` if unknown.
    comm: Option<String>,
    /// Kernel functions, innermost first; addresses if the kernel hides its symbols.
    kernel: &'a [String],
    /// `null` if the stack is complete; `no_room` if the stack map had no room, `none` if nothing could be read,
    /// `hidden` if the names are missing.
    kernel_missing: Option<MissingFrames>,
    /// Functions of its own code; `FILE+0xOFFSET` if the file has no symbols, addresses if the process had exited
    /// before wakelat read its mappings.
    user: &'a [String],
    /// `null` if the stack is complete; `no_room` if the stack map had no room, `none` if it has no user code or
    /// nothing could be read, `ended` if the process had exited, so that names may be missing.
    user_missing: Option<MissingFrames>,
}

impl<'a> StackDocument<'a> {
    fn new(stack: &'a SymbolizedStack) -> Self {
        Self {
            tid: own_tid(stack.tid),
            comm: stack.comm.map(|comm| comm.to_string()),
            kernel: stack.kernel.names(),
            kernel_missing: missing(&stack.kernel),
            user: stack.user.names(),
            user_missing: missing(&stack.user),
        }
    }
}

/// Why functions of a stack are missing.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum MissingFrames {
    /// The process had exited, so that names may be missing.
    Ended,
    /// The kernel hides its symbols.
    Hidden,
    /// The stack map had no room.
    NoRoom,
    /// There is no such stack, or nothing could be read.
    None,
}

/// Why a stack has no names, or `None` if it has.
fn missing(frames: &StackFrames) -> Option<MissingFrames> {
    match frames {
        StackFrames::Named(_) => None,
        StackFrames::Unsymbolized(_, NoSymbols::ProcessExited) => Some(MissingFrames::Ended),
        StackFrames::Unsymbolized(_, NoSymbols::Restricted) => Some(MissingFrames::Hidden),
        StackFrames::Missing(StackId::MapFull) => Some(MissingFrames::NoRoom),
        StackFrames::Missing(_) => Some(MissingFrames::None),
    }
}
