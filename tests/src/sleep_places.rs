//! A task that sleeps at thousands of places of its code: each of its sleeps has a user stack of its own, whatever the
//! compiler did with frame pointers.

use std::{
    ffi::{c_long, c_void},
    num::NonZeroUsize,
    ops::Range,
    ptr, thread,
    time::Duration,
};

use nix::sys::{
    mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect},
    time::TimeSpec,
};

use crate::skip::Skip;

/// How long each sleep is at least. A task that sleeps this long does not use up the time for its stacks.
const SLEEP: Duration = Duration::from_micros(300);

/// A function that calls `nanosleep(2)` with its arguments.
#[cfg(target_arch = "x86_64")]
const CODE: &[u8] = &[
    0xb8, 0x23, 0x00, 0x00, 0x00, // mov eax, 35
    0x0f, 0x05, // syscall
    0xc3, // ret
];

/// A function that calls `nanosleep(2)` with its arguments.
#[cfg(target_arch = "aarch64")]
const CODE: &[u8] = &[
    0xa8, 0x0c, 0x80, 0xd2, // mov x8, #101
    0x01, 0x00, 0x00, 0xd4, // svc #0
    0xc0, 0x03, 0x5f, 0xd6, // ret
];

/// Not written for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CODE: &[u8] = &[];

type Sleep = extern "C" fn(*const libc::timespec, *mut libc::timespec) -> c_long;

/// Copies of a function that sleeps. They stay mapped until the process ends.
pub struct SleepPlaces {
    /// The address of the first one.
    begin: usize,
    count: usize,
}

impl SleepPlaces {
    /// Makes `count` copies. Skips the test on an architecture without code for it.
    pub fn new(count: usize) -> Result<Self, Skip> {
        let code = CODE.repeat(count);
        let Some(bytes) = NonZeroUsize::new(code.len()) else {
            return Err(Skip::because("there is no code that sleeps for this architecture"));
        };
        let writable = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let executable = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let begin = unsafe { mmap_anonymous(None, bytes, writable, MapFlags::MAP_PRIVATE) }.expect("memory for code");
        // SAFETY: the mapping is new, writable and as long as the code.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), begin.as_ptr().cast::<u8>(), code.len()) };
        // SAFETY: nothing has a reference into the mapping.
        unsafe { mprotect(begin, code.len(), executable) }.expect("code can be made executable");
        Ok(Self { begin: begin.as_ptr().expose_provenance(), count })
    }

    /// Sleeps once at each of these places, in a thread of this name.
    pub fn sleep_at(&self, places: Range<usize>, name: &str) {
        assert!(places.end <= self.count, "there are {} places", self.count);
        let begin = self.begin;
        let sleep_at_each = move || {
            let time = TimeSpec::from(SLEEP);
            let time: &libc::timespec = time.as_ref();
            for place in places {
                let code = ptr::with_exposed_provenance::<c_void>(begin + place * CODE.len());
                // SAFETY: a function of this type begins here, and the code is never unmapped or changed.
                let sleep = unsafe { std::mem::transmute::<*const c_void, Sleep>(code) };
                sleep(time, ptr::null_mut());
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(sleep_at_each).expect("a thread");
        thread.join().expect("the thread only sleeps");
    }
}
