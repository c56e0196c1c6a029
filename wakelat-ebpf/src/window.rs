//! The measurement window: events count from the moment user space opens it until its end, which every program
//! checks once it has read the clock anyway.
//!
//! The first program to read a later time closes the window for all programs, so those that do not need
//! the clock test one word.

use core::{cell::UnsafeCell, ptr};

use wakelat_common::window::WindowWords;

/// A value that user space writes while the programs run. It has a section, and so a map, of its own:
/// reading it needs no helper call.
#[repr(transparent)]
struct Shared<T>(UnsafeCell<T>);

// SAFETY: its words are only accessed as a whole, by volatile reads and writes.
unsafe impl<T> Sync for Shared<T> {}

/// 1 while events count. User space sets it to open the window. Either user space or [`contains`] clears
/// it; user space may set it again.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.open")]
static OPEN: Shared<u32> = Shared(UnsafeCell::new(0));

/// Only user space writes it. The end is written before [`OPEN`], and only ever lowered afterwards.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.window")]
static WINDOW: Shared<WindowWords> = Shared(UnsafeCell::new(WindowWords::ENDLESS));

/// The end of the window: ns of CLOCK_MONOTONIC.
#[inline(always)]
pub fn end_at_ns() -> u64 {
    // SAFETY: an aligned word of a map value, which is always there.
    unsafe { ptr::read_volatile(&raw const (*WINDOW.0.get()).end_at_ns) }
}

/// The half of the histograms and groups to write to: 0 or 1.
#[inline(always)]
pub fn half() -> u32 {
    // SAFETY: an aligned word of a map value, which is always there.
    unsafe { ptr::read_volatile(&raw const (*WINDOW.0.get()).half) as u32 & 1 }
}

/// Under an overhead limit: the number of the current period of measuring, and when it began (ns of CLOCK_MONOTONIC).
#[inline(always)]
pub fn period() -> (u64, u64) {
    // SAFETY: aligned words of a map value, which is always there.
    unsafe {
        let words = WINDOW.0.get();
        (ptr::read_volatile(&raw const (*words).period), ptr::read_volatile(&raw const (*words).period_began_at_ns))
    }
}

/// Whether events count.
#[inline(always)]
pub fn is_open() -> bool {
    // SAFETY: a map value, which is always there.
    unsafe { OPEN.0.get().read_volatile() != 0 }
}

/// Whether an event at `now` (ns of CLOCK_MONOTONIC) is before the end of the window. If it is not, this
/// closes the window: no later event on any CPU counts, because the clock is the same on all of them.
#[inline(always)]
pub fn contains(now: u64) -> bool {
    if now < end_at_ns() {
        return true;
    }
    // SAFETY: a map value, which is always there.
    unsafe { OPEN.0.get().write_volatile(0) };
    false
}
