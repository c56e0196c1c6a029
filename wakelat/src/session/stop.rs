//! Why a run ends, and the signals that end it.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use anyhow::{Context as _, Result};
use signal_hook::low_level::{emulate_default_handler, register};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{clock::monotonic_ns, keyboard};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// As long as asked for.
    Done,
    /// Ctrl-C, a signal to end, the terminal closed.
    Signalled,
    /// The threshold was reached, and that was to stop it.
    Threshold,
    /// Nobody reads the output any more.
    NoReader,
}

/// The signals that end a run: the first with its result so far, the next at once, as if it were not caught, whatever the
/// run is blocked in. Whoever asks twice means it.
pub struct Signals([Signal; 3]);

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
        for kind in KINDS.map(|kind| kind.as_raw_value()) {
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
        let [interrupt, terminate, hangup] = KINDS;
        Ok(Self([signal(interrupt)?, signal(terminate)?, signal(hangup)?]))
    }

    /// Waits for the first of them.
    pub async fn first(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
