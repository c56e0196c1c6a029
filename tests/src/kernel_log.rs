//! What the kernel logs while a test runs.

use std::{
    fs::File,
    io::{ErrorKind, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
};

/// Substrings of the lines with which the kernel reports that it is broken or stuck: a lockup of a CPU
/// (kernel/watchdog.c), a hung task (kernel/hung_task.c), a stall of RCU (kernel/rcu/tree_stall.h,
/// kernel/rcu/tree_exp.h), a bug.
const REPORTS: [&str; 6] =
    ["BUG: ", "Oops", "LOCKUP", "detected stall", "detected expedited stalls", "blocked for more than"];

/// The log from a given moment on.
pub struct KernelLog(File);

impl KernelLog {
    /// Opens the log, starting after its last record.
    pub fn from_now() -> Self {
        let log = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        let mut log = log.unwrap_or_else(|error| panic!("/dev/kmsg: {error}"));
        // After the last record (Documentation/ABI/testing/dev-kmsg).
        log.seek(SeekFrom::End(0)).expect("/dev/kmsg supports SEEK_END");
        Self(log)
    }

    /// What the kernel has reported since the log was opened or last read.
    pub fn reports(&mut self) -> Vec<String> {
        self.lines_with(&REPORTS)
    }

    /// The lines with one of `signs` since the log was opened or last read.
    pub fn lines_with(&mut self, signs: &[&str]) -> Vec<String> {
        let mut record = [0; 8192];
        let mut lines = Vec::new();
        loop {
            match self.0.read(&mut record) {
                Ok(length) => lines.extend(line_with(&String::from_utf8_lossy(&record[..length]), signs)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return lines,
                // Records were overwritten before they were read: the next read returns the oldest one left.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) => panic!("/dev/kmsg: {error}"),
            }
        }
    }
}

/// The text of a record, `PRIORITY,SEQUENCE,TIME,FLAGS;TEXT`, if it has one of `signs`.
fn line_with(record: &str, signs: &[&str]) -> Option<String> {
    let (_, text) = record.split_once(';')?;
    let text = text.lines().next()?;
    signs.iter().any(|sign| text.contains(sign)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lockups_stalls_and_hung_tasks_are_reports() {
        for text in [
            "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [a:12]",
            "INFO: task a:12 blocked for more than 120 seconds.",
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "BUG: scheduling while atomic: a/12/0x00000002",
        ] {
            let record = format!("3,912,40000000,-;{text}\n SUBSYSTEM=cpu\n");
            assert_eq!(line_with(&record, &REPORTS).as_deref(), Some(text));
        }
        assert_eq!(line_with("4,911,39000000,-;sched: RT throttling activated\n", &REPORTS), None);
    }
}
