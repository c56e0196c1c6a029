//! What the kernel has counted for threads: their waits.

use std::{
    iter::Sum,
    ops::{Add, Sub},
};

use serde::{Deserialize, Serialize};

use crate::supervisor::Supervisor;

/// What the kernel has counted for threads: waits that ended (`/proc/TID/schedstat`).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// Number of waits.
    pub waits: u64,
    /// Their sum: ns.
    pub waited_ns: u64,
    /// How many threads these are.
    pub threads: u64,
    /// How often, added up over these threads, a task ran that no instrument sees ([`crate::supervisor`]).
    pub hidden_slices: u64,
}

impl Account {
    /// The account of thread `tid`, which must be blocked.
    pub fn of(tid: u32) -> Self {
        Self { hidden_slices: Supervisor::now().switch_ins(), ..Self::without_hidden_slices(tid) }
    }

    /// The same without the hidden slices, which take longer to read: for many threads.
    pub fn without_hidden_slices(tid: u32) -> Self {
        let path = format!("/proc/{tid}/schedstat");
        let line = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let fields: Vec<u64> = line.split_whitespace().map(|field| field.parse().expect("a number")).collect();
        Self { waits: fields[2], waited_ns: fields[1], threads: 1, hidden_slices: 0 }
    }
}

impl Add for Account {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            waits: self.waits + other.waits,
            waited_ns: self.waited_ns + other.waited_ns,
            threads: self.threads + other.threads,
            hidden_slices: self.hidden_slices + other.hidden_slices,
        }
    }
}

impl Sub for Account {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            waits: self.waits - earlier.waits,
            waited_ns: self.waited_ns - earlier.waited_ns,
            threads: self.threads,
            hidden_slices: self.hidden_slices.saturating_sub(earlier.hidden_slices),
        }
    }
}

impl Sum for Account {
    fn sum<I: Iterator<Item = Self>>(accounts: I) -> Self {
        accounts.fold(Self::default(), Self::add)
    }
}
