//! What user space does with a sample, as a count: it allocates nothing.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use wakelat::{
    aggregate::{Groups, key::Key},
    decode::decode,
};
use wakelat_common::{Sample, sample::KIND_SAMPLE};

/// The system's allocator, which counts.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps what `alloc` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block is the system allocator's.
        unsafe { System.dealloc(block, layout) }
    }
}

/// A record of thread `pid` that waited `latency_ns`, as it lies in the ring buffer.
fn record(pid: u32, latency_ns: u64) -> Vec<u8> {
    let mut record = vec![0; size_of::<Sample>()];
    let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
    put(std::mem::offset_of!(Sample, kind), &[KIND_SAMPLE]);
    put(std::mem::offset_of!(Sample, latency_ns), &latency_ns.to_ne_bytes());
    put(std::mem::offset_of!(Sample, pid), &pid.to_ne_bytes());
    record
}

// The only test of this binary: another one would allocate beside it.
#[test]
fn a_sample_of_a_known_group_allocates_nothing() {
    for by in [vec![], vec![Key::Tid], vec![Key::Comm, Key::Cpu]] {
        let records: Vec<Vec<u8>> = (0..10_000u32).map(|n| record(n % 100, 500 + u64::from(n) * 37)).collect();
        let mut groups = Groups::new(by.clone(), false, 1_000);
        let mut take = || records.iter().for_each(|record| groups.record(&decode(record).unwrap()));
        // Groups and their histograms come to their sizes.
        take();
        let before = ALLOCATIONS.load(Relaxed);
        take();
        assert_eq!(ALLOCATIONS.load(Relaxed) - before, 0, "by {by:?}");
    }
}
