//! Why a run ends, and the signals that end it.

use std::{
    future::{pending, poll_fn},
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    task::Poll,
};

use anyhow::{Context as _, Result};
use signal_hook::low_level::{emulate_default_handler, register};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{clock::monotonic_ns, ignored_signal::is_ignored, terminal};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The requested time has passed.
    Done,
    /// Ctrl-C, a terminating signal, or a closed terminal.
    Signalled,
    /// The threshold was reached, and the run was configured to stop at it.
    Threshold,
    /// The reader of the output has gone.
    NoReader,
    /// The measured command has ended, with this exit code.
    CommandEnded(u8),
}

/// The signals that end a run, except those that were ignored when it started, as with `nohup` or in a
/// background job of a shell. The first signal ends the run with its result so far. The next one ends it at
/// once, as if it were not caught, whatever the run is blocked in.
pub struct Signals(Vec<Signal>);

/// Signals this close to the first count as one with it: ns. `timeout` (coreutils) sends to its child and
/// then to its process group; a terminal that closes sends to a shell, which forwards the signal.
const ONE_NS: u64 = 100_000_000;

const KINDS: [SignalKind; 3] = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];

/// The signals that end a run.
pub fn caught_kinds() -> impl Iterator<Item = SignalKind> {
    KINDS.into_iter().filter(|kind| !is_ignored(*kind))
}

impl Signals {
    /// Catches the signals from now on, except `request`, which is a request to the view ([`RequestSignal`]).
    ///
    /// # Errors
    /// If the kernel refuses to catch a signal.
    pub fn catch(request: Option<SignalKind>) -> Result<Self> {
        Self::caught(request).context("cannot catch signals")
    }

    fn caught(request: Option<SignalKind>) -> io::Result<Self> {
        let first_at_ns = Arc::new(AtomicU64::new(0));
        // The first call finds the vDSO, which takes more than a signal handler may do.
        _ = monotonic_ns();
        let caught: Vec<SignalKind> = caught_kinds().filter(|kind| Some(*kind) != request).collect();
        for kind in caught.iter().map(|kind| kind.as_raw_value()) {
            let first_at_ns = Arc::clone(&first_at_ns);
            // Handled in the signal handler, because the run may be blocked where it notices no signal: in a
            // write to a full pipe, or waiting for a command.
            let on_signal = move || {
                let now_ns = monotonic_ns();
                let first = first_at_ns.compare_exchange(0, now_ns, SeqCst, SeqCst);
                if first.is_err_and(|first_ns| now_ns.saturating_sub(first_ns) > ONE_NS) {
                    terminal::leave_at_once();
                    _ = emulate_default_handler(kind);
                }
            };
            // SAFETY: the handler uses atomics, clock_gettime(2), poll(2), write(2), tcsetattr(3) and what signal-hook
            // offers for handlers, which are all async-signal-safe.
            unsafe { register(kind, on_signal) }?;
        }
        Ok(Self(caught.into_iter().map(signal).collect::<io::Result<_>>()?))
    }

    /// Waits for the first of the signals.
    pub async fn first(&mut self) {
        poll_fn(|context| {
            let came = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if came { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// A signal as a request to the view.
pub struct RequestSignal(Option<Signal>);

impl RequestSignal {
    /// Catches `kind` from now on, if the view takes one.
    ///
    /// # Errors
    /// If the kernel refuses to catch it.
    pub fn catch(kind: Option<SignalKind>) -> Result<Self> {
        let caught = kind.map(signal).transpose();
        caught.map(Self).context("cannot catch signals")
    }

    /// Waits for the next request.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => _ = signal.recv().await,
            None => pending().await,
        }
    }
}
