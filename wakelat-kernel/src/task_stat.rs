//! `/proc/PID/task/TID/stat`: what the kernel shows of a thread (proc_pid_stat(5); `do_task_stat()`, fs/proc/array.c, 5.10 to 7.2).

use std::{fs, path::Path, str::FromStr};

/// The fields of a thread.
pub struct TaskStat(String);

impl TaskStat {
    /// Reads the fields of thread `tid`; `None` if there is no such thread.
    ///
    /// The file below `task` is about this thread only. For `/proc/TID/stat`, the kernel adds up the times of all threads
    /// of the process, before Linux 6.8 with interrupts disabled.
    pub fn read(proc: &Path, tid: u32) -> Option<Self> {
        fs::read_to_string(proc.join(format!("{tid}/task/{tid}/stat"))).ok().map(Self)
    }

    /// The field with this number in the manual page, which is 3 or more; `None` if it is not a `T`.
    fn field<T: FromStr>(&self, number: usize) -> Option<T> {
        // The name, in parentheses, may contain anything.
        let (_, fields) = self.0.rsplit_once(") ")?;
        fields.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
    }

    /// The PID of the parent (`ppid`).
    pub fn parent(&self) -> Option<u32> {
        self.field(4)
    }

    /// The flags of the task (`PF_*` of include/linux/sched.h).
    pub fn flags(&self) -> Option<u32> {
        self.field(9)
    }

    /// The scheduling policy (`SCHED_*` of include/uapi/linux/sched.h); 0 is `SCHED_OTHER`.
    pub fn policy(&self) -> Option<u32> {
        self.field(41)
    }

    /// When the thread was created: 1/100 s since boot (`starttime`; USER_HZ is 100). Distinguishes a thread from an
    /// earlier one with the same TID.
    pub fn created_at(&self) -> Option<u64> {
        self.field(22)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_thread_whatever_its_name() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir_all(proc.path().join("8/task/8")).unwrap();
        // A thread of process 7.
        fs::write(proc.path().join("8/stat"), "8 (of the process) R 1").unwrap();
        let fields = "8 (a) 9 (b) S 2 0 0 0 -1 67108928 0 0 0 0 0 0 0 0 -96 0 1 0 77 0 0 18446744073709551615 0 0 0 0 0 0 0 \
            2147483647 0 0 0 0 17 0 95 1 0 0 0 0 0 0 0 0 0 0 0\n";
        fs::write(proc.path().join("8/task/8/stat"), fields).unwrap();
        let stat = TaskStat::read(proc.path(), 8).unwrap();
        assert_eq!((stat.parent(), stat.flags(), stat.policy()), (Some(2), Some(67_108_928), Some(1)));
        assert_eq!(stat.created_at(), Some(77));
        assert_eq!([2, 3, 99].map(|number| stat.field::<u32>(number)), [None; 3]);
        assert!(TaskStat::read(proc.path(), 9).is_none());
    }
}
