//! The PID namespace of a thread, as a container has one: there it has another number than outside.

use std::{fs, path::Path};

use crate::wait::Namespace;

/// That of thread `tid`, if it is below the one that `proc` shows; none where the thread has gone.
pub fn of(proc: &Path, tid: u32) -> Option<Namespace> {
    let directory = proc.join(tid.to_string());
    let status = fs::read_to_string(directory.join("status")).ok()?;
    let tid = innermost(&status)?;
    let link = fs::read_link(directory.join("ns/pid")).ok();
    Some(Namespace { pid_ns: link.and_then(|link| inode(link.to_str()?)), tid })
}

/// The last of several numbers of `NSpid` (fs/proc/array.c, `task_state()`): one for each namespace from that of procfs to the thread's.
fn innermost(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().skip(1);
    numbers.last()?.parse().ok()
}

/// Of `pid:[4026531836]`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_in_a_namespace_below_has_another_number() {
        assert_eq!(innermost("Name:\tsh\nNSpid:\t4711\nNSpgid:\t4711\n"), None);
        assert_eq!(innermost("Name:\tsh\nNSpid:\t4711\t312\t17\nNSpgid:\t1\n"), Some(17));
        assert_eq!(innermost("Name:\tsh\n"), None);
    }

    #[test]
    fn a_namespace_is_known_by_its_inode() {
        assert_eq!(inode("pid:[4026531836]"), Some(4_026_531_836));
        assert_eq!(inode("net:[4026531836]"), None);
    }
}
