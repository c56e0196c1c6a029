//! Why a run ends, and the signals that end it.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

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

/// The signals that end a run with its result so far.
pub struct Signals([Signal; 3]);

const KINDS: [SignalKind; 3] = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn catch() -> Result<Self> {
        let [interrupt, terminate, hangup] = KINDS;
        let catch = |kind| signal(kind).context("cannot catch signals");
        Ok(Self([catch(interrupt)?, catch(terminate)?, catch(hangup)?]))
    }

    /// Waits for the first of them. From then on they end the process at once: whoever asks twice means it.
    pub async fn first(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        for kind in KINDS {
            // SAFETY: the default disposition needs no handler to stay alive.
            unsafe { libc::signal(kind.as_raw_value(), libc::SIG_DFL) };
        }
    }
}
