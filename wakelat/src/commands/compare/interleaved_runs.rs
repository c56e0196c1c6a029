//! Records the runs of two commands alternately, each by a process of wakelat's own: measuring drops privileges that the
//! next run needs.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use wakelat_core::report::LatencyFrom;

use crate::{config::AbConfig, session::stop_reason, status::status};

/// The names of the arms in files and messages.
const ARMS: [&str; 2] = ["base", "new"];

/// How often a run is checked for its end and for a signal.
const POLL: Duration = Duration::from_millis(20);

/// Records all runs, and returns the files of base and new; after Ctrl-C, of the runs that are whole.
///
/// # Errors
/// If the directory cannot be used, or a command fails.
pub fn record(config: &AbConfig) -> Result<[Vec<PathBuf>; 2]> {
    let directory = &config.directory;
    fs::create_dir_all(directory).with_context(|| format!("cannot create the directory `{}`", directory.display()))?;
    let turns = turns(config.runs);
    let path = |(arm, number): (usize, usize)| directory.join(format!("{}-{number:02}.wakelat", ARMS[arm]));
    if let Some(existing) = turns.iter().map(|turn| path(*turn)).find(|path| path.exists()) {
        bail!("`{}` exists: remove it, or select another directory with `--output`", existing.display());
    }
    let is_stopped = Arc::new(AtomicBool::new(false));
    for kind in stop_reason::caught_kinds() {
        signal_hook::flag::register(kind.as_raw_value(), Arc::clone(&is_stopped)).context("cannot catch signals")?;
    }
    let begun = Instant::now();
    let mut files: [Vec<PathBuf>; 2] = Default::default();
    for (done, turn) in turns.iter().enumerate() {
        if !config.compare.output.quiet {
            status(progress(done, turns.len(), ARMS[turn.0], begun.elapsed()));
        }
        let path = path(*turn);
        if !run(config, turn.0, &path, &is_stopped)? {
            status(format_args!("stopped after {done} of {} runs", turns.len()));
            break;
        }
        files[turn.0].push(path);
    }
    Ok(files)
}

/// The turns of `runs` runs per arm, A B B A: the arm and the number of each run, from 1.
fn turns(runs: usize) -> Vec<(usize, usize)> {
    let pair = |number: usize| if number % 2 == 1 { [0, 1] } else { [1, 0] };
    (1..=runs).flat_map(|number| pair(number).map(|arm| (arm, number))).collect()
}

fn progress(done: usize, all: usize, arm: &str, elapsed: Duration) -> String {
    let left = elapsed.as_secs_f64() / done.max(1) as f64 * (all - done) as f64;
    let left = match done {
        0 => String::new(),
        _ if left < 1.0 => ", less than 1 s left".to_owned(),
        _ => format!(", about {left:.0} s left"),
    };
    format!("run {} of {all}: {arm}{left}", done + 1)
}

/// Makes one run: setup, the recorded command, cleanup. Returns whether it is a whole one.
fn run(config: &AbConfig, arm: usize, path: &Path, is_stopped: &AtomicBool) -> Result<bool> {
    let flag = ["--setup-a", "--setup-b"][arm];
    let set_up = config.setups[arm].as_deref().map_or(Ok(()), |setup| succeed(shell(setup), flag, setup));
    let ended = set_up.and_then(|()| wait(begin_recording(config, arm, path)?, is_stopped));
    // Also after a failure: the next run expects the machine as it was.
    let cleaned_up = config.cleanup.as_deref().map_or(Ok(()), clean_up);
    if is_stopped.load(Ordering::Relaxed) {
        // Its command was interrupted: such a run is not like the others.
        _ = fs::remove_file(path);
        if let Err(error) = cleaned_up {
            status(format_args!("warning: {error:#}"));
        }
        return Ok(false);
    }
    let failed = match ended {
        Ok(ended) if !ended.success() => {
            Some(anyhow!("a run of `{}` has failed ({ended}); its recording is not used", ARMS[arm]))
        }
        ended => ended.err(),
    };
    match (failed, cleaned_up) {
        (Some(failed), Err(error)) => {
            status(format_args!("warning: {error:#}"));
            Err(failed)
        }
        (Some(failed), Ok(())) => Err(failed),
        (None, cleaned_up) => cleaned_up.map(|()| true),
    }
}

/// Starts a process that records the command of this arm.
fn begin_recording(config: &AbConfig, arm: usize, path: &Path) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find the program of this process")?;
    let mut command = Command::new(program);
    command.args(["record", "--quiet", "--output"]).arg(path);
    // A recording has the events of tracepoints, or the waits by the run queue's clock.
    if config.compare.view.from == LatencyFrom::Queued {
        command.args(["--from", LatencyFrom::Queued.name()]);
    }
    command.arg("--").args(&config.commands[arm]);
    // Standard output has only the result of the comparison.
    command.stdout(std::io::stderr());
    command.spawn().context("cannot start a process that records")
}

/// Waits until a run ends; ends it if this process has to stop.
fn wait(mut child: Child, is_stopped: &AtomicBool) -> Result<ExitStatus> {
    let mut is_signalled = false;
    loop {
        if let Some(ended) = child.try_wait().context("cannot wait for a run")? {
            return Ok(ended);
        }
        if is_stopped.load(Ordering::Relaxed) && !is_signalled {
            // It may have ended meanwhile.
            _ = kill_process(Pid::from_child(&child), Signal::INT);
            is_signalled = true;
        }
        sleep(POLL);
    }
}

/// A shell command that prints to standard error.
fn shell(line: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).stdout(std::io::stderr());
    shell
}

/// Runs the shell command of `flag`.
fn succeed(mut shell: Command, flag: &str, line: &str) -> Result<()> {
    let ended = shell.status().context("cannot start `/bin/sh`")?;
    if !ended.success() {
        bail!("the command of `{flag}` has failed ({ended}): {line}");
    }
    Ok(())
}

/// Runs the command that restores the machine, to its end even if Ctrl-C is pressed meanwhile.
fn clean_up(line: &str) -> Result<()> {
    let mut shell = shell(line);
    shell.process_group(0);
    succeed(shell, "--cleanup", line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_alternate_so_that_a_drift_affects_both_arms_alike() {
        let order: String = turns(4).into_iter().map(|(arm, _)| ["A", "B"][arm]).collect();
        assert_eq!(order, "ABBAABBA");
        assert_eq!(turns(2), [(0, 1), (1, 1), (1, 2), (0, 2)]);
    }

    #[test]
    fn progress_says_how_much_is_left() {
        assert_eq!(progress(0, 12, "base", Duration::ZERO), "run 1 of 12: base");
        assert_eq!(progress(3, 12, "new", Duration::from_secs(30)), "run 4 of 12: new, about 90 s left");
        assert_eq!(progress(3, 4, "new", Duration::from_millis(900)), "run 4 of 4: new, less than 1 s left");
    }
}
