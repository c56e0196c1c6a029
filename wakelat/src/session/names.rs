//! What the numbers of samples are called, asked of /proc and of the cgroup mount.

use std::{
    cell::{OnceCell, RefCell},
    fs,
    os::unix::fs::DirEntryExt as _,
    path::{Path, PathBuf},
};

use crate::{
    aggregate::key::Names,
    hash::HashMap,
    kernel::{Roots, namespace, symbols::Symbols},
    wait::{Comm, Namespace},
};

/// Names known so far. What is asked for again is not looked up again: a task or cgroup that is gone keeps its name.
#[derive(Default)]
pub struct Directory {
    cgroup_mount: Option<PathBuf>,
    cgroups: RefCell<HashMap<u64, String>>,
    comms: RefCell<HashMap<u32, Option<Comm>>>,
    /// Read when somebody asks for one.
    symbols: OnceCell<Symbols>,
}

impl Directory {
    /// `cgroup_mount` is where the v2 hierarchy is mounted, if it is.
    pub fn new(cgroup_mount: Option<PathBuf>) -> Self {
        Self { cgroup_mount, ..Self::default() }
    }

    /// Takes note of a thread's name from a sample: it may be gone before anybody asks.
    pub fn learn(&self, tid: u32, comm: Comm) {
        self.comms.borrow_mut().insert(tid, Some(comm));
    }

    /// Takes note of every cgroup there is now.
    fn read_cgroups(&self) {
        if let Some(mount) = &self.cgroup_mount {
            self.walk(mount, mount);
        }
    }

    fn walk(&self, mount: &Path, directory: &Path) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let path = entry.path();
            let below = path.strip_prefix(mount).unwrap_or(&path);
            self.cgroups.borrow_mut().insert(entry.ino(), format!("/{}", below.display()));
            self.walk(mount, &path);
        }
    }
}

impl Names for Directory {
    fn cgroup(&self, id: u64) -> String {
        let known = |id| self.cgroups.borrow().get(&id).cloned();
        if let Some(path) = known(id) {
            return path;
        }
        self.read_cgroups();
        let path = known(id).unwrap_or_else(|| {
            // The root's inode is 1, as the first that its hierarchy numbers (`__kernfs_new_node()`, fs/kernfs/dir.c, 5.10 to
            // 6.7), and has no entry in any directory; anything else is gone.
            if id <= 1 { "/".to_owned() } else { format!("(cgroup {id}, gone)") }
        });
        self.cgroups.borrow_mut().insert(id, path.clone());
        path
    }

    fn namespace(&self, tid: u32) -> Option<Namespace> {
        namespace::of(&Roots::default().proc, tid)
    }

    fn function(&self, address: u64) -> Option<String> {
        self.symbols.get_or_init(Symbols::of_kernel).name_of(address).map(str::to_owned)
    }

    fn comm(&self, tid: u32) -> Option<Comm> {
        *self.comms.borrow_mut().entry(tid).or_insert_with(|| {
            if tid == 0 {
                return Some(Comm::new(b"swapper"));
            }
            let name = fs::read(format!("/proc/{tid}/comm")).ok()?;
            Some(Comm::new(name.trim_ascii_end()))
        })
    }
}
