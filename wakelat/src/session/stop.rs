//! Why a run ends, and the signals that end it.

use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    task::Poll,
};

use anyhow::{Context as _, Result};
use signal_hook::low_level::{emulate_default_handler, register};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{clock::monotonic_ns, keyboard};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// As long as asked for.
    Done,
    /// Ctrl-C, a signal to end, the terminal closed.
    Signalled,
    /// The threshold was reached, and that was to stop it.
    Threshold,
    /// Nobody reads the output any more.
    NoReader,
}

/// The signals that end a run, but for those that were ignored when it started, as `nohup` and a shell that puts it into the
/// background do: the first with its result so far, the next at once, as if it were not caught, whatever the
/// run is blocked in. Whoever asks twice means it.
pub struct Signals(Vec<Signal>);

/// Signals this close to the first are one with it: ns. `timeout` (coreutils) sends to its child and then to its group, and
/// a terminal that closes to a shell, which passes it on.
const ONE_NS: u64 = 100_000_000;

const KINDS: [SignalKind; 3] = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn catch() -> Result<Self> {
        Self::caught().context("cannot catch signals")
    }

    fn caught() -> io::Result<Self> {
        let first_at_ns = Arc::new(AtomicU64::new(0));
        let caught: Vec<SignalKind> = KINDS.into_iter().filter(|kind| !is_ignored(*kind)).collect();
        for kind in caught.iter().map(|kind| kind.as_raw_value()) {
            let first_at_ns = Arc::clone(&first_at_ns);
            // Where the signal arrives, as the run may be where it hears of none: writing to a pipe that nobody empties, or
            // waiting for a command.
            let again = move || {
                let now_ns = monotonic_ns();
                let first = first_at_ns.compare_exchange(0, now_ns, SeqCst, SeqCst);
                if first.is_err_and(|first_ns| now_ns.saturating_sub(first_ns) > ONE_NS) {
                    keyboard::restore();
                    _ = emulate_default_handler(kind);
                }
            };
            // SAFETY: an atomic, clock_gettime(2), tcsetattr(3) and what that library offers for handlers: all async-signal-safe.
            unsafe { register(kind, again) }?;
        }
        Ok(Self(caught.into_iter().map(signal).collect::<io::Result<_>>()?))
    }

    /// Waits for the first of them.
    pub async fn first(&mut self) {
        poll_fn(|context| {
            let came = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if came { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Whether whatever started this process, or this process itself, ignores the signal.
fn is_ignored(kind: SignalKind) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, and the present one is written to an action of ours.
    let known = unsafe { libc::sigaction(kind.as_raw_value(), ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: zeros are an action, too.
    known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_ignored_where_it_was_before_the_start() {
        // No other test uses this signal, and its default does nothing either.
        let kind = SignalKind::window_change();
        assert!(!is_ignored(kind));
        // SAFETY: takes two numbers.
        unsafe { libc::signal(kind.as_raw_value(), libc::SIG_IGN) };
        assert!(is_ignored(kind));
    }
}
