//! Control groups of the v2 hierarchy that a test creates and removes.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::skip::Skip;

/// The v2 hierarchy, mounted for the duration of the test if the machine has not mounted it.
pub struct Hierarchy {
    root: PathBuf,
    mounted: bool,
}

impl Hierarchy {
    /// Finds the hierarchy, or mounts it. Skips the test if the kernel has no cgroups.
    pub fn find() -> Result<Self, Skip> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let found = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let at = words.next()?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(at))
        });
        if let Some(root) = found {
            return Ok(Self { root, mounted: false });
        }
        let root = std::env::temp_dir().join(format!("wakelat-tests-cgroup2-{}", std::process::id()));
        fs::create_dir_all(&root)
            .map_err(|error| Skip::because(format!("no directory to mount cgroup2 on: {error}")))?;
        match mount(Some("none"), &root, Some("cgroup2"), MsFlags::empty(), None::<&str>) {
            Ok(()) => Ok(Self { root, mounted: true }),
            Err(error) => {
                let _ = fs::remove_dir(&root);
                Err(Skip::because(format!("the kernel does not mount cgroup2: {error}")))
            }
        }
    }

    /// The mount point.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Creates a group below the root, which is removed when dropped.
    pub fn group(&self, name: &str) -> TestCgroup {
        TestCgroup::make(self.root.join(format!("wakelat-tests-{}-{name}", std::process::id())))
    }
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        if self.mounted {
            let _ = umount2(&self.root, MntFlags::MNT_DETACH);
            let _ = fs::remove_dir(&self.root);
        }
    }
}

/// One group. It must outlive its tasks, so declare it before the workload that runs in it.
pub struct TestCgroup(PathBuf);

impl TestCgroup {
    pub(crate) fn make(path: PathBuf) -> Self {
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }

    /// Creates a group below this one.
    pub fn child(&self, name: &str) -> Self {
        Self::make(self.0.join(name))
    }

    /// The directory of the group.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its ID: the number of its inode (`kernfs_id_ino()`, include/linux/kernfs.h).
    pub fn id(&self) -> u64 {
        fs::metadata(&self.0).unwrap_or_else(|error| panic!("{}: {error}", self.0.display())).ino()
    }

    /// Moves process `pid` into the group.
    pub fn add_process(&self, pid: u32) {
        let file = self.0.join("cgroup.procs");
        fs::write(&file, pid.to_string()).unwrap_or_else(|error| panic!("{pid} into {}: {error}", file.display()));
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        // A killed task leaves its group shortly after its parent has reaped it; until then rmdir gives EBUSY.
        let deadline = crate::clock::now_ns() + 5_000_000_000;
        while let Err(error) = fs::remove_dir(&self.0) {
            if crate::clock::now_ns() > deadline {
                eprintln!("could not remove {}: {error}", self.0.display());
                return;
            }
            std::thread::yield_now();
        }
    }
}
