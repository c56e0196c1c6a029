//! A wait in user terms: every source produces it, and all later stages work on it.

use std::hash::{Hash, Hasher};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};
use wakelat_common::{Class, sample::KernelCounts};

/// The name of a task: up to 15 bytes without a NUL, as the kernel keeps it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Comm([u8; 16]);

impl Comm {
    /// Takes the bytes up to the first NUL. The bytes after it are dropped, so that equal names are equal
    /// keys.
    #[inline]
    pub fn new(bytes: &[u8]) -> Self {
        let mut comm = [0; 16];
        match bytes.first_chunk() {
            // The usual case, in which a copy of a fixed length needs no call.
            Some(all) => comm = *all,
            None => comm[..bytes.len()].copy_from_slice(bytes),
        }
        let kept = (1 << (8 * length(comm))) - 1;
        Self((u128::from_le_bytes(comm) & kept).to_le_bytes())
    }

    /// The bytes of the name, which need not be UTF-8: a task may set any name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0[..length(self.0)]
    }
}

/// The number of bytes before the first NUL, at most 15. Without a loop: there are some names in each switch.
#[inline]
fn length(comm: [u8; 16]) -> usize {
    const LOWEST_BITS: u128 = u128::from_le_bytes([0x01; 16]);
    const HIGHEST_BITS: u128 = u128::from_le_bytes([0x80; 16]);
    let bytes = u128::from_le_bytes(comm);
    // Subtracting 1 from each byte sets the highest bit of the first zero; it borrows only from bytes after that one.
    let zeros = bytes.wrapping_sub(LOWEST_BITS) & !bytes & HIGHEST_BITS;
    (zeros.trailing_zeros() as usize / 8).min(15)
}

/// As one number: names are in the keys of tables that each wait looks up, and hashing an array of bytes takes several times
/// as long.
impl Hash for Comm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(u128::from_ne_bytes(self.0));
    }
}

/// As the bytes of the name: a recording has some for each switch.
impl Serialize for Comm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.as_bytes())
    }
}

impl<'de> Deserialize<'de> for Comm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CommVisitor;

        impl Visitor<'_> for CommVisitor {
            type Value = Comm;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a task, of up to 15 bytes without a NUL")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Comm, E> {
                let comm = Comm::new(bytes);
                if comm.as_bytes() == bytes { Ok(comm) } else { Err(E::invalid_length(bytes.len(), &self)) }
            }
        }

        deserializer.deserialize_bytes(CommVisitor)
    }
}

impl std::fmt::Display for Comm {
    /// Writes the name with escapes for control characters, backslashes and bytes that are not UTF-8, so that
    /// a hostile name can neither control the terminal nor imitate another.
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

/// A wait, which ended when its task was switched in.
///
/// All fields are about the task that waited, unless the name says otherwise. `tid` is the thread, `pid` the
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Why the task waited.
    pub class: Class,
    /// When the task was switched in: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// How long the task was on a run queue without a CPU: ns.
    pub latency_ns: u64,
    /// Wake delivery, from `sched_waking` to `sched_wakeup`: ns. Only for class `wakeup`, and only if
    /// `sched_waking` was seen.
    pub delivery_ns: Option<u64>,
    /// Thread ID.
    pub tid: u32,
    /// Process ID.
    pub pid: u32,
    /// Name of the thread.
    pub comm: Comm,
    /// ID in the cgroup v2 hierarchy (inode number of the directory), if requested.
    pub cgroup_id: Option<u64>,
    /// Kernel priority: 0–99 real-time, 100–139 fair, −1 deadline.
    pub prio: i32,
    /// `SCHED_*` number.
    pub policy: u32,
    /// CPU on which the task was switched in.
    pub cpu: u32,
    /// CPU on which the task ran before this wait.
    pub prev_cpu: Option<u32>,
    /// TID of the waker; 0 is idle. Only for class `wakeup`.
    pub waker_tid: Option<u32>,
    /// TID of the thread that ran on the CPU before; 0 is idle.
    pub prev_tid: u32,
    /// Name of the previous thread.
    pub prev_comm: Comm,
    /// Kernel priority of the previous thread.
    pub prev_prio: i32,
    /// Whether the kernel's counters of the task have this wait.
    pub kernel_counts: KernelCounts,
    /// The task was sampled as one in 2^shift.
    pub sampling_shift: u8,
}

/// The PID namespace of a thread, and its TID there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Inode of the namespace, as in `/proc/PID/ns/pid`; `None` if this user may not see it.
    pub pid_ns: Option<u64>,
    /// TID of the thread in the namespace.
    pub tid: u32,
}

/// A thread in another PID namespace than the one that all IDs refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNamespace {
    /// Thread ID.
    pub tid: u32,
    /// Process ID.
    pub pid: u32,
    /// Its namespace, and its TID there.
    pub namespace: Namespace,
}

/// The name of a `SCHED_*` number (include/uapi/linux/sched.h), as on the command line.
pub fn policy_name(policy: u32) -> &'static str {
    POLICIES.iter().find(|(number, _)| *number == policy).map_or("unknown", |(_, name)| name)
}

/// All scheduling policies: `SCHED_*` number and name.
pub const POLICIES: [(u32, &str); 7] =
    [(0, "other"), (1, "fifo"), (2, "rr"), (3, "batch"), (5, "idle"), (6, "deadline"), (7, "ext")];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_ends_before_its_first_nul(bytes in prop::collection::vec(prop_oneof![Just(0), Just(1), Just(0x80), any::<u8>()], 0..20)) {
            let expected: Vec<u8> = bytes.iter().copied().take(15).take_while(|byte| *byte != 0).collect();
            let name = Comm::new(&bytes);
            prop_assert_eq!(name.as_bytes(), &expected);
            prop_assert_eq!(name, Comm::new(&expected));
        }
    }

    #[test]
    fn a_name_is_stored_as_its_bytes_and_no_other_bytes_are_a_name() {
        let name = Comm::new(b"nginx\xff");
        let bytes = postcard::to_stdvec(&name).unwrap();
        assert_eq!(bytes, b"\x06nginx\xff");
        assert_eq!(postcard::from_bytes::<Comm>(&bytes).unwrap(), name);
        assert!(postcard::from_bytes::<Comm>(b"\x02a\0").is_err());
        assert!(postcard::from_bytes::<Comm>(b"\x10................").is_err());
    }

    #[test]
    fn a_name_cannot_control_the_terminal_or_imitate_another() {
        assert_eq!(Comm::new(b"\x1b[2J\n").to_string(), "\\u{1b}[2J\\n");
        assert_ne!(Comm::new(b"a\xff").to_string(), Comm::new(b"a\\xff").to_string());
    }
}
