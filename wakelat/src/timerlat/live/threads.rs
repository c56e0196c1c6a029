//! The names of threads that a record tells only by their number.

use std::{collections::HashMap, fs};

use super::layout::comm;
use crate::{timerlat::record::TracedTask, wait::Comm};

/// Names seen so far.
#[derive(Debug, Default)]
pub struct ThreadNames(HashMap<u32, Comm>);

impl ThreadNames {
    /// A record says what a thread is called.
    pub fn learn(&mut self, tid: u32, comm: Comm) {
        if tid != 0 {
            self.0.insert(tid, comm);
        }
    }

    /// The thread `tid` on `cpu`. One that nobody has named is asked for its name, and has none where it is gone.
    pub fn task(&mut self, tid: u32, cpu: u32) -> TracedTask {
        if tid == 0 {
            // Every CPU has an idle task of its own (`init_idle`, kernel/sched/core.c).
            return TracedTask { tid, comm: comm(format!("swapper/{cpu}").as_bytes()) };
        }
        let ask = || comm(fs::read(format!("/proc/{tid}/comm")).unwrap_or_default().trim_ascii_end());
        TracedTask { tid, comm: *self.0.entry(tid).or_insert_with(ask) }
    }
}
