//! The PID namespace of a thread, such as that of a container, in which the thread has another TID than
//! outside.

use std::{fs, path::Path};

use wakelat_core::wait::Namespace;

/// The PID namespace of thread `tid` and its TID there; none if it is the namespace of the procfs at
/// `proc`, or the thread has exited.
pub fn of(proc: &Path, tid: u32) -> Option<Namespace> {
    let directory = proc.join(tid.to_string());
    let status = fs::read_to_string(directory.join("status")).ok()?;
    let tid = innermost(&status)?;
    let link = fs::read_link(directory.join("ns/pid")).ok();
    Some(Namespace { pid_ns: link.and_then(|link| inode(link.to_str()?)), tid })
}

/// The last TID of `NSpid` (fs/proc/array.c, `task_state()`), which has one for each namespace from that of
/// procfs to the thread's own; none if there is only one. Parses only this line: to parse all fields, as the
/// crate procfs-core (0.18) does, takes 65 times as long, and this is called for each new thread of a run.
fn innermost(status: &str) -> Option<u32> {
    let tids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().skip(1);
    tids.last()?.parse().ok()
}

/// The inode number in `pid:[4026531836]`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_in_a_nested_namespace_has_another_tid() {
        assert_eq!(innermost("Name:\tsh\nNSpid:\t4711\nNSpgid:\t4711\n"), None);
        assert_eq!(innermost("Name:\tsh\nNSpid:\t4711\t312\t17\nNSpgid:\t1\n"), Some(17));
        assert_eq!(innermost("Name:\tsh\n"), None);
    }

    #[test]
    fn a_namespace_is_identified_by_its_inode_number() {
        assert_eq!(inode("pid:[4026531836]"), Some(4_026_531_836));
        assert_eq!(inode("net:[4026531836]"), None);
    }
}
