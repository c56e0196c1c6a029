//! The PID namespace of a thread, such as that of a container, in which the thread has another TID than
//! outside.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use wakelat_core::{
    hash::HashMap,
    wait::{Namespace, ThreadNamespace},
};

use super::task_stat::TaskStat;

/// Most threads that are read before a run, so that its start stays short. Further ones are read when they wait.
const MAX_THREADS: usize = 32_768;

/// The PID namespaces of processes, as far as they are known.
///
/// The kernel shows the namespace of a process only to those that may trace it (`proc_ns_readlink()`,
/// fs/proc/namespaces.c), which wakelat may not after it has dropped its privileges. From then on the namespace of a process
/// is that of its parent, unless a TID inside shows that it is another one.
#[derive(Debug)]
pub struct PidNamespaces {
    proc: PathBuf,
    /// Inode numbers, by process.
    inodes: HashMap<ProcessStart, u64>,
    /// The threads of these processes.
    threads: Vec<ThreadNamespace>,
}

/// A process: its PID may be used again, but not with the same start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ProcessStart {
    pid: u32,
    /// When it started, in clock ticks since boot.
    started: u64,
}

impl PidNamespaces {
    /// With the procfs at `proc`; no process is known yet.
    pub fn new(proc: PathBuf) -> Self {
        Self { proc, inodes: HashMap::default(), threads: Vec::new() }
    }

    /// Reads the namespaces of all processes that are in another one than procfs, and with `with_threads` the TIDs of their
    /// threads: in one pass before a run, because [`Self::of`] for one thread after the other is too slow while events
    /// arrive.
    pub fn read_all(&mut self, with_threads: bool) {
        for pid in ids(&self.proc) {
            if let Some(leader) = self.task(pid)
                && leader.tids.len() > 1
                && let Some(inode) = self.link(pid)
                && let Some(process) = self.process(pid)
            {
                self.inodes.insert(process, inode);
                if with_threads {
                    let threads = self.threads_of(pid, leader, inode);
                    self.threads.extend(threads);
                }
            }
        }
    }

    /// The threads of process `pid`, which is in the namespace `inode`: as many as there is room for.
    fn threads_of(&self, pid: u32, leader: Task, inode: u64) -> Vec<ThreadNamespace> {
        let others = ids(&self.proc.join(format!("{pid}/task"))).into_iter().filter(|tid| *tid != pid);
        let others = others.filter_map(|tid| Some((tid, self.task(tid).filter(|task| task.pid == pid)?)));
        let of = |(tid, task): (u32, Task)| {
            let namespace = Namespace { pid_ns: Some(inode), tid: *task.tids.last()? };
            Some(ThreadNamespace { tid, pid, namespace })
        };
        let room = MAX_THREADS.saturating_sub(self.threads.len());
        std::iter::once((pid, leader)).chain(others).filter_map(of).take(room).collect()
    }

    /// The threads of [`Self::read_all`]. Some may have exited since.
    pub fn threads(&self) -> &[ThreadNamespace] {
        &self.threads
    }

    /// The PID namespace of thread `tid` and its TID there; none if it is the namespace of procfs, or the thread has exited.
    pub fn of(&self, tid: u32) -> Option<Namespace> {
        let task = self.task(tid)?;
        let inner = task.tids.get(1..)?.last().copied()?;
        let pid_ns = self.link(tid).or_else(|| self.inherited(task));
        Some(Namespace { pid_ns, tid: inner })
    }

    /// The namespace of the nearest known ancestor in the same namespace.
    fn inherited(&self, mut task: Task) -> Option<u64> {
        /// More generations than a container has, in case of a loop by reused PIDs.
        const GENERATIONS: usize = 64;
        let depth = task.tids.len();
        for _ in 0..GENERATIONS {
            if let Some(inode) = self.process(task.pid).and_then(|process| self.inodes.get(&process)) {
                return Some(*inode);
            }
            // The first process of a namespace has its parent outside.
            if task.tids.last() == Some(&1) {
                return None;
            }
            task = self.task(task.parent).filter(|parent| parent.tids.len() == depth)?;
        }
        None
    }

    fn task(&self, tid: u32) -> Option<Task> {
        let mut status = String::with_capacity(STATUS_BYTES);
        let file = File::open(self.proc.join(format!("{tid}/status"))).ok()?;
        // Without `take`, the length is asked for, which is 0 in procfs, and the file read in small parts.
        file.take(u64::MAX).read_to_string(&mut status).ok()?;
        parse_status(&status)
    }

    fn link(&self, tid: u32) -> Option<u64> {
        inode(fs::read_link(self.proc.join(format!("{tid}/ns/pid"))).ok()?.to_str()?)
    }

    fn process(&self, pid: u32) -> Option<ProcessStart> {
        Some(ProcessStart { pid, started: TaskStat::read(&self.proc, pid)?.created_at()? })
    }
}

/// The entries of a directory of procfs that are processes or threads.
fn ids(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Room for `/proc/TID/status`, which is longer only for a task in hundreds of groups.
const STATUS_BYTES: usize = 4096;

/// What `/proc/TID/status` shows of a task.
#[derive(Debug, PartialEq, Eq)]
struct Task {
    /// The process, in the namespace of procfs.
    pid: u32,
    /// The parent, in the namespace of procfs.
    parent: u32,
    /// `NSpid` (fs/proc/array.c, `task_state()`): a TID for each namespace from that of procfs to the task's own.
    tids: Vec<u32>,
}

/// Parses only these lines: to parse all fields, as the crate procfs-core (0.18) does, takes 65 times as long, and this is
/// called for each new thread of a run.
fn parse_status(status: &str) -> Option<Task> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let number = |name| field(name)?.trim().parse().ok();
    let tids = field("NSpid:")?.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(Task { pid: number("Tgid:")?, parent: number("PPid:")?, tids })
}

