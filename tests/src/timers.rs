//! Thousands of timers that expire at the same instant.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::resource::{Resource, getrlimit, rlim_t, setrlimit},
};

/// Timers of user space (`timerfd_create(2)`), on CLOCK_MONOTONIC. As long as they exist, so many descriptors are allowed.
pub struct Timers {
    all: Vec<OwnedFd>,
    allowed: rlim_t,
}

impl Timers {
    /// `count` of them, at least one.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn new(count: u64) -> Self {
        let allowed = allow_descriptors(count + 100);
        Self { all: (0..count.max(1)).map(|_| timer()).collect(), allowed }
    }

    /// Sets all of them to the same instant. Whoever does so on a CPU that is not idle has them expire there.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn expire_at(&self, at: Duration) {
        self.all.iter().for_each(|timer| set(timer, at));
    }

    /// Blocks until the last of them has expired: those of one instant do so in the order in which they were set.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn wait(&self) {
        let mut expirations = [0; 8];
        nix::unistd::read(self.all.last().expect("at least one"), &mut expirations).expect("it expires");
    }

    /// Whether the last of them has expired.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn have_expired(&self) -> bool {
        let last = self.all.last().expect("at least one");
        let mut last = [PollFd::new(last.as_fd(), PollFlags::POLLIN)];
        poll(&mut last, PollTimeout::ZERO).expect("a timer can be polled") > 0
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.all.clear();
        let hard = getrlimit(Resource::RLIMIT_NOFILE).map_or(self.allowed, |(_, hard)| hard);
        // As it was; where that fails, more are allowed than are needed.
        _ = setrlimit(Resource::RLIMIT_NOFILE, self.allowed, hard);
    }
}

/// Allows the calling process `count` descriptors. Returns how many it was allowed.
///
/// # Panics
/// If the kernel refuses.
pub fn allow_descriptors(count: u64) -> rlim_t {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a process has limits");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(count), hard.max(count)).expect("root may raise it");
    soft
}

fn timer() -> OwnedFd {
    // SAFETY: takes two numbers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
    assert!(fd >= 0, "a timer: {}", io::Error::last_os_error());
    // SAFETY: the descriptor was just made and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn set(timer: &OwnedFd, at: Duration) {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let it_value = libc::timespec { tv_sec: at.as_secs() as i64, tv_nsec: at.subsec_nanos().into() };
    let value = libc::itimerspec { it_interval: never, it_value };
    // SAFETY: the structure is valid for the call and is only read; the other may be missing.
    let result =
        unsafe { libc::timerfd_settime(timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &value, std::ptr::null_mut()) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}
