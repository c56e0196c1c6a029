//! The names of threads, for records that have only a TID.

use std::{collections::HashMap, fs};

use wakelat_core::osnoise_tracers::record::{TracedTask, comm};
use wakelat_core::wait::Comm;

/// The names seen so far, by TID.
#[derive(Debug, Default)]
pub struct ThreadNames(HashMap<u32, Comm>);

impl ThreadNames {
    /// Remembers the name of a thread from a record.
    pub fn learn(&mut self, tid: u32, comm: Comm) {
        if tid != 0 {
            self.0.insert(tid, comm);
        }
    }

    /// The thread `tid` on `cpu`. A name that no record has given is read from procfs, and is empty if the
    /// thread has exited.
    pub fn task(&mut self, tid: u32, cpu: u32) -> TracedTask {
        if tid == 0 {
            // Every CPU has an idle task of its own (`init_idle`, kernel/sched/core.c).
            return TracedTask { tid, comm: comm(format!("swapper/{cpu}").as_bytes()) };
        }
        let read_name = || comm(fs::read(format!("/proc/{tid}/comm")).unwrap_or_default().trim_ascii_end());
        TracedTask { tid, comm: *self.0.entry(tid).or_insert_with(read_name) }
    }
}
