//! One wait, in user words: what every source produces and everything above it works on.

use serde::{Deserialize, Serialize};
use wakelat_common::Class;

/// A task's name: up to 15 bytes, as the kernel keeps it, without a NUL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Comm([u8; 16]);

impl Comm {
    /// Takes the bytes up to the first NUL; what lies behind it is forgotten, so that equal names are equal keys.
    pub fn new(bytes: &[u8]) -> Self {
        let mut comm = [0; 16];
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()).min(15);
        comm[..length].copy_from_slice(&bytes[..length]);
        Self(comm)
    }

    /// The name's bytes: not necessarily UTF-8, a task may call itself anything.
    pub fn as_bytes(&self) -> &[u8] {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        &self.0[..length]
    }
}

impl std::fmt::Display for Comm {
    /// Writes the name with control characters, backslashes and bytes that are not UTF-8 escaped, so that a hostile name
    /// can neither drive the terminal nor pass for another.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for chunk in self.as_bytes().utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() || character == '\\' {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    write!(f, "{character}")?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// One wait that ended when its task was switched in.
///
/// All fields are about the task that waited, except where the name says otherwise. `tid` is the thread, `pid` the
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Why it waited.
    pub class: Class,
    /// When it was switched in: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// How long it was on a run queue without a CPU: ns.
    pub latency_ns: u64,
    /// `sched_waking` to `sched_wakeup`: ns; only of a `wakeup`, and only where `sched_waking` was seen.
    pub delivery_ns: Option<u64>,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Name.
    pub comm: Comm,
    /// Id in the v2 hierarchy (inode number of the directory), where asked for.
    pub cgroup_id: Option<u64>,
    /// Kernel priority: 0–99 real-time, 100–139 fair, −1 deadline.
    pub prio: i32,
    /// `SCHED_*` number.
    pub policy: u32,
    /// CPU it was switched in on.
    pub cpu: u32,
    /// CPU it ran on before this wait.
    pub prev_cpu: Option<u32>,
    /// Thread that woke it; 0 is idle. Only of a `wakeup`.
    pub waker_tid: Option<u32>,
    /// Thread that had the CPU until now; 0 is idle.
    pub prev_tid: u32,
    /// That thread's name.
    pub prev_comm: Comm,
    /// That thread's kernel priority.
    pub prev_prio: i32,
    /// It was preempted while its state said that it sleeps; from a classic tracepoint, it may have been.
    pub preempted_sleeping: bool,
    /// Its task was watched as one of 2^level.
    pub sampling_shift: u8,
}

/// The PID namespace of a thread, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// The namespace's inode, as in `/proc/PID/ns/pid`; none where this user may not see it.
    pub pid_ns: Option<u64>,
    /// The thread's number in it.
    pub tid: u32,
}

/// The word for a `SCHED_*` number (include/uapi/linux/sched.h), as the command line takes it.
pub fn policy_name(policy: u32) -> &'static str {
    POLICIES.iter().find(|(number, _)| *number == policy).map_or("unknown", |(_, name)| name)
}

/// Every scheduling policy: its `SCHED_*` number and its word.
pub const POLICIES: [(u32, &str); 7] =
    [(0, "other"), (1, "fifo"), (2, "rr"), (3, "batch"), (5, "idle"), (6, "deadline"), (7, "ext")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_drives_the_terminal_or_passes_for_another() {
        assert_eq!(Comm::new(b"\x1b[2J\n").to_string(), "\\u{1b}[2J\\n");
        assert_ne!(Comm::new(b"a\xff").to_string(), Comm::new(b"a\\xff").to_string());
    }
}
