//! The kernel's number of context switches, in `/proc/stat`.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

/// Context switches of all CPUs since boot: `ctxt` in `/proc/stat` (`nr_context_switches()`,
/// fs/proc/stat.c). Each passes `sched_switch`.
pub fn count(proc: &Path) -> Result<u64> {
    let path = proc.join("stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    parse(&text).with_context(|| format!("no `ctxt` in `{}`", path.display()))
}

fn parse(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_the_other_lines() {
        let stat = "cpu 1 2 3\nintr 5 0\nctxt 1990473\nbtime 1\nprocs_running 17\nprocs_blocked 0\n";
        assert_eq!(parse(stat), Some(1_990_473));
        assert_eq!(parse("cpu 1 2 3\n"), None);
    }
}
