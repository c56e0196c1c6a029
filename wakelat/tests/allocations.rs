//! Counts allocations: user space makes none for a sample of a known group.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use wakelat_common::{Sample, record_bytes, sample::KIND_SAMPLE};
use wakelat_core::{
    aggregate::{Groups, key::Key},
    decode::decode,
};

/// The system's allocator, with a counter of allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`, which is that of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `alloc` got the block from the system's allocator, and the caller passes its layout.
        unsafe { System.dealloc(block, layout) }
    }
}

/// A record of thread `pid` that waited `latency_ns`, as it is in the ring buffer.
fn sample(pid: u32, latency_ns: u64) -> Vec<u8> {
    record_bytes::bytes(&Sample { kind: KIND_SAMPLE, latency_ns, pid, ..Sample::default() }).to_vec()
}

// The only test of this binary: another one would allocate at the same time.
#[test]
fn a_sample_of_a_known_group_allocates_nothing() {
    for by in [vec![], vec![Key::Tid], vec![Key::Comm, Key::Cpu]] {
        let records: Vec<Vec<u8>> = (0..10_000u32).map(|n| sample(n % 100, 500 + u64::from(n) * 37)).collect();
        let mut groups = Groups::new(by.clone(), false, 1_000);
        let mut take = || records.iter().for_each(|record| groups.record(&decode(record).unwrap()));
        // The first pass allocates the groups and grows their histograms.
        take();
        let before = ALLOCATIONS.load(Relaxed);
        take();
        assert_eq!(ALLOCATIONS.load(Relaxed) - before, 0, "by {by:?}");
    }
}
