//! Ctrl-C as a flag. Every wait polls it and fails once it is set, so that every guard on the way out
//! restores what it changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How often a wait polls the flag.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Whether a signal has asked this program to end.
#[derive(Clone)]
pub struct InterruptFlag(Arc<AtomicBool>);

impl InterruptFlag {
    /// From here on, SIGINT, SIGTERM and SIGHUP set the flag and do nothing else.
    pub fn listen() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Self(flag))
    }

    /// Returns an error if the flag is set.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.0.load(SeqCst), "interrupted; everything that was started has been ended");
        Ok(())
    }

    /// Polls `what` until it returns something; `None` if it does not within `limit`.
    ///
    /// # Errors
    /// Fails if the flag is set meanwhile, or `what` fails.
    pub fn wait<T>(
        &self,
        limit: Duration,
        mut what: impl FnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<Option<T>> {
        let begin = Instant::now();
        loop {
            self.check()?;
            if let Some(found) = what()? {
                return Ok(Some(found));
            }
            if begin.elapsed() > limit {
                return Ok(None);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}
