//! The BPF programs and maps of some processes, and the run times and memory that the kernel accounts to
//! them.
//!
//! The descriptors of the processes identify them, so that those of other processes on the machine do not
//! count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Serialize;

/// A tracepoint of the scheduler, or any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TracepointKind {
    /// `sched_waking`
    Waking,
    /// `sched_wakeup`
    Wakeup,
    /// `sched_wakeup_new`
    New,
    /// `sched_switch`
    Switch,
    /// Any other event, between wakeups and switches.
    Other,
}

impl TracepointKind {
    /// The tracepoint that the name of a tracepoint or program refers to. The kernel truncates the names of
    /// programs to 15 bytes.
    fn of(name: &str) -> Self {
        match name.split_once("sched_").map_or("", |(_, event)| event) {
            event if event.starts_with("waki") => Self::Waking,
            event if event.starts_with("wakeup_n") => Self::New,
            event if event.starts_with("wakeu") => Self::Wakeup,
            event if event.starts_with("sw") => Self::Switch,
            // wakelat's programs in place of the one named `sched_switch`.
            _ if ["switch_record", "queue_switch", "queue_histogram"].contains(&name) => Self::Switch,
            _ => Self::Other,
        }
    }
}

/// How often programs ran, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventRuns {
    /// The number of runs while the kernel accounted them.
    pub count: u64,
    /// Their total duration: ns.
    pub time_ns: u64,
}

impl EventRuns {
    /// The runs since `before`.
    pub fn since(self, before: Self) -> Self {
        Self { count: self.count.saturating_sub(before.count), time_ns: self.time_ns.saturating_sub(before.time_ns) }
    }

    /// The average duration of a run, if there were enough of them to mean something: ns.
    pub fn ns_each(self) -> Option<f64> {
        const ENOUGH: u64 = 100;
        (self.count >= ENOUGH).then(|| self.time_ns as f64 / self.count as f64)
    }
}

/// The runs at each event.
pub type RunsByEvent = BTreeMap<TracepointKind, EventRuns>;

/// The programs and maps of some processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldPrograms {
    /// The runs of their programs.
    pub runs: RunsByEvent,
    /// Kernel memory of their maps: bytes.
    pub map_bytes: u64,
    /// The number of programs.
    pub programs: usize,
}

/// The programs and maps that `pids` hold now.
pub fn held_by(pids: &[u32]) -> HeldPrograms {
    held(&descriptors(pids), name_of)
}

/// The text of /proc/PID/fdinfo/FD for each BPF descriptor.
fn descriptors(pids: &[u32]) -> Vec<String> {
    let mut texts = Vec::new();
    for pid in pids {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for entry in entries.flatten() {
            let is_bpf = fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().contains("bpf"));
            let fdinfo = || fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy()));
            texts.extend(is_bpf.then(|| fdinfo().ok()).flatten());
        }
    }
    texts
}

/// The name of the program with this ID, truncated as the kernel keeps it.
fn name_of(id: u32) -> Option<String> {
    let program = aya::programs::loaded_programs().flatten().find(|program| program.id() == id)?;
    program.name_as_str().map(str::to_owned)
}

/// Parses `bpf_prog_show_fdinfo`, `bpf_map_show_fdinfo` and `bpf_link_show_fdinfo` (kernel/bpf/syscall.c).
/// A program belongs to the event of its link or, if the link does not name one, to the event that it is
/// named after.
fn held(descriptors: &[String], name_of: impl Fn(u32) -> Option<String>) -> HeldPrograms {
    let field = |text: &str, name: &str| -> Option<String> {
        text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
    };
    let number = |text: &str, name: &str| field(text, name)?.parse::<u64>().ok();
    let mut links = BTreeMap::new();
    for text in descriptors.iter().filter(|text| field(text, "link_id").is_some()) {
        if let (Some(program), Some(tracepoint)) = (number(text, "prog_id"), field(text, "tp_name")) {
            links.insert(program, tracepoint);
        }
    }
    let (mut held, mut maps, mut programs) = (HeldPrograms::default(), BTreeSet::new(), BTreeSet::new());
    for text in descriptors.iter().filter(|text| field(text, "link_id").is_none()) {
        if let (Some(id), Some(bytes)) = (number(text, "map_id"), number(text, "memlock")) {
            if maps.insert(id) {
                held.map_bytes += bytes;
            }
        } else if let (Some(id), Some(count), Some(time_ns)) =
            (number(text, "prog_id"), number(text, "run_cnt"), number(text, "run_time_ns"))
        {
            if !programs.insert(id) {
                continue;
            }
            let name = links.get(&id).cloned().or_else(|| name_of(u32::try_from(id).ok()?));
            let runs = held.runs.entry(name.as_deref().map_or(TracepointKind::Other, TracepointKind::of)).or_default();
            runs.count += count;
            runs.time_ns += time_ns;
        }
    }
    held.programs = programs.len();
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_every_tool_are_recognized_by_name() {
        for (name, event) in [
            ("sched_wakeup", TracepointKind::Wakeup),
            ("sched_wakeup_ne", TracepointKind::New),
            ("raw_sched_wakin", TracepointKind::Waking),
            ("handle_sched_sw", TracepointKind::Switch),
            ("sched_switch", TracepointKind::Switch),
            ("switch_record", TracepointKind::Switch),
            ("queue_switch", TracepointKind::Switch),
            ("queue_histogram", TracepointKind::Switch),
            ("sched_migrate_t", TracepointKind::Other),
            ("softirq_exit", TracepointKind::Other),
        ] {
            assert_eq!(TracepointKind::of(name), event, "{name}");
        }
    }

    #[test]
    fn each_program_and_each_map_counts_once_and_at_the_event_of_its_link() {
        let program = "prog_type:\t26\nmemlock:\t4096\nprog_id:\t7\nrun_time_ns:\t500\nrun_cnt:\t10\n".to_owned();
        let link = "link_type:\traw_tracepoint\nlink_id:\t3\nprog_id:\t7\ntp_name:\tsched_switch\n".to_owned();
        let other = program.replace("\t7\n", "\t8\n");
        let map = "map_type:\t1\nmemlock:\t8192\nmap_id:\t5\n".to_owned();
        let all = [program.clone(), link, other, map.clone(), map, program];
        let held = held(&all, |id| (id == 8).then(|| "sched_wakeup".to_owned()));
        let runs = EventRuns { count: 10, time_ns: 500 };
        assert_eq!(held.runs, RunsByEvent::from([(TracepointKind::Switch, runs), (TracepointKind::Wakeup, runs)]));
        assert_eq!((held.map_bytes, held.programs), (8192, 2));
    }

    #[test]
    fn a_handful_of_runs_has_no_duration() {
        assert_eq!(EventRuns { count: 99, time_ns: 990 }.ns_each(), None);
        assert_eq!(EventRuns { count: 100, time_ns: 1000 }.ns_each(), Some(10.0));
        assert_eq!(
            EventRuns { count: 5, time_ns: 9 }.since(EventRuns { count: 2, time_ns: 4 }),
            EventRuns { count: 3, time_ns: 5 }
        );
    }
}
