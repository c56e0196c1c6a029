//! What the numbers of samples are called, asked of /proc and of the cgroup mount.
//!
//! A number is looked up soon after the sample that has it, as its task or cgroup may be gone before the report. A thread's name
//! is that of the moment: its own samples bring it, and a name from /proc is read again when its number comes again after
//! [`NAME_MAX_AGE`], for the thread may have another name by then, or be another thread. One that is gone keeps its last name.

use std::{
    cell::{Cell, OnceCell, RefCell},
    fs,
    os::unix::fs::DirEntryExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    aggregate::key::{Key, Names},
    hash::{HashMap, HashSet},
    kernel::{Roots, namespace, symbols::KernelSymbols},
    wait::{Comm, Namespace, Wait},
};

/// How long the name of a thread is taken for its name: no thread is looked up more often.
const NAME_MAX_AGE: Duration = Duration::from_millis(500);

/// Threads whose names are kept; where there are more, the names of those that did not come lately are forgotten.
const THREADS: usize = 65_536;

/// Names known so far.
pub struct NameResolver {
    /// Where /proc is.
    proc: PathBuf,
    cgroup_mount: Option<PathBuf>,
    cgroups: RefCell<HashMap<u64, String>>,
    /// Cgroups that came, and whose paths are not known yet.
    new_cgroups: RefCell<HashSet<u64>>,
    comms: RefCell<HashMap<u32, CachedName>>,
    /// How many times [`NAME_MAX_AGE`] has passed.
    age: Cell<u64>,
    fresh_since: Cell<Instant>,
    /// Read when somebody asks for one.
    symbols: OnceCell<KernelSymbols>,
}

/// A thread's name, and when it was read; none where there was no such thread.
#[derive(Clone, Copy)]
struct CachedName {
    comm: Option<Comm>,
    age: u64,
}

impl NameResolver {
    /// `cgroup_mount` is where the v2 hierarchy is mounted, if it is.
    pub fn new(cgroup_mount: Option<PathBuf>) -> Self {
        Self {
            proc: Roots::default().proc,
            cgroup_mount,
            cgroups: RefCell::default(),
            new_cgroups: RefCell::default(),
            comms: RefCell::default(),
            age: Cell::new(0),
            fresh_since: Cell::new(Instant::now()),
            symbols: OnceCell::new(),
        }
    }

    /// Takes note of the cgroups there are now, where waits are grouped by them: some may be gone later.
    pub fn prepare(&self, keys: &[Key]) {
        if keys.iter().any(|key| matches!(key, Key::Cgroup | Key::Container)) {
            self.read_cgroups();
        }
    }

    /// Takes note of a thread's name from a sample.
    pub fn learn(&self, tid: u32, comm: Comm) {
        self.comms.borrow_mut().insert(tid, CachedName { comm: Some(comm), age: self.age.get() });
    }

