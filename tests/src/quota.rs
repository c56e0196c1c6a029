//! A group of tasks with a CPU quota, in whichever cgroup hierarchy has the machine's cpu controller.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    cgroup::{Hierarchy, TestCgroup},
    skip::Skip,
};

/// Default interval at which the kernel refills a quota (`default_cfs_period()`, kernel/sched/fair.c): µs.
pub const PERIOD_US: u64 = 100_000;

/// A group with a quota. It must outlive its tasks.
pub struct QuotaGroup {
    group: TestCgroup,
    /// Whether the group is in the v1 hierarchy.
    v1: bool,
    /// If mounted for the test, unmounted after the group is gone.
    _hierarchy: Option<Hierarchy>,
}

impl QuotaGroup {
    /// Creates a group whose tasks may use `percent` of one CPU's time. Skips the test if the kernel has no quotas.
    pub fn to_percent(percent: u64) -> Result<Self, Skip> {
        let name = format!("wakelat-tests-{}-quota", std::process::id());
        let quota_us = percent * PERIOD_US / 100;
        if let Some(first) = mount_of_v1() {
            let group = TestCgroup::make(first.join(name));
            let limited = Self { group, v1: true, _hierarchy: None };
            limited.write("cpu.cfs_period_us", PERIOD_US)?;
            limited.write("cpu.cfs_quota_us", quota_us)?;
            return Ok(limited);
        }
        let hierarchy = Hierarchy::find()?;
        let controllers = hierarchy.root().join("cgroup.subtree_control");
        fs::write(&controllers, "+cpu").map_err(|error| Skip::because(format!("no cpu controller: {error}")))?;
        let limited =
            Self { group: TestCgroup::make(hierarchy.root().join(name)), v1: false, _hierarchy: Some(hierarchy) };
        limited.write("cpu.max", format!("{quota_us} {PERIOD_US}"))?;
        Ok(limited)
    }

    /// The group, if it is in the v2 hierarchy. Otherwise its tasks can be in any group of that hierarchy, too.
    pub fn unified(&self) -> Option<&TestCgroup> {
        (!self.v1).then_some(&self.group)
    }

    /// Prefers the tasks of the group to all others, so that they use up their quota on a busy machine, too.
    pub fn raise_weight(&self) {
        // The largest values (kernel/sched/sched.h, include/linux/cgroup.h).
        let raised = if self.v1 { self.write("cpu.shares", 262_144) } else { self.write("cpu.weight", 10_000) };
        assert!(raised.is_ok(), "the kernel keeps the weight");
    }

    /// Moves process `pid` into the group.
    pub fn add_process(&self, pid: u32) {
        self.group.add_process(pid);
    }

    /// Removes the quota: tasks that wait for it continue.
    pub fn remove_quota(&self) {
        let lifted = if self.v1 { self.write("cpu.cfs_quota_us", "-1") } else { self.write("cpu.max", "max") };
        assert!(lifted.is_ok(), "the kernel keeps the quota");
    }

    /// How often the group ran out of quota on a CPU, and for how long in total: ns.
    pub fn throttled(&self) -> (u64, u64) {
        let stat = fs::read_to_string(self.group.path().join("cpu.stat")).expect("a group with a quota has this");
        let of = |name: &str| {
            let value = stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
            value.unwrap_or_else(|| panic!("no `{name}` in {stat}"))
        };
        let ns = if self.v1 { of("throttled_time ") } else { of("throttled_usec ") * 1000 };
        (of("nr_throttled "), ns)
    }

    fn write(&self, file: &str, value: impl ToString) -> Result<(), Skip> {
        let path = self.group.path().join(file);
        fs::write(&path, value.to_string())
            .map_err(|error| Skip::because(format!("the kernel sets no quota: {}: {error}", path.display())))
    }
}

/// Mount point of the v1 hierarchy with the cpu controller, if any.
fn mount_of_v1() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind, options) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup" && options.split(',').any(|option| option == "cpu")).then(|| Path::new(at).to_owned())
    })
}
