//! Resolves the IDs in samples to names, from /proc and the cgroup mount.
//!
//! An ID is looked up soon after the sample that contains it, because its task or cgroup may be gone before
//! the report. The name of a thread is its current one: it comes with the thread's own samples. A name from
//! /proc is read again if its TID occurs again after [`NAME_MAX_AGE`], because by then the thread may have
//! another name, or be another thread. A thread that is gone keeps its last name.

use std::{
    cell::{Cell, OnceCell, RefCell},
    fs::{self, DirEntry},
    os::unix::fs::{DirEntryExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use wakelat_core::{
    aggregate::key::{Key, Names},
    hash::{HashMap, HashSet},
    wait::{Comm, Namespace, Wait},
};
use wakelat_kernel::{
    Roots,
    kernel_symbols::{KernelSymbolFiles, KernelSymbols},
    namespace::PidNamespaces,
};

/// How long the name of a thread is used before it is read again: no thread is looked up more often.
const NAME_MAX_AGE: Duration = Duration::from_millis(500);

/// Maximum number of threads whose names are kept. If there are more, those not seen lately are dropped.
const THREADS: usize = 65_536;

/// Number of cgroups from which on the paths of removed ones are dropped, so that a run without an end needs no more and
/// more memory.
const CGROUPS: usize = 65_536;

/// The same for a run that uses each path at once.
const CGROUPS_USED_AT_ONCE: usize = 4_096;

/// A cache of names.
pub struct NameResolver {
    /// Path of /proc.
    proc: PathBuf,
    cgroup_mount: Option<PathBuf>,
    cgroups: RefCell<HashMap<u64, CgroupPath>>,
    /// Number of cgroups from which on the paths of removed ones are dropped.
    cgroups_kept: usize,
    /// How often all cgroups have been read.
    cgroup_walks: Cell<u64>,
    /// The number of cgroups when all were last read by [`Self::follow_cgroups`], as the kernel prints it.
    cgroup_stat: RefCell<String>,
    /// Cgroups seen in samples whose paths are not known yet.
    new_cgroups: RefCell<HashSet<u64>>,
    comms: RefCell<HashMap<u32, CachedName>>,
    /// The last names of [`Self::learn`], by some bits of the TID: the name of a thread that runs again and again is stored
    /// once for each age.
    learned: RefCell<Vec<Option<(u32, Comm)>>>,
    /// How often [`NAME_MAX_AGE`] has passed.
    age: Cell<u64>,
    fresh_since: Cell<Instant>,
    namespaces: PidNamespaces,
    /// The files with the kernel's symbols, if they are open.
    symbol_files: Option<KernelSymbolFiles>,
    /// The kernel's symbols, read when the first is needed.
    symbols: OnceCell<KernelSymbols>,
}

/// The path of a cgroup, and the last walk that found it.
#[derive(Clone, Default)]
struct CgroupPath {
    path: String,
    walk: u64,
}

/// A thread's name and the age at which it was read; `comm` is `None` if there was no such thread.
#[derive(Clone, Copy)]
struct CachedName {
    comm: Option<Comm>,
    age: u64,
}

impl NameResolver {
    /// An empty cache. `cgroup_mount` is the mount point of the cgroup v2 hierarchy, if it is mounted.
    pub fn new(cgroup_mount: Option<PathBuf>) -> Self {
        let proc = Roots::default().proc;
        Self {
            namespaces: PidNamespaces::new(proc.clone()),
            symbol_files: None,
            proc,
            cgroup_mount,
            cgroups: RefCell::default(),
            cgroups_kept: CGROUPS,
            cgroup_walks: Cell::new(0),
            cgroup_stat: RefCell::default(),
            new_cgroups: RefCell::default(),
            comms: RefCell::default(),
            learned: RefCell::default(),
            age: Cell::new(0),
            fresh_since: Cell::new(Instant::now()),
            symbols: OnceCell::new(),
        }
    }

    /// Each path is used soon after its ID was noted, and not again.
    pub fn use_paths_at_once(&mut self) {
        self.cgroups_kept = CGROUPS_USED_AT_ONCE;
    }

    /// Reads or opens what needs a privilege, if events between waits are shown: the namespaces of processes and the
    /// kernel's symbols.
    pub fn prepare_for_events(&mut self) {
        self.namespaces.read_all();
        self.symbol_files = Some(KernelSymbolFiles::open());
    }

    /// Reads the existing cgroups if waits are grouped by them, because some may be gone later.
    pub fn prepare(&self, keys: &[Key]) {
        if keys.iter().any(|key| matches!(key, Key::Cgroup | Key::Container)) {
            self.read_cgroups();
        }
    }

    /// Reads all cgroups again if their number has changed since the last call: one that ends before its ID is read
    /// from the kernel's tables has a name.
    pub fn follow_cgroups(&self) {
        let Some(mount) = &self.cgroup_mount else { return };
        // Also counts those that are removed, but still in use (Documentation/admin-guide/cgroup-v2.rst).
        let stat = fs::read_to_string(mount.join("cgroup.stat")).unwrap_or_default();
        if *self.cgroup_stat.borrow() != stat {
            self.read_cgroups();
            self.cgroup_stat.replace(stat);
        }
    }

    /// Stores a thread's name from a sample.
    pub fn learn(&self, tid: u32, comm: Comm) {
        const PLACES: usize = 256;
        let mut learned = self.learned.borrow_mut();
        learned.resize(PLACES, None);
        if learned[tid as usize % PLACES].replace((tid, comm)) == Some((tid, comm)) {
            return;
        }
        self.comms.borrow_mut().insert(tid, CachedName { comm: Some(comm), age: self.age.get() });
    }

    /// Stores the names from a wait that groups by `keys` need, and looks up those that the wait does not
    /// contain.
    pub fn learn_from(&self, wait: &Wait, keys: &[Key]) {
        for key in keys {
            match key {
                Key::Tid => self.learn(wait.tid, wait.comm),
                // A process is named after its first thread.
                Key::Pid if wait.pid == wait.tid => self.learn(wait.tid, wait.comm),
                Key::Pid => self.refresh(wait.pid),
                Key::Waker => {
                    self.learn(wait.tid, wait.comm);
                    wait.waker_tid.into_iter().for_each(|tid| self.refresh(tid));
                }
                Key::Cgroup | Key::Container => self.note_cgroup(wait.cgroup_id.unwrap_or(0)),
                _ => {}
            }
        }
    }

    /// Looks up this cgroup with the next [`Self::resolve_new_cgroups`], unless it is known.
    pub fn note_cgroup(&self, id: u64) {
        if !self.cgroups.borrow().contains_key(&id) {
            self.new_cgroups.borrow_mut().insert(id);
        }
    }

    /// Called after each batch of samples: looks up all its new cgroups at once.
    pub fn resolve_new_cgroups(&self) {
        let new = self.new_cgroups.take();
        if !new.is_empty() {
            self.read_cgroups();
            let mut cgroups = self.cgroups.borrow_mut();
            let walk = self.cgroup_walks.get();
            let unnamed = |id| CgroupPath { path: unnamed(id), walk };
            new.into_iter().for_each(|id| _ = cgroups.entry(id).or_insert_with(|| unnamed(id)));
        }
        if self.fresh_since.get().elapsed() >= NAME_MAX_AGE {
            self.advance_age();
        }
    }

    fn advance_age(&self) {
        let age = self.age.get() + 1;
        self.age.set(age);
        self.fresh_since.set(Instant::now());
        self.learned.borrow_mut().clear();
        let mut comms = self.comms.borrow_mut();
        if comms.len() > THREADS {
            comms.retain(|_, named| named.age + 1 >= age);
        }
    }

    /// Drops the names of all threads, because their TIDs may be reused.
    pub fn forget_threads(&self) {
        self.comms.borrow_mut().clear();
        self.learned.borrow_mut().clear();
    }

    /// Looks up a thread unless its name is current. A thread that is gone keeps its last name.
    pub fn refresh(&self, tid: u32) {
        let age = self.age.get();
        let mut comms = self.comms.borrow_mut();
        let known = comms.get(&tid).copied();
        if tid != 0 && known.is_none_or(|named| named.age != age) {
            let comm = self.look_up(tid).or(known.and_then(|named| named.comm));
            comms.insert(tid, CachedName { comm, age });
        }
    }

    fn look_up(&self, tid: u32) -> Option<Comm> {
        let name = fs::read(self.proc.join(format!("{tid}/comm"))).ok()?;
        Some(Comm::new(name.strip_suffix(b"\n").unwrap_or(&name)))
    }

    /// Reads the paths of all existing cgroups.
    fn read_cgroups(&self) {
        let Some(mount) = &self.cgroup_mount else { return };
        let walk = self.cgroup_walks.get() + 1;
        self.cgroup_walks.set(walk);
        self.walk(mount, mount);
        let mut cgroups = self.cgroups.borrow_mut();
        if cgroups.len() > self.cgroups_kept {
            // Waits of a cgroup that was there at the walk before may still arrive.
            cgroups.retain(|_, known| known.walk + 1 >= walk);
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
            known.walk = self.cgroup_walks.get();
            if !known.path.starts_with('/') {
                known.path = format!("/{}", path.strip_prefix(mount).unwrap_or(&path).display());
            }
            drop(cgroups);
            if may_have_directories(&entry) {
                self.walk(mount, &path);
            }
        }
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

impl Names for NameResolver {
    fn cgroup(&self, id: u64) -> String {
        self.note_cgroup(id);
        if self.new_cgroups.borrow().contains(&id) {
            self.resolve_new_cgroups();
        }
        self.cgroups.borrow().get(&id).map_or_else(|| unnamed(id), |known| known.path.clone())
    }

    fn namespace(&self, tid: u32) -> Option<Namespace> {
        self.namespaces.of(tid)
    }

    fn function(&self, address: u64) -> Option<String> {
        let read = || self.symbol_files.as_ref().map(KernelSymbolFiles::read).unwrap_or_default();
        self.symbols.get_or_init(read).name_of(address).map(str::to_owned)
    }

    /// The last known name. A thread not seen for a while is not looked up again, because its TID may belong
    /// to another thread by now.
    fn comm(&self, tid: u32) -> Option<Comm> {
        if tid == 0 {
            return Some(Comm::new(b"swapper"));
        }
        let known = || self.comms.borrow().get(&tid).and_then(|named| named.comm);
        known().or_else(|| {
            self.refresh(tid);
            known()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelat_core::render::testing;

    /// A temporary /proc with threads and their names.
    struct Proc(PathBuf);

    impl Proc {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("wakelat-names-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn set_comm(&self, tid: u32, comm: &str) {
            fs::create_dir_all(self.0.join(tid.to_string())).unwrap();
            fs::write(self.0.join(format!("{tid}/comm")), format!("{comm}\n")).unwrap();
        }

        fn end(&self, tid: u32) {
            fs::remove_dir_all(self.0.join(tid.to_string())).unwrap();
        }

        fn resolver(&self) -> NameResolver {
            NameResolver { proc: self.0.clone(), ..NameResolver::new(None) }
        }
    }

    impl Drop for Proc {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn woken_by(tid: u32) -> Wait {
        Wait { waker_tid: Some(tid), ..testing::wait() }
    }

    fn name(resolver: &NameResolver, tid: u32) -> Option<String> {
        resolver.comm(tid).map(|comm| comm.to_string())
    }

    #[test]
    fn a_waker_has_its_new_name_after_an_exec() {
        let proc = Proc::new("exec");
        let resolver = proc.resolver();
        proc.set_comm(77, "sh");
        resolver.learn_from(&woken_by(77), &[Key::Waker]);
        proc.set_comm(77, "make");
        resolver.advance_age();
        resolver.learn_from(&woken_by(77), &[Key::Waker]);
        assert_eq!(name(&resolver, 77).as_deref(), Some("make"));
    }

    #[test]
    fn a_tid_without_a_thread_is_looked_up_again_when_it_occurs_again() {
        let proc = Proc::new("reuse");
        let resolver = proc.resolver();
        resolver.learn_from(&woken_by(77), &[Key::Waker]);
        assert_eq!(name(&resolver, 77), None);
        proc.set_comm(77, "bash");
        resolver.advance_age();
        resolver.learn_from(&woken_by(77), &[Key::Waker]);
        assert_eq!(name(&resolver, 77).as_deref(), Some("bash"));
    }

    #[test]
    fn a_thread_that_exits_before_the_report_keeps_its_name() {
        let proc = Proc::new("gone");
        let resolver = proc.resolver();
        proc.set_comm(77, "sh");
        proc.set_comm(1230, "nginx");
        let wait = Wait { tid: 1234, pid: 1230, ..woken_by(77) };
        resolver.learn_from(&wait, &[Key::Pid, Key::Waker]);
        proc.end(77);
        proc.end(1230);
        resolver.advance_age();
        resolver.learn_from(&wait, &[Key::Pid, Key::Waker]);
        assert_eq!([77, 1230].map(|tid| name(&resolver, tid).unwrap()), ["sh", "nginx"]);
        resolver.forget_threads();
        assert_eq!(name(&resolver, 77), None);
    }

    #[test]
    fn the_name_in_a_sample_of_a_thread_replaces_the_one_from_proc() {
        let proc = Proc::new("renamed");
        let resolver = proc.resolver();
        proc.set_comm(1234, "java");
        resolver.refresh(1234);
        let wait = testing::wait();
        resolver.learn_from(&Wait { tid: 1234, comm: Comm::new(b"GC Thread#0"), ..wait }, &[Key::Tid]);
        assert_eq!(name(&resolver, 1234).as_deref(), Some("GC Thread#0"));
    }

    #[test]
    fn names_of_many_short_lived_threads_are_dropped() {
        let proc = Proc::new("many");
        let resolver = proc.resolver();
        for _ in 0..3 {
            let first = resolver.age.get() as u32 * 100_000;
            (first..first + THREADS as u32).for_each(|tid| resolver.learn(tid + 1, Comm::new(b"short")));
            resolver.advance_age();
        }
        assert!(resolver.comms.borrow().len() <= 2 * THREADS);
        assert_eq!(name(&resolver, 1), None);
    }

    #[test]
    fn cgroups_at_any_depth_have_paths() {
        let mount = Proc::new("deep");
        let resolver = NameResolver { cgroup_mount: Some(mount.0.clone()), ..NameResolver::new(None) };
        let deepest = mount.0.join("a/b/c");
        fs::create_dir_all(&deepest).unwrap();
        fs::create_dir_all(mount.0.join("a/leaf")).unwrap();
        resolver.prepare(&[Key::Cgroup]);
        for path in ["a", "a/b", "a/b/c", "a/leaf"] {
            let id = fs::metadata(mount.0.join(path)).unwrap().ino();
            assert_eq!(resolver.cgroup(id), format!("/{path}"));
        }
    }

    #[test]
    fn a_cgroup_removed_after_its_first_wait_keeps_its_path() {
        let mount = Proc::new("cgroups");
        let resolver = NameResolver { cgroup_mount: Some(mount.0.clone()), ..NameResolver::new(None) };
        resolver.prepare(&[Key::Cgroup]);
        let path = mount.0.join("job.slice");
        fs::create_dir_all(&path).unwrap();
        let id = fs::metadata(&path).unwrap().ino();
        resolver.learn_from(&Wait { cgroup_id: Some(id), ..testing::wait() }, &[Key::Cgroup]);
        resolver.resolve_new_cgroups();
        fs::remove_dir(&path).unwrap();
        assert_eq!(resolver.cgroup(id), "/job.slice");
        assert_eq!(resolver.cgroup(u64::MAX), format!("(cgroup {}, gone)", u64::MAX));
    }

    #[test]
    fn paths_of_many_removed_cgroups_are_dropped_and_others_are_kept() {
        let mount = Proc::new("many-cgroups");
        let resolver = NameResolver { cgroup_mount: Some(mount.0.clone()), ..NameResolver::new(None) };
        let path = mount.0.join("job.slice");
        fs::create_dir_all(&path).unwrap();
        let id = fs::metadata(&path).unwrap().ino();
        resolver.prepare(&[Key::Cgroup]);
        let path = || CgroupPath { path: "/removed".to_owned(), walk: 0 };
        let removed = (0..=CGROUPS as u64).map(|at| (u64::MAX - at, path()));
        resolver.cgroups.borrow_mut().extend(removed);
        resolver.prepare(&[Key::Cgroup]);
        resolver.prepare(&[Key::Cgroup]);
        assert_eq!((resolver.cgroup(id).as_str(), resolver.cgroups.borrow().len()), ("/job.slice", 1));
    }

    #[test]
    fn a_cgroup_that_ends_before_the_first_look_at_its_id_has_a_path_if_the_number_of_cgroups_changed() {
        let (mount, gone) = (Proc::new("churn"), Proc::new("churned"));
        let resolver = NameResolver { cgroup_mount: Some(mount.0.clone()), ..NameResolver::new(None) };
        let lived_until = |name: &str, stat: Option<&str>| {
            let path = mount.0.join(name);
            fs::create_dir_all(&path).unwrap();
            let id = fs::metadata(&path).unwrap().ino();
            stat.into_iter().for_each(|stat| fs::write(mount.0.join("cgroup.stat"), stat).unwrap());
            resolver.follow_cgroups();
            // It is gone from the mount, and keeps its number: a file system may use that of a removed one again.
            fs::rename(&path, gone.0.join(name)).unwrap();
            resolver.cgroup(id)
        };
        assert_eq!(lived_until("first", Some("nr_descendants 1\n")), "/first");
        // Read only if the number has changed.
        assert!(lived_until("second", None).ends_with(", gone)"));
        assert_eq!(lived_until("third", Some("nr_descendants 2\n")), "/third");
    }
}
