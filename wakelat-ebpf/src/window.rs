//! The window: user space opens it, and it ends at an instant that every program checks where it has read the clock anyway.
//!
//! The first program that finds the instant passed closes the window for all of them: those that need no clock test one word.

use core::cell::UnsafeCell;

/// A word that user space writes while the programs run. Its section is a map by itself, so that it is read without a call.
#[repr(transparent)]
struct Word<T>(UnsafeCell<T>);

// SAFETY: the word is only read and written whole, by volatile accesses.
unsafe impl<T> Sync for Word<T> {}

impl<T: Copy> Word<T> {
    #[inline(always)]
    fn load(&self) -> T {
        // SAFETY: a value of a map, which is always there.
        unsafe { self.0.get().read_volatile() }
    }

    #[inline(always)]
    fn store(&self, value: T) {
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(value) };
    }
}

/// 1 while events count. Nothing counts before user space has set it, nor after it was cleared: by user space, which
/// may set it again, or by [`contains`].
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.open")]
static OPEN: Word<u32> = Word(UnsafeCell::new(0));

/// The end of the window: ns of CLOCK_MONOTONIC. Written before [`OPEN`], and only lowered afterwards.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.end")]
static END_AT_NS: Word<u64> = Word(UnsafeCell::new(u64::MAX));

/// Whether events count.
#[inline(always)]
pub fn is_open() -> bool {
    OPEN.load() != 0
}

/// Whether an event at `now` (ns of CLOCK_MONOTONIC) counts. Where it does not, no later one does on any CPU: the clock
/// is the same on all of them.
#[inline(always)]
pub fn contains(now: u64) -> bool {
    if now < END_AT_NS.load() {
        return true;
    }
    OPEN.store(0);
    false
}
