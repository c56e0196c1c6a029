//! `dump`: makes a flight recorder write a file.

use std::fs;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{config::DumpConfig, status::status};
use wakelat_kernel::Roots;

/// `dump`: makes a flight recorder write a file.
///
/// # Errors
/// If there is no such process, it is no flight recorder, or it belongs to another user.
pub fn dump(dump: DumpConfig) -> Result<()> {
    let pid = dump.pid;
    let path = Roots::default().proc.join(format!("{pid}/status"));
    let process = fs::read_to_string(path).with_context(|| format!("there is no process `{pid}`"))?;
    // Any other process would be ended by the signal.
    if !is_flight_recorder(&process) {
        bail!("process `{pid}` is not a flight recorder; expected the PID of `wakelat record --last`");
    }
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw).context("the PID is too large")?;
    kill_process(target, Signal::USR1).with_context(|| format!("cannot send SIGUSR1 to process `{pid}`"))?;
    status(requested(pid));
    Ok(())
}

/// What the user can expect of process `pid` after the request.
fn requested(pid: u32) -> String {
    format!("requested a file from process {pid}, which prints its name, or why it writes none")
}

/// Whether `status`, the contents of `/proc/PID/status`, is that of a wakelat that catches SIGUSR1.
fn is_flight_recorder(status: &str) -> bool {
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let caught = field("SigCgt").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    // Bit N - 1 is signal N (`render_sigset_t()`, fs/proc/array.c, 5.10).
    field("Name") == Some("wakelat") && caught >> (Signal::USR1.as_raw() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_not_said_to_write_a_file_in_any_case() {
        let said = requested(7);
        assert!(said.contains("process 7") && said.ends_with("or why it writes none"), "{said}");
    }

    #[test]
    fn only_a_wakelat_that_catches_the_signal_is_a_flight_recorder() {
        let of = |name, caught| is_flight_recorder(&format!("Name:\t{name}\nPid:\t7\nSigCgt:\t{caught}\n"));
        assert!(of("wakelat", "0000000000000200"));
        assert!(!of("wakelat", "0000000000004002"));
        assert!(!of("nginx", "0000000000000200"));
        assert!(!is_flight_recorder(""));
    }
}
