//! The ring buffers with all records: one for each CPU, or one for a few neighbouring CPUs on large
//! machines.
//!
//! `bpf_ringbuf_reserve()` takes a spinlock of the ring buffer (kernel/bpf/ringbuf.c). A CPU that has a ring
//! buffer of its own finds that lock and its cache line free. User space merges the ring buffers by time.

use aya_ebpf::{
    Global,
    bindings::{BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    btf_maps::{ArrayOfMaps, RingBuf},
    helpers::generated::bpf_ringbuf_query,
    macros::btf_map,
    maps::ring_buf::RingBufEntry,
};

/// A ring buffer. The value type is `()`: with any other, the map would carry a value size, which libbpf
/// refuses for a ring buffer. The size is that of the map that the loader creates as a template: a multiple
/// of every page size. Since 5.10, the ring buffers in the array may have another one
/// (`bpf_map_meta_equal()`, kernel/bpf/map_in_map.c).
type Ring = RingBuf<(), 65536>;

/// Key: the number of a CPU, shifted right by [`RING_SHIFT`]. Value: the ring buffer of that CPU. Filled by
/// user space before the programs are attached. While a ring buffer is full, samples count as
/// `ring_buffer_full`.
#[btf_map]
static RINGS: ArrayOfMaps<Ring, 1> = ArrayOfMaps::new();

/// 2 to this power CPUs with consecutive numbers share a ring buffer.
#[unsafe(no_mangle)]
static RING_SHIFT: Global<u32> = Global::new(31);

/// The programs wake the reader once a ring buffer holds this many bytes; below that, the reader polls.
#[unsafe(no_mangle)]
static RING_WATERMARK: Global<u64> = Global::new(u64::MAX);

/// Reserves room for a record in the ring buffer of `cpu`, which is this CPU; `None` if it is full.
#[inline(always)]
pub fn reserve<R: 'static>(cpu: u32) -> Option<RingBufEntry<R>> {
    ring(cpu)?.reserve_untyped::<R>(0)
}

/// Submits a complete record of `cpu`. If `check_ring` is set, checks the fill level of the ring buffer and
/// wakes the reader if it has reached the watermark.
#[inline(always)]
pub fn submit<R: 'static>(slot: RingBufEntry<R>, cpu: u32, check_ring: bool) {
    let wakes = check_ring && is_at_watermark(cpu);
    slot.submit(if wakes { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP }.into());
}

/// Whether the ring buffer of `cpu` holds at least [`RING_WATERMARK`] bytes.
#[inline(always)]
fn is_at_watermark(cpu: u32) -> bool {
    const BPF_RB_AVAIL_DATA: u64 = 0;
    let Some(ring) = ring(cpu) else { return false };
    // SAFETY: the map is a ring buffer.
    let waiting = unsafe { bpf_ringbuf_query(core::ptr::from_ref(ring).cast_mut().cast(), BPF_RB_AVAIL_DATA) };
    waiting >= RING_WATERMARK.load()
}

/// Wakes the reader, without a record.
#[inline(always)]
pub fn wake_reader(cpu: u32) {
    if let Some(nothing) = reserve::<u64>(cpu) {
        nothing.discard(BPF_RB_FORCE_WAKEUP.into());
    }
}

#[inline(always)]
fn ring(cpu: u32) -> Option<&'static Ring> {
    RINGS.get(cpu >> RING_SHIFT.load())
}
