//! The measurement window: events count from the moment user space opens it until `END_AT_NS`, which
//! every program checks once it has read the clock anyway.
//!
//! The first program to read a later time closes the window for all programs, so those that do not need
//! the clock test one word.

use core::cell::UnsafeCell;

/// A word that user space writes while the programs run. It has a section, and so a map, of its own:
/// reading it needs no helper call.
#[repr(transparent)]
struct Word<T>(UnsafeCell<T>);

// SAFETY: the word is only accessed as a whole, by volatile reads and writes.
unsafe impl<T> Sync for Word<T> {}

impl<T: Copy> Word<T> {
    #[inline(always)]
    fn load(&self) -> T {
        // SAFETY: a value of a map, which is always there.
        unsafe { self.0.get().read_volatile() }
    }

    #[inline(always)]
    fn store(&self, value: T) {
        // SAFETY: a value of a map, which is always there.
        unsafe { self.0.get().write_volatile(value) };
    }
}

/// 1 while events count. User space sets it to open the window. Either user space or [`contains`] clears
/// it; user space may set it again.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.open")]
static OPEN: Word<u32> = Word(UnsafeCell::new(0));

/// The end of the window: ns of CLOCK_MONOTONIC. Written before [`OPEN`], and only ever lowered
/// afterwards.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.end")]
static END_AT_NS: Word<u64> = Word(UnsafeCell::new(u64::MAX));

/// The end of the window: ns of CLOCK_MONOTONIC.
#[inline(always)]
pub fn end_at_ns() -> u64 {
    END_AT_NS.load()
}

/// Whether events count.
#[inline(always)]
pub fn is_open() -> bool {
    OPEN.load() != 0
}

/// Whether an event at `now` (ns of CLOCK_MONOTONIC) is before the end of the window. If it is not, this
/// closes the window: no later event on any CPU counts, because the clock is the same on all of them.
#[inline(always)]
pub fn contains(now: u64) -> bool {
    if now < END_AT_NS.load() {
        return true;
    }
    OPEN.store(0);
    false
}