/// The inode number in `pid:[4026531836]`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A procfs with processes: PID, parent, PID inside if it is in a nested namespace, and the inode if it can be read.
    fn proc(processes: &[(u32, u32, Option<u32>, Option<u64>)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (pid, parent, inner, inode) in processes {
            let path = directory.path().join(pid.to_string());
            fs::create_dir_all(path.join("ns")).unwrap();
            let inner = inner.map_or_else(String::new, |inner| format!("\t{inner}"));
            let status = format!("Name:\tsh\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t{parent}\nNSpid:\t{pid}{inner}\n");
            fs::write(path.join("status"), status).unwrap();
            fs::create_dir_all(path.join(format!("task/{pid}"))).unwrap();
            fs::write(
                path.join(format!("task/{pid}/stat")),
                format!("{pid} (a) b) S {parent} {}77 0", "0 ".repeat(17)),
            )
            .unwrap();
            if let Some(inode) = inode {
                std::os::unix::fs::symlink(format!("pid:[{inode}]"), path.join("ns/pid")).unwrap();
            }
        }
        directory
    }

    fn namespace(pid_ns: Option<u64>, tid: u32) -> Option<Namespace> {
        Some(Namespace { pid_ns, tid })
    }

    #[test]
    fn only_a_thread_in_a_nested_namespace_has_another_tid() {
        let proc = proc(&[(1, 0, None, Some(40)), (7, 1, Some(1), Some(50))]);
        let namespaces = PidNamespaces::new(proc.path().to_owned());
        assert_eq!([1, 7, 8].map(|tid| namespaces.of(tid)), [None, namespace(Some(50), 1), None]);
    }

    #[test]
    fn a_namespace_that_was_read_is_known_when_it_can_no_longer_be_read() {
        let processes = [(1, 0, None, Some(40)), (7, 1, Some(1), Some(50)), (8, 7, Some(2), Some(50))];
        let proc = proc(&processes);
        let mut namespaces = PidNamespaces::new(proc.path().to_owned());
        namespaces.read_all(true);
        [7, 8].iter().for_each(|pid| fs::remove_file(proc.path().join(format!("{pid}/ns/pid"))).unwrap());
        assert_eq!([7, 8].map(|tid| namespaces.of(tid)), [namespace(Some(50), 1), namespace(Some(50), 2)]);
    }

    #[test]
    fn the_threads_of_a_process_are_read_with_it() {
        let proc = proc(&[(1, 0, None, Some(40)), (7, 1, Some(1), Some(50))]);
        // The last one has exited, and the one before is a thread of another process by now.
        [8, 9, 10].iter().for_each(|tid| fs::create_dir_all(proc.path().join(format!("7/task/{tid}"))).unwrap());
        for (tid, pid, inner) in [(8, 7, 2), (9, 6, 3)] {
            fs::create_dir_all(proc.path().join(tid.to_string())).unwrap();
            let status = format!("Tgid:\t{pid}\nPPid:\t1\nNSpid:\t{tid}\t{inner}\n");
            fs::write(proc.path().join(format!("{tid}/status")), status).unwrap();
        }
        let mut namespaces = PidNamespaces::new(proc.path().to_owned());
        assert!(namespaces.threads().is_empty());
        namespaces.read_all(true);
        let of = |tid, inner| ThreadNamespace { tid, pid: 7, namespace: Namespace { pid_ns: Some(50), tid: inner } };
        let mut threads = namespaces.threads().to_vec();
        threads.sort_by_key(|thread| thread.tid);
        assert_eq!(threads, [of(7, 1), of(8, 2)]);
    }

    #[test]
    fn a_process_started_later_has_the_namespace_of_its_parent_unless_it_is_the_first_of_another() {
        let started = [(7, 1, Some(1), Some(50)), (1, 0, None, None)];
        let later = [(9, 7, Some(3), None), (10, 9, Some(4), None), (11, 7, Some(1), None), (12, 1, Some(5), None)];
        let all: Vec<_> = started.into_iter().chain(later).collect();
        let proc = proc(&all);
        let mut namespaces = PidNamespaces::new(proc.path().to_owned());
        namespaces.read_all(true);
        fs::remove_file(proc.path().join("7/ns/pid")).unwrap();
        assert_eq!([9, 10].map(|tid| namespaces.of(tid)), [namespace(Some(50), 3), namespace(Some(50), 4)]);
        // Another namespace of the same depth, and a process that entered one from outside.
        assert_eq!([11, 12].map(|tid| namespaces.of(tid)), [namespace(None, 1), namespace(None, 5)]);
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let proc = proc(&[(7, 1, Some(1), Some(50))]);
        let mut namespaces = PidNamespaces::new(proc.path().to_owned());
        namespaces.read_all(true);
        fs::remove_file(proc.path().join("7/ns/pid")).unwrap();
        fs::write(proc.path().join("7/task/7/stat"), format!("7 (b) S 1 {}78 0", "0 ".repeat(17))).unwrap();
        assert_eq!(namespaces.of(7), namespace(None, 1));
    }

    #[test]
    fn a_namespace_is_identified_by_its_inode_number() {
        assert_eq!(inode("pid:[4026531836]"), Some(4_026_531_836));
        assert_eq!(inode("net:[4026531836]"), None);
    }
}
