//! The threshold: the shortest wait that counts, and the action at the first one.

use super::{ConfigError, number, signal_names};
use wakelat_kernel::Machine;

/// The threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThresholdConfig {
    /// The shortest wait that counts: ns, at least 1. The BPF programs filter out shorter ones.
    pub threshold_ns: u64,
    /// The action when a wait reaches it.
    pub action: ThresholdAction,
}

/// What to do when a wait reaches the threshold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ThresholdAction {
    /// Go on measuring.
    #[default]
    Continue,
    /// End the window, show the result, exit with 3.
    Stop,
    /// Send a signal, once, and go on measuring.
    Signal {
        /// Its number.
        signal: i32,
        /// The process it goes to.
        pid: u32,
    },
    /// Run a command with `sh -c`, once, and go on measuring.
    Exec(String),
}

impl ThresholdAction {
    /// Parses `continue`, `stop`, `signal:NAME:PID` or `exec:COMMAND`.
    ///
    /// # Errors
    /// If the text is none of these, or its signal, process or command is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "continue" => Ok(Self::Continue),
            None if text == "stop" => Ok(Self::Stop),
            Some(("signal", rest)) => {
                let (name, pid) = rest
                    .split_once(':')
                    .ok_or_else(|| format!("`{text}` has no process; expected `signal:NAME:PID`"))?;
                Ok(Self::Signal { signal: signal_names::number(name)?, pid: number::id(pid)? })
            }
            Some(("exec", command)) if command.trim().is_empty() => {
                Err(format!("`{text}` has no command; expected `exec:COMMAND`"))
            }
            Some(("exec", command)) => Ok(Self::Exec(command.to_owned())),
            _ => Err(format!(
                "`{text}` is not an action; expected `continue`, `stop`, `signal:NAME:PID` or `exec:COMMAND`"
            )),
        }
    }

    /// Checks that the process to signal exists.
    pub(crate) fn check(&self, machine: &Machine) -> Result<(), ConfigError> {
        match self {
            Self::Signal { pid, .. } if machine.task(*pid).is_none() => {
                Err(ConfigError::unmet("--on-threshold", format!("there is no process `{pid}`")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_parsed() {
        assert_eq!(ThresholdAction::parse("continue"), Ok(ThresholdAction::Continue));
        assert_eq!(ThresholdAction::parse("stop"), Ok(ThresholdAction::Stop));
        assert_eq!(
            ThresholdAction::parse("signal:USR1:42"),
            Ok(ThresholdAction::Signal { signal: libc::SIGUSR1, pid: 42 })
        );
        assert_eq!(
            ThresholdAction::parse("signal:sigterm:42"),
            Ok(ThresholdAction::Signal { signal: libc::SIGTERM, pid: 42 })
        );
        assert_eq!(ThresholdAction::parse("exec:echo a:b"), Ok(ThresholdAction::Exec("echo a:b".to_owned())));
    }

    #[test]
    fn an_unknown_action_is_rejected_with_the_accepted_ones() {
        for (text, expected) in [
            ("", "expected `continue`, `stop`, `signal:NAME:PID` or `exec:COMMAND`"),
            ("halt", "is not an action"),
            ("stop:now", "is not an action"),
            ("signal:TERM", "has no process"),
            ("signal:NOPE:1", "`NOPE` is not a signal"),
            ("signal:TERM:0", "`0` is not accepted"),
            ("signal:TERM:-1", "`-1` is not accepted"),
            ("exec:", "has no command"),
        ] {
            let error = ThresholdAction::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
