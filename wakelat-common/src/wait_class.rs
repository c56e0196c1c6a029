//! Why a task was waiting for a CPU.

/// The event that put a task on a run queue. No figure mixes classes unless the user requests run-queue
/// latency by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "user", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
pub enum Class {
    /// `sched_wakeup`: a sleeping task becomes runnable.
    Wakeup = 0,
    /// `sched_wakeup_new`: a new task becomes runnable for the first time.
    New = 1,
    /// `sched_switch`: a task lost its CPU while it was still runnable.
    Preempted = 2,
}

impl Class {
    /// All classes, in the order in which reports show them.
    pub const ALL: [Self; 3] = [Self::Wakeup, Self::New, Self::Preempted];

    /// Converts the byte in a record; `None` if it is not a class.
    #[inline(always)]
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Wakeup),
            1 => Some(Self::New),
            2 => Some(Self::Preempted),
            _ => None,
        }
    }

    /// The name of this class on the command line, in JSON and in all reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wakeup => "wakeup",
            Self::New => "new",
            Self::Preempted => "preempted",
        }
    }
}

/// A set of classes, passed to the BPF programs as one load-time integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(pub u32);

impl Classes {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// This set plus `class`.
    #[must_use]
    pub const fn with(self, class: Class) -> Self {
        Self(self.0 | 1 << class as u32)
    }

    /// Whether `class` is in the set.
    #[inline(always)]
    pub const fn contains(self, class: Class) -> bool {
        self.0 & 1 << class as u32 != 0
    }
}
