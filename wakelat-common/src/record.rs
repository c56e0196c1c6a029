//! What classic tracepoints tell: the layout of their records, for kernels without BTF.

/// [`crate::Sample::policy`] where it is not known.
pub const POLICY_UNKNOWN: u32 = u32::MAX;

/// Where a task's fields are in a record: bytes from its beginning, 0 where it has no such field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Offsets {
    /// Thread id, an int.
    pub pid: u32,
    /// Kernel priority, an int.
    pub prio: u32,
    /// The CPU it is woken on, an int.
    pub cpu: u32,
    /// What it leaves its CPU as, a long.
    pub state: u32,
    /// Its name, 16 bytes.
    pub comm: u32,
}

impl Offsets {
    /// Of a record that is not read.
    pub const NONE: Self = Self { pid: 0, prio: 0, cpu: 0, state: 0, comm: 0 };
}
