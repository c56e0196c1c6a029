//! Ctrl-C as a flag: whoever waits looks at it, so that every guard on the way out puts back what it changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How often whoever waits looks.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Whether somebody wants this to end.
#[derive(Clone)]
pub struct InterruptFlag(Arc<AtomicBool>);

impl InterruptFlag {
    /// From here on, SIGINT, SIGTERM and SIGHUP set the flag and do nothing else.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn listen() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Self(flag))
    }

    /// # Errors
    /// If the flag is set.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.0.load(SeqCst), "interrupted; everything that was started has been ended");
        Ok(())
    }

    /// Looks for `what` until it is there. `None`: it was not within `limit`.
    ///
    /// # Errors
    /// If the flag is set meanwhile, or looking fails.
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
