//! CPU time and memory of a tool's processes, as the kernel accounts them.

use std::fs;

use anyhow::Context as _;

/// The processes of a process group.
pub fn processes(group: u32) -> anyhow::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc").context("cannot read `/proc`")?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // A process may end while the directory is read.
    let in_group =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| group_of(&s) == Some(group));
    Ok(pids.filter(in_group).collect())
}

/// CPU time of all threads of `pids` so far: seconds. Threads that have ended are not included.
pub fn cpu_s(pids: &[u32]) -> f64 {
    let threads = pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten().flatten();
    let on_cpu_ns = threads.filter_map(|thread| {
        let schedstat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        on_cpu_ns(&schedstat)
    });
    on_cpu_ns.sum::<u64>() as f64 / 1e9
}

/// Resident memory of `pids`, including shared libraries and mapped buffers: bytes.
pub fn resident_bytes(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| resident(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)).sum()
}

/// The process group, the fifth field of /proc/PID/stat. The second field is a name in parentheses and may
/// contain anything.
fn group_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// The first field of /proc/PID/task/TID/schedstat: ns on a CPU (Documentation/scheduler/sched-stats.rst).
fn on_cpu_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_hide_the_group() {
        assert_eq!(group_of("77 (a) b (c) S 1 4711 4711 0 -1 4194304"), Some(4711));
        assert_eq!(group_of("77"), None);
    }

    #[test]
    fn time_and_memory_are_read_in_the_kernels_units() {
        assert_eq!(on_cpu_ns("123456789 42 7\n"), Some(123_456_789));
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\nRssAnon:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(resident("Name:\tkthread\n"), None);
    }
}
