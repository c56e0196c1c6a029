//! The course of a measurement: attach, drain while it lasts, detach, and read the pending waits.

use std::{os::fd::OwnedFd, path::Path};

use anyhow::{Context as _, Result};
use wakelat_common::pending_wait::PendingWait;

use super::{Collector, DrainExtent, StackMaps, attach, followed_processes::FollowedProcesses, waiting_tasks};

impl Collector {
    /// A descriptor that becomes readable when the programs wake the reader.
    ///
    /// # Errors
    /// If the process cannot open another descriptor.
    pub fn ring_fd(&self) -> std::io::Result<OwnedFd> {
        self.rings.descriptor()
    }

    /// The recorded stacks, if there are any; `None` from the second call on.
    pub fn take_stacks(&mut self) -> Option<StackMaps> {
        self.stacks.take()
    }

    /// Attaches the programs.
    ///
    /// # Errors
    /// If the kernel refuses one of the tracepoints.
    pub fn attach(&mut self) -> Result<()> {
        attach::attach(&mut self.ebpf, &mut self.programs)
    }

    /// Adds the descendants of the filter's processes that exist already, if it follows them. Once the programs are
    /// attached, which add those to come.
    ///
    /// # Errors
    /// If the processes cannot be listed, or are too many.
    pub fn follow_descendants(&mut self, proc: &Path) -> Result<()> {
        self.followed_processes.as_mut().map_or(Ok(()), |tree| tree.add_existing(proc))
    }

    /// Number of descendants of the filter's processes that were not followed, because they were too many at a time.
    ///
    /// # Errors
    /// If the kernel refuses to read the map.
    pub fn unfollowed_descendants(&self) -> Result<u64> {
        self.followed_processes.as_ref().map_or(Ok(0), FollowedProcesses::unfollowed)
    }

    /// Passes the records of `extent` to `take` in the order of time. Returns how many there were.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn drain(&mut self, extent: DrainExtent, take: impl FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        if let Some(messages) = &mut self.messages {
            messages.flush();
        }
        let records = self.rings.drain(extent, take)?;
        if records == 0 && matches!(extent, DrainExtent::Rest { .. }) {
            self.log_late();
        }
        Ok(records)
    }

    /// Logs how many records were not in the order of time. Only the timeline depends on that order.
    fn log_late(&self) {
        let level = if self.cpu_states.is_some() { log::Level::Warn } else { log::Level::Info };
        if let late @ 1.. = self.rings.late() {
            log::log!(level, "{late} records came from the ring buffers after later ones");
        }
    }

    /// Waits, once the window is closed, until no program counts an earlier event: the counters do not change any more.
    /// The programs stay attached, and return at once.
    ///
    /// # Errors
    /// If the kernel refuses to wait for the programs.
    pub fn wait_for_programs(&self) -> Result<()> {
        self.running_programs.wait().map(drop)
    }

    /// Detaches the programs. Those that are running continue to their end.
    ///
    /// # Errors
    /// If a program cannot be detached.
    pub fn detach(&mut self) -> Result<()> {
        attach::detach(&mut self.ebpf, &mut self.programs)
    }

    /// Detaches the programs that measure. Those that follow descendants stay attached.
    ///
    /// # Errors
    /// If a program cannot be detached.
    pub fn detach_for_pause(&mut self) -> Result<()> {
        attach::detach_for_pause(&mut self.ebpf, &mut self.programs)
    }

    /// Detaches the programs. Afterwards none of them is running, and the counters do not change.
    ///
    /// # Errors
    /// If a program cannot be detached, or the kernel refuses to wait for it.
    pub fn detach_and_wait(&mut self) -> Result<()> {
        self.detach()?;
        self.running_programs.wait_for_grace_period().map(drop)
    }

    /// Stops the programs at `now_ns` (CLOCK_MONOTONIC), waits until none of them measures, and with `detach` detaches
    /// them for the pause.
    /// Calls `meanwhile` when none begins to measure any more.
    ///
    /// # Errors
    /// If the kernel refuses to stop or detach the programs or to wait for them, or `meanwhile` fails.
    pub fn pause_and<T>(&mut self, now_ns: u64, detach: bool, meanwhile: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.stop(now_ns)?;
        let result = meanwhile(self)?;
        self.running_programs.wait()?;
        if detach {
            self.detach_for_pause()?;
        }
        Ok(result)
    }

    /// Whether the programs keep the pending waits: the run queue's clock needs none.
    pub fn keeps_pending(&self) -> bool {
        self.queue_table.is_none()
    }

    /// The tasks that have waited on a run queue since before the end of the window, by a walk over all tasks. `None`
    /// if the kernel refuses it, or if the programs keep the pending waits ([`Self::take_pending`]). A task that
    /// has got a CPU since the end is missing, so call this soon.
    pub fn walk_waiting(&mut self) -> Option<Vec<PendingWait>> {
        if !self.walks_tasks {
            return None;
        }
        let waiting = waiting_tasks::read(&mut self.ebpf);
        waiting.inspect_err(|error| log::warn!("tasks that still wait at the end are not counted: {error:#}")).ok()
    }

    /// Clears the state of every CPU, and of every task that the run queue's clock does not need, once no program
    /// measures, because it will be out of date when they measure again. Returns the pending waits that are measured.
    ///
    /// # Errors
    /// If the kernel refuses to read or write the maps.
    pub fn take_pending(&mut self) -> Result<Vec<PendingWait>> {
        for cpu in 0..self.running.len() {
            self.running.set(cpu, 0, 0).context("cannot reset the running task of each CPU")?;
        }
        if let Some(queue_table) = &self.queue_table {
            queue_table.begin_pause();
        }
        self.task_table.take_pending()
    }
}
