//! The course of a measurement: attach, drain as long as it lasts, detach, and the account at its end.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use anyhow::{Context as _, Result};
use wakelat_common::{Sample, start::PendingWait, timeline::WorkItemRecord};

use super::{Collector, StackMaps, attach};

/// Before each record of a ring buffer: bytes (`BPF_RINGBUF_HDR_SZ`, include/uapi/linux/bpf.h).
const RECORD_HEADER: usize = 8;

impl Collector {
    /// A descriptor that becomes readable where the programs ask for the reader.
    ///
    /// # Errors
    /// Where the process may open no more.
    pub fn ring_fd(&self) -> std::io::Result<OwnedFd> {
        // SAFETY: the ring buffer is ours and open for the length of this call.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }.try_clone_to_owned()
    }

    /// The stacks that are taken, once, where any are.
    pub fn take_stacks(&mut self) -> Option<StackMaps> {
        self.stacks.take()
    }

    /// Starts measuring.
    ///
    /// # Errors
    /// Where the kernel refuses one of the tracepoints.
    pub fn attach(&mut self) -> Result<()> {
        attach::attach(&mut self.ebpf, &mut self.programs)
    }

    /// Gives up to `limit` records that wait in the ring buffer to `take`, oldest first. Returns how many there were.
    ///
    /// # Errors
    /// What `take` returns.
    pub fn drain(&mut self, limit: usize, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        if let Some(messages) = &mut self.messages {
            messages.flush();
        }
        let mut records = 0;
        while records < limit {
            let Some(record) = self.ring.next() else { break };
            take(&record)?;
            records += 1;
        }
        Ok(records)
    }

    /// How many records the ring buffer holds at most.
    pub fn ring_capacity(&self) -> usize {
        let shortest = if self.cpu_states.is_some() { size_of::<WorkItemRecord>() } else { size_of::<Sample>() };
        self.ring_bytes as usize / (RECORD_HEADER + shortest)
    }

    /// Stops measuring: afterwards no program runs any more, and the counters stand still.
    ///
    /// # Errors
    /// Where a program cannot be detached.
    pub fn detach(&mut self) -> Result<()> {
        self.detach_and(|_| Ok(()))
    }

    /// As [`Self::detach`]. Calls `meanwhile` when no program is called any more, and those that run may not have come to their end.
    ///
    /// # Errors
    /// Those of [`Self::detach`], and of `meanwhile`.
    pub fn detach_and<T>(&mut self, meanwhile: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        attach::detach(&mut self.ebpf, &mut self.programs)?;
        let result = meanwhile(self)?;
        self.barrier.wait()?;
        Ok(result)
    }

    /// Forgets what is kept of every task and CPU once the programs are detached: by the time they are attached again, it will
    /// not hold any more. Returns the waits that were under way, of those asked for.
    ///
    /// # Errors
    /// Where the kernel refuses to read or write the maps.
    pub fn take_pending(&mut self) -> Result<Vec<PendingWait>> {
        for cpu in 0..self.running.len() {
            self.running.set(cpu, 0, 0).context("cannot forget what each CPU runs")?;
        }
        self.task_table.take_pending()
    }
}
