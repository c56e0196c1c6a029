//! The paths of cgroups by their IDs, from the mount of cgroup v2.
//!
//! A cgroup may be gone before its ID is looked up, so that all that exist are read early, and again whenever there are
//! others.

use std::{
    cell::{Cell, RefCell},
    fs::{self, DirEntry},
    os::unix::fs::{DirEntryExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use wakelat_core::{
    cgroup_path,
    hash::{HashMap, HashSet},
};

/// Number of cgroups from which on the paths of removed ones are dropped, so that a run without an end needs no more and
/// more memory.
const KEPT: usize = 65_536;

/// The same for a run that uses each path at once.
const KEPT_IF_USED_AT_ONCE: usize = 4_096;

/// For how many walks the path of a removed cgroup is kept in any case. Its last waits come with the next reading of the
/// kernel's tables, which are up to five seconds apart, and up to eight walks are made until their path has been used: at
/// the readings before and after, and once a second in between.
const KEPT_WALKS: u64 = 8;

/// A cache of the paths of cgroups.
pub struct CgroupTree {
    mount: Option<PathBuf>,
    cgroups: RefCell<HashMap<u64, CgroupPath>>,
    /// Number of cgroups from which on the paths of removed ones are dropped.
    kept: usize,
    /// How often all cgroups have been read.
    walks: Cell<u64>,
    /// The number of cgroups when all were last read by [`Self::follow`], as the kernel prints it.
    stat: RefCell<String>,
    /// Cgroups whose paths are not known yet.
    new: RefCell<HashSet<u64>>,
}

/// The path of a cgroup, and the last walk that found it.
#[derive(Clone, Default)]
struct CgroupPath {
    path: String,
    walk: u64,
}

impl CgroupTree {
    /// An empty cache. `mount` is the mount point of the cgroup v2 hierarchy, if it is mounted.
    pub fn new(mount: Option<PathBuf>) -> Self {
        Self {
            mount,
            cgroups: RefCell::default(),
            kept: KEPT,
            walks: Cell::new(0),
            stat: RefCell::default(),
            new: RefCell::default(),
        }
    }

    /// Each path is used soon after its ID was noted, and not again.
    pub fn use_paths_at_once(&mut self) {
        self.kept = KEPT_IF_USED_AT_ONCE;
    }

    /// Reads the paths of all existing cgroups.
    pub fn read(&self) {
        let Some(mount) = &self.mount else { return };
        let walk = self.walks.get() + 1;
        self.walks.set(walk);
        self.walk(mount, mount);
        let mut cgroups = self.cgroups.borrow_mut();
        if cgroups.len() > self.kept {
            cgroups.retain(|_, known| known.walk + KEPT_WALKS >= walk);
        }
    }

    /// Reads the paths of all cgroups below `directory`. A path never changes: cgroup v2 has no renaming
    /// (`cgroup1_rename()`, kernel/cgroup/cgroup-v1.c).
    fn walk(&self, mount: &Path, directory: &Path) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let path = entry.path();
            let mut cgroups = self.cgroups.borrow_mut();
            let known = cgroups.entry(entry.ino()).or_default();
            known.walk = self.walks.get();
            if !known.path.starts_with('/') {
                known.path = cgroup_path::text(path.strip_prefix(mount).unwrap_or(&path));
            }
            drop(cgroups);
            if may_have_directories(&entry) {
                self.walk(mount, &path);
            }
        }
    }

    /// Reads all cgroups again if their number has changed since the last call.
    pub fn follow(&self) {
        let Some(mount) = &self.mount else { return };
        // Also counts those that are removed, but still in use (Documentation/admin-guide/cgroup-v2.rst).
        let stat = fs::read_to_string(mount.join("cgroup.stat")).unwrap_or_default();
        if *self.stat.borrow() != stat {
            self.read();
            self.stat.replace(stat);
        }
    }

    /// Looks up this cgroup with the next [`Self::resolve_new`], unless it is known.
    pub fn note(&self, id: u64) {
        if !self.cgroups.borrow().contains_key(&id) {
            self.new.borrow_mut().insert(id);
        }
    }

    /// Looks up all new cgroups at once.
    pub fn resolve_new(&self) {
        let new = self.new.take();
        if !new.is_empty() {
            self.read();
            let walk = self.walks.get();
            let mut cgroups = self.cgroups.borrow_mut();
            let unnamed = |id| CgroupPath { path: unnamed(id), walk };
            new.into_iter().for_each(|id| _ = cgroups.entry(id).or_insert_with(|| unnamed(id)));
        }
    }

    /// The path of a cgroup, below the mount point.
    pub fn path(&self, id: u64) -> String {
        self.note(id);
        if self.new.borrow().contains(&id) {
            self.resolve_new();
        }
        self.cgroups.borrow().get(&id).map_or_else(|| unnamed(id), |known| known.path.clone())
    }
}

