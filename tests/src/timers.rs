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

/// User-space timers (`timerfd_create(2)`) on CLOCK_MONOTONIC. While they exist, the limit of file
/// descriptors is raised for them.
pub struct Timers {
    all: Vec<OwnedFd>,
    allowed: rlim_t,
}

impl Timers {
    /// Creates `count` timers, at least one.
    pub fn new(count: u64) -> Self {
        let allowed = allow_descriptors(count + 100);
        Self { all: (0..count.max(1)).map(|_| timer()).collect(), allowed }
    }

    /// Sets all timers to the same instant. If the caller's CPU is not idle, they expire on that CPU.
    pub fn expire_at(&self, at: Duration) {
        self.all.iter().for_each(|timer| set(timer, at));
    }

    /// Blocks until the last timer has expired: timers of the same instant expire in the order in which
    /// they were set.
    pub fn wait(&self) {
        let mut expirations = [0; 8];
        nix::unistd::read(self.all.last().expect("at least one"), &mut expirations).expect("the timer expires");
    }

    /// Whether the last timer has expired.
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
        // Restores the limit; if that fails, it stays higher than necessary.
        _ = setrlimit(Resource::RLIMIT_NOFILE, self.allowed, hard);
    }
}

/// Raises the limit of file descriptors of the calling process to `count`. Returns the previous limit.
pub fn allow_descriptors(count: u64) -> rlim_t {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a process has limits");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(count), hard.max(count)).expect("root may raise it");
    soft
}

fn timer() -> OwnedFd {
    // SAFETY: the call takes two numbers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
    assert!(fd >= 0, "a timer: {}", io::Error::last_os_error());
    // SAFETY: the descriptor was just created and has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn set(timer: &OwnedFd, at: Duration) {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let it_value = libc::timespec { tv_sec: at.as_secs() as i64, tv_nsec: at.subsec_nanos().into() };
    let value = libc::itimerspec { it_interval: never, it_value };
    // SAFETY: the structure is valid for the call and is only read; the other pointer may be null.
    let result =
        unsafe { libc::timerfd_settime(timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &value, std::ptr::null_mut()) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}
