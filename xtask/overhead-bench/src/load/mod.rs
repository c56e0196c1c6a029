//! The benchmark's own loads. Each runs in a process of its own, which is another instance of this program.
//!
//! The process creates its tasks and prints [`READY`]. For each line that it reads, it runs the load once
//! and prints what that took. So the threads of a load exist before the clock starts, and the same ones
//! serve every round.

mod forks;
mod ring;

use std::io::{BufRead as _, Write as _};
use std::time::Instant;

use anyhow::Context as _;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::{Deserialize, Serialize};

pub use forks::ForkLoad;
pub use ring::TokenRing;

/// A load and its parameters, in the form in which its process gets them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Load {
    /// See [`ForkLoad`].
    Forks(ForkLoad),
    /// See [`TokenRing`].
    Ring(TokenRing),
}

/// The duration of one run of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadTimes {
    /// Elapsed time: seconds.
    pub elapsed_s: f64,
    /// CPU time of the load's own tasks, in user space and in the kernel: seconds.
    pub cpu_s: f64,
}

/// What the process prints when its tasks exist.
pub const READY: &str = "ready";

/// Runs the load in `description` once for each line of standard input, until its end.
///
/// # Errors
/// Fails if it is not a load, or the other end of standard output is closed.
pub fn perform(description: &str) -> anyhow::Result<()> {
    let load: Load = serde_json::from_str(description).with_context(|| format!("`{description}` is not a load"))?;
    let mut perform: Box<dyn FnMut() -> anyhow::Result<()>> = match load {
        Load::Forks(forks) => Box::new(move || forks.perform()),
        Load::Ring(ring) => {
            let staged = ring.stage()?;
            Box::new(move || {
                staged.perform();
                Ok(())
            })
        }
    };
    let mut output = std::io::stdout();
    writeln!(output, "{READY}")?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let (begin, cpu_s) = (Instant::now(), cpu_s()?);
        perform()?;
        let took = LoadTimes { elapsed_s: begin.elapsed().as_secs_f64(), cpu_s: self::cpu_s()? - cpu_s };
        writeln!(output, "{}", serde_json::to_string(&took)?)?;
    }
    Ok(())
}

/// CPU time of this process and of its children that have ended: seconds.
fn cpu_s() -> anyhow::Result<f64> {
    let mut micros = 0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who)?;
        micros += (usage.user_time() + usage.system_time()).num_microseconds();
    }
    Ok(micros as f64 / 1e6)
}
