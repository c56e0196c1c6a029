//! The functions on stacks as they were when they were recorded.

use super::Frame;
use crate::{
    hash::HashMap,
    timeline::{
        stack_event::StackId,
        stack_frames::{StackCounts, StackFrames, Symbolize},
    },
};

/// The most memory for functions: bytes. They have room for more than a hundred thousand stacks; the kernel keeps
/// [`wakelat_common::stack::MAX_STACKS`] of them at a time.
const MAX_BYTES: usize = 256 << 20;

/// The stacks in a recording, up to the frame read last.
#[derive(Clone, Debug, Default)]
pub struct RecordedStacks {
    kernel: HashMap<u32, StackFrames>,
    user: HashMap<(u32, u32), StackFrames>,
    /// The memory of all functions: bytes.
    bytes: usize,
    /// Functions had no room.
    is_full: bool,
    counts: StackCounts,
}

impl RecordedStacks {
    /// Stores what a frame says about stacks, if it does.
    pub fn learn(&mut self, frame: &Frame<'_>) {
        match frame {
            Frame::Stack { process, id, functions } => {
                let bytes = functions.bytes();
                if self.bytes + bytes > MAX_BYTES {
                    self.is_full = true;
                    return;
                }
                self.bytes += bytes;
                let functions = functions.clone().into_owned();
                let before = match process {
                    Some(pid) => self.user.insert((*pid, *id), functions),
                    None => self.kernel.insert(*id, functions),
                };
                self.bytes -= before.map_or(0, |functions| functions.bytes());
            }
            Frame::StackCounts(counts) => self.counts.add(counts),
            _ => {}
        }
    }

    /// What became of the stacks since the last call.
    pub fn counts(&mut self) -> StackCounts {
        std::mem::take(&mut self.counts)
    }

    /// What is known of a stack without functions.
    fn unknown(&self) -> StackFrames {
        StackFrames::Missing(if self.is_full { StackId::MapFull } else { StackId::Missing })
    }
}

impl Symbolize for RecordedStacks {
    fn kernel(&self, trace: StackId) -> StackFrames {
        let StackId::Id(id) = trace else { return StackFrames::Missing(trace) };
        self.kernel.get(&id).cloned().unwrap_or_else(|| self.unknown())
    }

    fn user(&self, pid: u32, trace: StackId) -> StackFrames {
        let StackId::Id(id) = trace else { return StackFrames::Missing(trace) };
        self.user.get(&(pid, id)).cloned().unwrap_or_else(|| self.unknown())
    }
}
