//! Why a task was waiting for a CPU.

/// What put a task on a run queue. Classes are never mixed in one figure unless run-queue latency is asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "user", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
pub enum Class {
    /// `sched_wakeup`: a sleeping task was made runnable.
    Wakeup = 0,
    /// `sched_wakeup_new`: a task was created and made runnable for the first time.
    New = 1,
    /// `sched_switch`: a task lost its CPU while it could have gone on.
    Preempted = 2,
}

impl Class {
    /// Every class, in the order in which reports show them.
    pub const ALL: [Self; 3] = [Self::Wakeup, Self::New, Self::Preempted];

    /// The class a record's byte names, if it names one.
    #[inline(always)]
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Wakeup),
            1 => Some(Self::New),
            2 => Some(Self::Preempted),
            _ => None,
        }
    }

    /// The word for this class on the command line, in JSON and in every report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wakeup => "wakeup",
            Self::New => "new",
            Self::Preempted => "preempted",
        }
    }
}

/// A set of classes, as one load-time integer of the BPF programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(pub u32);

impl Classes {
    /// No class.
    pub const NONE: Self = Self(0);

    /// This set and `class`.
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
