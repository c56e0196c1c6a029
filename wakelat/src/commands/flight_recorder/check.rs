//! A command whose failure is a trigger.

use std::process::{Child, Command, Stdio};

use crate::status::status;

/// A command that runs again and again, never twice at once.
pub struct RepeatedCheck {
    command: String,
    running: Option<Child>,
    /// It could not be started. The warning is printed once.
    is_broken: bool,
}

impl RepeatedCheck {
    /// Runs `command` with `sh -c`.
    pub fn new(command: &str) -> Self {
        Self { command: command.to_owned(), running: None, is_broken: false }
    }

    /// How the command has failed since the last call, if it has. Starts it again if it has ended. Does not wait.
    pub fn failure(&mut self) -> Option<String> {
        let ended = match self.running.as_mut().map(Child::try_wait) {
            Some(Ok(None)) => return None,
            Some(Ok(Some(status))) => (!status.success()).then(|| format!("`{}`: {status}", self.command)),
            Some(Err(_)) | None => None,
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.command]).stdin(Stdio::null()).stdout(Stdio::null());
        self.running = match shell.spawn() {
            Ok(child) => Some(child),
            Err(error) => {
                if !std::mem::replace(&mut self.is_broken, true) {
                    status(format_args!("warning: cannot run the command of `--check`: {error}"));
                }
                None
            }
        };
        ended
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

    /// The failures of the first two runs that end.
    fn failures(command: &str) -> [Option<String>; 2] {
        let mut check = RepeatedCheck::new(command);
        assert_eq!(check.failure(), None, "it has not run yet");
        [(); 2].map(|()| {
            let running = check.running.as_mut().expect("it runs");
            running.wait().expect("a child");
            check.failure()
        })
    }

    #[test]
    fn each_failure_is_reported_and_the_command_runs_again() {
        assert_eq!(failures("true"), [None, None]);
        assert_eq!(failures("exit 3"), [(); 2].map(|()| Some("`exit 3`: exit status: 3".to_owned())));
    }
}
