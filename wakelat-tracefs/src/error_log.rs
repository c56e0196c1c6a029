//! The file `error_log`, in which the kernel records why it rejected a trigger or a synthetic event (5.2;
//! Documentation/trace/ftrace.rst).

use std::fmt;

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLogEntry {
    /// Where the command was rejected, such as `hist:sched:sched_switch` or `synthetic_events`.
    pub location: String,
    /// The kernel's reason.
    pub reason: String,
    /// The rejected command.
    pub command: String,
    /// The faulty character of the command, counted from 0.
    pub position: usize,
}

impl fmt::Display for ErrorLogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = &self.reason;
        let rest: String = self.command.chars().skip(self.position).collect();
        match (self.position, rest.is_empty()) {
            (0, _) | (_, true) => write!(f, "{reason}: `{}`", self.command),
            _ => write!(f, "{reason} at character {}, `{rest}`, of `{}`", self.position + 1, self.command),
        }
    }
}

/// Parses the entries, oldest first. Skips lines of any other form.
pub fn parse(log: &str) -> Vec<ErrorLogEntry> {
    let lines: Vec<&str> = log.lines().collect();
    lines
        .windows(3)
        .filter_map(|window| {
            // [    5.637068] hist:sched:sched_switch: error: Variable already defined
            let (_, head) = window[0].strip_prefix('[')?.split_once("] ")?;
            let (location, reason) = head.split_once(": error: ")?;
            const BEFORE: &str = "  Command: ";
            let command = window[1].strip_prefix(BEFORE)?;
            let column = window[2].find('^').filter(|at| window[2][..*at].trim().is_empty())?;
            Some(ErrorLogEntry {
                location: location.to_owned(),
                reason: reason.to_owned(),
                command: command.to_owned(),
                position: column.saturating_sub(BEFORE.len()),
            })
        })
        .collect()
}

/// The last entry about `command`. The kernel may have truncated the command at its end or at its beginning.
pub fn last(log: &str, command: &str) -> Option<ErrorLogEntry> {
    parse(log).into_iter().rfind(|entry| {
        let logged = entry.command.trim();
        !logged.is_empty() && command.contains(logged)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = include_str!("../tests/fixtures/hist/6.1.error_log");
    const LOG_2: &str = include_str!("../tests/fixtures/hist/6.1-2.error_log");

    #[test]
    fn the_reason_has_its_position_in_the_command() {
        let command = "hist:keys=pid.execname,target_cpu:vals=hitcount,prio.hex";
        let reason = last(LOG, command).unwrap();
        assert_eq!(reason.location, "hist:sched:sched_wakeup");
        assert_eq!(&command[reason.position..reason.position + 8], "execname");
        assert!(last(LOG, "hist:keys=never").is_none());
    }

    #[test]
    fn every_entry_of_a_real_log_is_parsed() {
        for log in [LOG, LOG_2] {
            assert_eq!(parse(log).len(), log.matches(": error: ").count());
        }
    }

    #[test]
    fn other_text_has_no_entries() {
        assert_eq!(parse("garbage\n  Command: x\n ^\n"), []);
        assert_eq!(parse(""), []);
    }
}
