//! Resolves the IDs in samples to names, from /proc and the cgroup mount.
//!
//! An ID is looked up soon after the sample that contains it, because its task or cgroup may be gone before
//! the report. The name of a thread is its current one: it comes with the thread's own samples. A name from
//! /proc is read again if its TID occurs again after [`NAME_MAX_AGE`], because by then the thread may have
//! another name, or be another thread. A thread that is gone keeps its last name.

use std::{
    cell::{Cell, OnceCell, RefCell},
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::cgroup_tree::CgroupTree;
use wakelat_core::{
    aggregate::key::{Key, Names},
    hash::HashMap,
    wait::{Comm, Namespace, ThreadNamespace, Wait},
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

/// A cache of names.
pub struct NameResolver {
    /// Path of /proc.
    proc: PathBuf,
    cgroups: CgroupTree,
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
            cgroups: CgroupTree::new(cgroup_mount),
            comms: RefCell::default(),
            learned: RefCell::default(),
            age: Cell::new(0),
            fresh_since: Cell::new(Instant::now()),
            symbols: OnceCell::new(),
        }
    }

    /// Each path of a cgroup is used soon after its ID was noted, and not again.
    pub fn use_paths_at_once(&mut self) {
        self.cgroups.use_paths_at_once();
    }

    /// Reads or opens what needs a privilege, if events between waits are shown: the namespaces of processes, with their
    /// threads if a recording is made, and the kernel's symbols.
    pub fn prepare_for_events(&mut self, with_threads: bool) {
        self.namespaces.read_all(with_threads);
        self.symbol_files = Some(KernelSymbolFiles::open());
    }

    /// Reads the existing cgroups if waits are grouped by them, because some may be gone later.
    pub fn prepare(&self, keys: &[Key]) {
        if keys.iter().any(|key| matches!(key, Key::Cgroup | Key::Container)) {
            self.cgroups.read();
        }
    }

    /// Reads all cgroups again if their number has changed since the last call: one that ends before its ID is read
    /// from the kernel's tables has a name.
    pub fn follow_cgroups(&self) {
        self.cgroups.follow();
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
        self.cgroups.note(id);
    }

    /// Called after each batch of samples: looks up all its new cgroups at once.
    pub fn resolve_new_cgroups(&self) {
        self.cgroups.resolve_new();
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
}

impl Names for NameResolver {
    fn cgroup(&self, id: u64) -> String {
        self.cgroups.path(id)
    }

    fn namespace(&self, tid: u32) -> Option<Namespace> {
        self.namespaces.of(tid)
    }

    fn namespaces_before_run(&self) -> &[ThreadNamespace] {
        self.namespaces.threads()
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
}