    /// Takes note of what a wait says of the names that groups by `keys` need, and looks up what it does not say.
    pub fn learn_from(&self, wait: &Wait, keys: &[Key]) {
        for key in keys {
            match key {
                Key::Tid => self.learn(wait.tid, wait.comm),
                // A process has the name of its first thread.
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

    fn note_cgroup(&self, id: u64) {
        if !self.cgroups.borrow().contains_key(&id) {
            self.new_cgroups.borrow_mut().insert(id);
        }
    }

    /// A batch of samples has been taken: looks up the cgroups that came with it, all at once.
    pub fn resolve_new_cgroups(&self) {
        let new = self.new_cgroups.take();
        if !new.is_empty() {
            self.read_cgroups();
            let mut cgroups = self.cgroups.borrow_mut();
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
        let mut comms = self.comms.borrow_mut();
        if comms.len() > THREADS {
            comms.retain(|_, named| named.age + 1 >= age);
        }
    }

    /// Forgets the names of threads: their numbers may come again with others.
    pub fn forget_threads(&self) {
        self.comms.borrow_mut().clear();
    }

    /// Looks a thread up, unless its name is that of the moment. Where it is gone, the name that it had stays.
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

/// The root's inode is 1, as the first that its hierarchy numbers (`__kernfs_new_node()`, fs/kernfs/dir.c, 5.10 to 6.7), and has no
/// entry in any directory; anything else is gone.
fn unnamed(id: u64) -> String {
    if id <= 1 { "/".to_owned() } else { format!("(cgroup {id}, gone)") }
}

impl Names for NameResolver {
    fn cgroup(&self, id: u64) -> String {
        self.note_cgroup(id);
        if self.new_cgroups.borrow().contains(&id) {
            self.resolve_new_cgroups();
        }
        self.cgroups.borrow().get(&id).cloned().unwrap_or_else(|| unnamed(id))
    }

    fn namespace(&self, tid: u32) -> Option<Namespace> {
        namespace::of(&self.proc, tid)
    }

    fn function(&self, address: u64) -> Option<String> {
        self.symbols.get_or_init(KernelSymbols::of_kernel).name_of(address).map(str::to_owned)
    }

    /// The last name that is known: a thread that has not come for a while is not looked up again, for its number may be that of
    /// another.
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
    use crate::sink::fixtures;

    /// A /proc of threads by their names.
    struct Proc(PathBuf);

    impl Proc {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("wakelat-names-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn call(&self, tid: u32, comm: &str) {
            fs::create_dir_all(self.0.join(tid.to_string())).unwrap();
            fs::write(self.0.join(format!("{tid}/comm")), format!("{comm}\n")).unwrap();
        }

        fn end(&self, tid: u32) {
            fs::remove_dir_all(self.0.join(tid.to_string())).unwrap();
        }

        fn directory(&self) -> NameResolver {
            NameResolver { proc: self.0.clone(), ..NameResolver::new(None) }
        }
    }

    impl Drop for Proc {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn woken_by(tid: u32) -> Wait {
        Wait { waker_tid: Some(tid), ..fixtures::wait() }
    }

    fn name(directory: &NameResolver, tid: u32) -> Option<String> {
        directory.comm(tid).map(|comm| comm.to_string())
    }

    #[test]
    fn a_waker_that_starts_another_program_has_its_new_name() {
        let proc = Proc::new("exec");
        let directory = proc.directory();
        proc.call(77, "sh");
        directory.learn_from(&woken_by(77), &[Key::Waker]);
        proc.call(77, "make");
        directory.advance_age();
        directory.learn_from(&woken_by(77), &[Key::Waker]);
        assert_eq!(name(&directory, 77).as_deref(), Some("make"));
    }

    #[test]
    fn a_number_without_a_thread_is_looked_up_again_when_it_comes_again() {
        let proc = Proc::new("reuse");
        let directory = proc.directory();
        directory.learn_from(&woken_by(77), &[Key::Waker]);
        assert_eq!(name(&directory, 77), None);
        proc.call(77, "bash");
        directory.advance_age();
        directory.learn_from(&woken_by(77), &[Key::Waker]);
        assert_eq!(name(&directory, 77).as_deref(), Some("bash"));
    }

    #[test]
    fn a_thread_that_is_gone_by_the_report_has_the_name_that_it_had() {
        let proc = Proc::new("gone");
        let directory = proc.directory();
        proc.call(77, "sh");
        proc.call(1230, "nginx");
        let wait = Wait { tid: 1234, pid: 1230, ..woken_by(77) };
        directory.learn_from(&wait, &[Key::Pid, Key::Waker]);
        proc.end(77);
        proc.end(1230);
        directory.advance_age();
        directory.learn_from(&wait, &[Key::Pid, Key::Waker]);
        assert_eq!([77, 1230].map(|tid| name(&directory, tid).unwrap()), ["sh", "nginx"]);
        directory.forget_threads();
        assert_eq!(name(&directory, 77), None);
    }

    #[test]
    fn a_sample_of_its_own_is_newer_than_what_proc_said() {
        let proc = Proc::new("renamed");
        let directory = proc.directory();
        proc.call(1234, "java");
        directory.refresh(1234);
        let wait = fixtures::wait();
        directory.learn_from(&Wait { tid: 1234, comm: Comm::new(b"GC Thread#0"), ..wait }, &[Key::Tid]);
        assert_eq!(name(&directory, 1234).as_deref(), Some("GC Thread#0"));
    }

    #[test]
    fn the_names_of_many_short_lived_threads_are_forgotten() {
        let proc = Proc::new("many");
        let directory = proc.directory();
        for _ in 0..3 {
            let first = directory.age.get() as u32 * 100_000;
            (first..first + THREADS as u32).for_each(|tid| directory.learn(tid + 1, Comm::new(b"short")));
            directory.advance_age();
        }
        assert!(directory.comms.borrow().len() <= 2 * THREADS);
        assert_eq!(name(&directory, 1), None);
    }

    #[test]
    fn a_cgroup_that_is_removed_after_its_first_wait_has_its_path() {
        use std::os::unix::fs::MetadataExt as _;
        let mount = Proc::new("cgroups");
        let directory = NameResolver { cgroup_mount: Some(mount.0.clone()), ..NameResolver::new(None) };
        directory.prepare(&[Key::Cgroup]);
        let path = mount.0.join("job.slice");
        fs::create_dir_all(&path).unwrap();
        let id = fs::metadata(&path).unwrap().ino();
        directory.learn_from(&Wait { cgroup_id: Some(id), ..fixtures::wait() }, &[Key::Cgroup]);
        directory.resolve_new_cgroups();
        fs::remove_dir(&path).unwrap();
        assert_eq!(directory.cgroup(id), "/job.slice");
        assert_eq!(directory.cgroup(u64::MAX), format!("(cgroup {}, gone)", u64::MAX));
    }
}
