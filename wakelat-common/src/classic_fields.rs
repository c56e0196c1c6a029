//! The layout of classic tracepoint records, for kernels without BTF.

/// The value of [`crate::Sample::policy`] if the policy is not known.
pub const POLICY_UNKNOWN: u32 = u32::MAX;

/// Where the fields of a task are in a record: bytes from its beginning, 0 if the record has no such
/// field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Offsets {
    /// Thread ID, an int.
    pub pid: u32,
    /// Kernel priority, an int.
    pub prio: u32,
    /// The CPU on which the task is woken, an int.
    pub cpu: u32,
    /// The task's state at its switch-out, a long.
    pub state: u32,
    /// The task's name, 16 bytes.
    pub comm: u32,
}

impl Offsets {
    /// The offsets of a record that is not read.
    pub const NONE: Self = Self { pid: 0, prio: 0, cpu: 0, state: 0, comm: 0 };
}
