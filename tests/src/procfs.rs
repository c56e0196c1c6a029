//! What the kernel itself reports about a task.

use std::{
    fs::{self, File},
    io::{Read, Seek},
    ops::Sub,
};

use crate::clock::spin_until;

/// The kernel's accounting of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskStats {
    /// Number of times the task gave up its CPU because it blocked.
    pub voluntary: u64,
    /// Number of times the task lost its CPU while it was still runnable.
    pub involuntary: u64,
    /// Time spent runnable without a CPU: ns (`sched_info.run_delay`;
    /// Documentation/scheduler/sched-stats.rst). 0 if the kernel is built without SCHED_INFO.
    pub run_delay_ns: u64,
    /// CPU time: ns (`sum_exec_runtime`). 0 if the kernel is built without SCHED_INFO.
    pub ran_ns: u64,
}

impl TaskStats {
    /// Reads the counters of thread `tid`.
    pub fn of(tid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_else(|e| panic!("task {tid}: {e}"));
        let schedstat = fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap_or_default();
        let time_ns = |field| schedstat.split_whitespace().nth(field).and_then(|ns| ns.parse().ok()).unwrap_or(0);
        Self {
            voluntary: field(&status, "\nvoluntary_ctxt_switches:"),
            involuntary: field(&status, "\nnonvoluntary_ctxt_switches:"),
            run_delay_ns: time_ns(1),
            ran_ns: time_ns(0),
        }
    }

    /// Switches of either kind. Between two moments at which the task is blocked, this is also how
    /// often it was switched in, and so how many waits it had.
    pub fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }
}

impl Sub for TaskStats {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            voluntary: self.voluntary - earlier.voluntary,
            involuntary: self.involuntary - earlier.involuntary,
            run_delay_ns: self.run_delay_ns - earlier.run_delay_ns,
            ran_ns: self.ran_ns - earlier.ran_ns,
        }
    }
}

/// The processes and kernel threads with this name.
pub fn pids_named(name: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let tids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    tids.filter(|tid| fs::read_to_string(format!("/proc/{tid}/comm")).is_ok_and(|comm| comm.trim_end() == name))
        .collect()
}

/// The real-time priority of thread `tid`; 0 if it has none.
pub fn rt_priority(tid: u32) -> u32 {
    rt_priority_in(&fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_else(|e| panic!("task {tid}: {e}")))
}

/// The real-time priority in `/proc/TID/stat`; 0 if there is none (proc_pid_stat(5), field 40).
pub fn rt_priority_in(stat: &str) -> u32 {
    let (_, rest) = stat.rsplit_once(") ").expect("a name in parentheses");
    rest.split(' ').nth(40 - 3).and_then(|field| field.parse().ok()).expect("a priority")
}

/// How long thread `tid` has run: ns (`sum_exec_runtime`, `proc_pid_schedstat`, fs/proc/base.c).
///
/// # Panics
/// If there is no such thread, or the kernel is built without SCHED_INFO.
pub fn ran_ns(tid: u32) -> u64 {
    let line = fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap_or_else(|e| panic!("task {tid}: {e}"));
    line.split_whitespace().next().and_then(|field| field.parse().ok()).expect("a number")
}

/// Whether thread `tid` waits for an event or a signal and is off its CPU: otherwise the kernel answers `running`
/// (`task_current_syscall`, lib/syscall.c, which waits for the task to be inactive).
pub fn is_blocked(tid: u32) -> bool {
    // On its way there, it can be blocked in state `D`: in `sched_setaffinity`, until it is moved to another CPU.
    matches!(state(tid), Some('S' | 'T'))
        && fs::read_to_string(format!("/proc/{tid}/syscall")).is_ok_and(|line| !line.starts_with("running"))
}

/// The threads of process `pid` except its main thread.
pub fn other_threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).unwrap_or_else(|error| panic!("process {pid}: {error}"));
    let tids = entries.map(|entry| entry.expect("a live process").file_name().to_string_lossy().parse());
    tids.map(|tid| tid.expect("a thread id")).filter(|tid| *tid != pid).collect()
}

/// File offset of the code at `address` of this process.
pub fn file_offset(address: u64) -> u64 {
    let maps = fs::read_to_string("/proc/self/maps").expect("procfs");
    let offset = maps.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let [from, to, offset] = [from, to, words.nth(1)?].map(|hex| u64::from_str_radix(hex, 16).expect("hex"));
        (from..to).contains(&address).then(|| address - from + offset)
    });
    offset.unwrap_or_else(|| panic!("{address:#x} is not mapped"))
}

/// The one-letter state of thread `tid`: `T` if stopped. None if there is no such thread.
pub fn state(tid: u32) -> Option<char> {
    // For `/proc/TID/stat`, the kernel adds up the times of all threads of the process.
    let stat = fs::read_to_string(format!("/proc/{tid}/task/{tid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Observes one task's voluntary switches from another task, which must not block meanwhile.
pub struct Watch {
    file: File,
    text: String,
}

impl Watch {
    /// Observes thread `tid`.
    pub fn new(tid: u32) -> Self {
        let file = File::open(format!("/proc/{tid}/status")).unwrap_or_else(|error| panic!("task {tid}: {error}"));
        Self { file, text: String::with_capacity(4096) }
    }

    /// Spins until [`Self::has_blocked_more_than`] holds.
    pub fn until_blocked_more_than(&mut self, count: u64) {
        spin_until(|| self.has_blocked_more_than(count));
    }

    /// Whether the task's voluntary switches exceed `count`. If so, and `count` was right when the task
    /// was about to block, it is off its run queue: the kernel counts the switch after it dequeues
    /// (`__schedule`, kernel/sched/core.c). The next wakeup is then a real one.
    pub fn has_blocked_more_than(&mut self, count: u64) -> bool {
        self.text.clear();
        self.file.rewind().expect("procfs files rewind");
        self.file.read_to_string(&mut self.text).expect("the observed task is alive");
        field(&self.text, "\nvoluntary_ctxt_switches:") > count
    }
}

fn field(status: &str, name: &str) -> u64 {
    let rest = status.split_once(name).unwrap_or_else(|| panic!("no `{}` in {status}", name.trim())).1;
    rest.split_whitespace().next().and_then(|value| value.parse().ok()).expect("a number")
}

/// Memory charged for the BPF maps that process `pid` has descriptors of: bytes, each map once.
pub fn map_bytes(pid: u32) -> u64 {
    let mut maps = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the process is running").flatten() {
        let Ok(info) = std::fs::read_to_string(entry.path()) else { continue };
        let field = |name: &str| -> Option<u64> {
            let line = info.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().parse().ok()
        };
        if let (Some(id), Some(bytes)) = (field("map_id"), field("memlock")) {
            maps.insert(id, bytes);
        }
    }
    maps.values().sum()
}
/// The most memory that process `pid` has had resident: bytes (`VmHWM`, Documentation/filesystems/proc.rst).
pub fn peak_resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_else(|e| panic!("process {pid}: {e}"));
    field(&status, "\nVmHWM:") * 1024
}
