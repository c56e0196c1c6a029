//! Thousands of timers that expire at the same instant.

use std::{os::fd::AsFd as _, time::Duration};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        resource::{Resource, getrlimit, rlim_t, setrlimit},
        timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    },
};

/// User-space timers (`timerfd_create(2)`) on CLOCK_MONOTONIC. While they exist, the limit of file
/// descriptors is raised for them.
pub struct Timers {
    all: Vec<TimerFd>,
    allowed: rlim_t,
}

impl Timers {
    /// Creates `count` timers, at least one.
    pub fn new(count: u64) -> Self {
        let allowed = allow_descriptors(count + 100);
        let timer = |_| TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC).expect("a timer");
        Self { all: (0..count.max(1)).map(timer).collect(), allowed }
    }

    /// Sets all timers to the same instant. If the caller's CPU is not idle, they expire on that CPU.
    pub fn expire_at(&self, at: Duration) {
        let expiration = Expiration::OneShot(at.into());
        for timer in &self.all {
            timer.set(expiration, TimerSetTimeFlags::TFD_TIMER_ABSTIME).expect("the instant is valid");
        }
    }

    /// Blocks until the last timer has expired: timers of the same instant expire in the order in which
    /// they were set.
    pub fn wait(&self) {
        self.all.last().expect("at least one").wait().expect("the timer expires");
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