/// Whether a directory may have others below it, by its number of links, which is much faster than reading it: most cgroups
/// have none. There is a link from each directory below it, besides its name and its own `.` (`kernfs_refresh_inode()`,
/// fs/kernfs/inode.c, 5.10 to 7.2).
fn may_have_directories(directory: &DirEntry) -> bool {
    const WITHOUT_DIRECTORIES: u64 = 2;
    directory.metadata().is_ok_and(|metadata| metadata.nlink() != WITHOUT_DIRECTORIES)
}

/// The name of a cgroup without a path. The root's inode is 1, as the first that its hierarchy numbers
/// (`__kernfs_new_node()`, fs/kernfs/dir.c, 5.10 to 6.7), and has no entry in any directory; any other cgroup
/// is gone.
fn unnamed(id: u64) -> String {
    if id <= 1 { "/".to_owned() } else { format!("(cgroup {id}, gone)") }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn empty() -> (TempDir, CgroupTree) {
        let mount = tempfile::tempdir().unwrap();
        let tree = CgroupTree::new(Some(mount.path().to_owned()));
        (mount, tree)
    }

    /// Creates a cgroup, and returns its ID.
    fn create(mount: &TempDir, path: &str) -> u64 {
        let path = mount.path().join(path);
        fs::create_dir_all(&path).unwrap();
        fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn cgroups_at_any_depth_have_paths() {
        let (mount, tree) = empty();
        let ids = ["a/b/c", "a", "a/b", "a/leaf"].map(|path| (path, create(&mount, path)));
        tree.read();
        for (path, id) in ids {
            assert_eq!(tree.path(id), format!("/{path}"));
        }
    }

    #[test]
    fn cgroups_whose_names_are_not_utf_8_have_different_paths() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
        let (mount, tree) = empty();
        let paths = [&b"a\xfe"[..], b"a\xff", b"a\\xff"].map(|name| {
            let path = mount.path().join(OsStr::from_bytes(name));
            fs::create_dir(&path).unwrap();
            tree.path(fs::metadata(path).unwrap().ino())
        });
        assert_eq!(paths, ["/a\\xfe", "/a\\xff", "/a\\x5cxff"]);
    }

    #[test]
    fn a_cgroup_removed_after_its_first_wait_keeps_its_path() {
        let (mount, tree) = empty();
        tree.read();
        let id = create(&mount, "job.slice");
        tree.note(id);
        tree.resolve_new();
        fs::remove_dir(mount.path().join("job.slice")).unwrap();
        assert_eq!(tree.path(id), "/job.slice");
        assert_eq!(tree.path(u64::MAX), format!("(cgroup {}, gone)", u64::MAX));
    }

    #[test]
    fn paths_of_many_removed_cgroups_are_dropped_and_others_are_kept() {
        let (mount, mut tree) = empty();
        tree.use_paths_at_once();
        let id = create(&mount, "job.slice");
        tree.read();
        let removed = |at: u64| (u64::MAX - at, CgroupPath { path: "/removed".to_owned(), walk: 1 });
        tree.cgroups.borrow_mut().extend((0..=KEPT_IF_USED_AT_ONCE as u64).map(removed));
        // They may still be needed.
        (0..KEPT_WALKS).for_each(|_| tree.read());
        assert_eq!(tree.path(u64::MAX), "/removed");
        tree.read();
        assert_eq!((tree.path(id).as_str(), tree.cgroups.borrow().len()), ("/job.slice", 1));
    }

    #[test]
    fn a_cgroup_that_ends_before_the_first_look_at_its_id_has_a_path_if_the_number_of_cgroups_changed() {
        let ((mount, tree), gone) = (empty(), tempfile::tempdir().unwrap());
        let lived_until = |name: &str, stat: Option<&str>| {
            let id = create(&mount, name);
            stat.into_iter().for_each(|stat| fs::write(mount.path().join("cgroup.stat"), stat).unwrap());
            tree.follow();
            // It is gone from the mount, and keeps its number: a file system may use that of a removed one again.
            fs::rename(mount.path().join(name), gone.path().join(name)).unwrap();
            tree.path(id)
        };
        assert_eq!(lived_until("first", Some("nr_descendants 1\n")), "/first");
        // Read only if the number has changed.
        assert!(lived_until("second", None).ends_with(", gone)"));
        assert_eq!(lived_until("third", Some("nr_descendants 2\n")), "/third");
    }
}
