//! Which CPUs the loads run on, and which are left to the instruments.

use anyhow::Context as _;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// CPU numbers, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(pub Vec<usize>);

impl CpuList {
    /// The CPUs that this process may use.
    pub fn allowed() -> anyhow::Result<Self> {
        let set = sched_getaffinity(Pid::from_raw(0)).context("cannot read the CPU affinity")?;
        Ok(Self((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()))
    }

    /// The last `count` CPUs, which get the fewest interrupts; `None` if there are not so many.
    pub fn last(&self, count: usize) -> Option<Self> {
        let first = self.0.len().checked_sub(count)?;
        Some(Self(self.0[first..].to_vec()))
    }

    /// The CPUs that are not in `others`, or all of them if that leaves none.
    pub fn besides(&self, others: &Self) -> Self {
        let rest: Vec<usize> = self.0.iter().copied().filter(|cpu| !others.0.contains(cpu)).collect();
        if rest.is_empty() { self.clone() } else { Self(rest) }
    }

    /// Calls `start` on these CPUs: what it starts stays on them. The calling thread returns to its
    /// previous CPUs.
    pub fn inherited<T>(&self, start: impl FnOnce() -> T) -> anyhow::Result<T> {
        let own = Pid::from_raw(0);
        let before = sched_getaffinity(own)?;
        let mut set = CpuSet::new();
        for cpu in &self.0 {
            set.set(*cpu)?;
        }
        sched_setaffinity(own, &set).with_context(|| format!("cannot move to {self}"))?;
        let result = start();
        sched_setaffinity(own, &before).context("cannot move back")?;
        Ok(result)
    }
}

impl std::fmt::Display for CpuList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        write!(f, "CPU {}", numbers.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_gets_the_last_cpus_and_its_instrument_the_others() {
        let all = CpuList(vec![0, 1, 4]);
        assert_eq!(all.last(1), Some(CpuList(vec![4])));
        assert_eq!(all.last(4), None);
        assert_eq!(all.besides(&CpuList(vec![4])), CpuList(vec![0, 1]));
        assert_eq!(all.besides(&all), all);
    }
}
