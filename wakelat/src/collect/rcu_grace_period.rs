//! Waits until every BPF program that is running now has ended.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result};
use aya_obj::generated::bpf_map_type;

use super::bpf_syscall::{create_map, put_inner_map};

/// An array of maps with one element. Updating the element ends in `synchronize_rcu()`, so that user space
/// knows that no program uses the former map (`maybe_wait_bpf_programs()`, kernel/bpf/syscall.c, from 5.0 on;
/// since 6.8 only if the update succeeds). The kernel runs programs on tracepoints as readers of RCU
/// (`__bpf_trace_run()` and `trace_call_bpf()`, kernel/trace/bpf_trace.c), also with PREEMPT_RT.
///
/// `membarrier(2)` would do the same without a map, but not on a kernel with `nohz_full` CPUs
/// (kernel/sched/membarrier.c).
pub struct Barrier {
    outer: OwnedFd,
    inner: OwnedFd,
}

impl Barrier {
    /// Creates the maps.
    ///
    /// # Errors
    /// If the kernel refuses a map, for example without the privilege to create one.
    pub fn new() -> Result<Self> {
        let create = || {
            let inner = create_map(bpf_map_type::BPF_MAP_TYPE_ARRAY, 4, |_| {})?;
            let outer = create_map(bpf_map_type::BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, |attr| {
                attr.inner_map_fd = inner.as_raw_fd() as u32;
            })?;
            Ok::<_, io::Error>(Self { outer, inner })
        };
        create().context("cannot create the map to wait for programs with")
    }

    /// Waits for the programs that are running now.
    ///
    /// # Errors
    /// If the kernel refuses to update the map.
    pub fn wait(&self) -> Result<()> {
        put_inner_map(self.outer.as_fd(), 0, self.inner.as_fd()).context("cannot wait for the BPF programs to end")
    }
}
