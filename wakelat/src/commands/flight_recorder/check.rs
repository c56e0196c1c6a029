//! A command whose failure is a trigger.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::status::status;

/// The command starts once in this time.
const PERIOD: Duration = Duration::from_secs(1);

/// A command that runs again and again, never twice at once.
pub struct RepeatedCheck {
    command: String,
    running: Option<Child>,
    /// When it was started last.
    started: Option<Instant>,
    /// It could not be started. The warning is printed once.
    is_broken: bool,
}

impl RepeatedCheck {
    /// Runs `command` with `sh -c`.
    pub fn new(command: &str) -> Self {
        Self { command: command.to_owned(), running: None, started: None, is_broken: false }
    }

    /// How the command has failed since the last call, if it has. Starts it again if it has ended and is due `now`. Does
    /// not wait.
    pub fn failure(&mut self, now: Instant) -> Option<String> {
        let ended = match self.running.as_mut().map(Child::try_wait) {
            Some(Ok(None)) => return None,
            Some(Ok(Some(status))) => (!status.success()).then(|| format!("`{}`: {status}", self.command)),
            Some(Err(_)) | None => None,
        };
        self.running = None;
        if self.started.is_none_or(|started| now.saturating_duration_since(started) >= PERIOD) {
            self.started = Some(now);
            self.start();
        }
        ended
    }

    fn start(&mut self) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.command]).stdin(Stdio::null()).stdout(Stdio::null());
        match shell.spawn() {
            Ok(child) => self.running = Some(child),
            Err(error) => {
                if !std::mem::replace(&mut self.is_broken, true) {
                    status(format_args!("warning: cannot run the command of `--check`: {error}"));
                }
            }
        }
    }
}

impl Drop for RepeatedCheck {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            // It may have ended by itself.
            _ = running.kill();
            _ = running.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_reported_and_the_command_starts_once_a_second() {
        for (command, expected) in [("true", None), ("exit 3", Some("`exit 3`: exit status: 3".to_owned()))] {
            let mut check = RepeatedCheck::new(command);
            let mut now = Instant::now();
            assert_eq!(check.failure(now), None, "it has not run yet");
            for _ in 0..2 {
                check.running.as_mut().expect("it runs").wait().expect("a child");
                now += PERIOD / 2;
                assert_eq!(check.failure(now), expected);
                assert!(check.running.is_none(), "not yet due");
                now += PERIOD / 2;
                assert_eq!(check.failure(now), None);
            }
        }
    }
}
