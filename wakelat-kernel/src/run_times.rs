//! How long threads ran in a window: the difference of two readings of the kernel's counters ([`Schedstat`]).

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use super::{
    task_schedstat::{Schedstat, threads},
    task_stat::TaskStat,
};

/// The run times of the current window.
pub struct RunTimes {
    proc: PathBuf,
    begun: Readings,
    /// The readings at the end of the run; none before it.
    ended: Option<Readings>,
}

/// The counters of several threads, read one after another.
pub struct Readings {
    /// When the first thread was read, in 1/100 s since boot, as in [`TaskStat::created_at`].
    at: u64,
    /// Whether every thread that existed at the time was read.
    is_complete: bool,
    accounts: HashMap<u32, Schedstat>,
}

impl RunTimes {
    /// Creates run times without a window; they are unknown until [`Self::begin`].
    pub fn new(proc: &Path) -> Self {
        let begun = Readings { at: u64::MAX, is_complete: false, accounts: HashMap::new() };
        Self { proc: proc.to_owned(), begun, ended: None }
    }

    /// Begins a window: reads the counters of every thread, which takes 5 to 10 µs each.
    pub fn begin(&mut self) {
        self.begun = Readings { is_complete: true, ..self.read(threads(&self.proc)) };
    }

    /// Begins a window at the time of `readings`; run times of threads that are not in them are unknown.
    pub fn begin_at(&mut self, readings: Readings) {
        self.begun = readings;
    }

    /// Ends the run: reads the counters of every thread.
    pub fn end(&mut self) {
        self.ended = Some(self.read(threads(&self.proc)));
    }

    /// The readings of [`Self::end`] if the run has ended; otherwise reads the counters of `tids` now.
    pub fn now(&mut self, tids: impl Iterator<Item = u32>) -> Readings {
        let of_these = |tid: u32| (tid, self.proc.join(tid.to_string()));
        self.ended.take().unwrap_or_else(|| self.read(tids.map(of_these)))
    }

    /// How long thread `tid` has run since the window began, in ns. None if its counters at the beginning
    /// or in `now` are unknown. A thread that was created later has run only in the window.
    pub fn since(&self, now: &Readings, tid: u32) -> Option<u64> {
        // `0 0 0`: the kernel does not count at the moment (`sched_info_on()`).
        let schedstat = now.accounts.get(&tid).filter(|schedstat| schedstat.times > 0)?;
        let (born_at, before) = (TaskStat::read(&self.proc, tid)?.created_at()?, self.begun.accounts.get(&tid));
        // A thread created in the same 1/100 s as the readings counts as younger only if it was not among them.
        let is_missing = self.begun.is_complete && before.is_none();
        if born_at > self.begun.at || (born_at == self.begun.at && is_missing) {
            return Some(schedstat.ran_ns);
        }
        schedstat.ran_ns.checked_sub(before?.ran_ns)
    }

    fn read(&self, threads: impl Iterator<Item = (u32, PathBuf)>) -> Readings {
        let at = uptime(&self.proc).unwrap_or(u64::MAX);
        Readings {
            at,
            is_complete: false,
            accounts: threads.filter_map(|(tid, task)| Some((tid, Schedstat::read(&task)?))).collect(),
        }
    }
}

/// The time since boot in 1/100 s (proc_uptime(5)).
fn uptime(proc: &Path) -> Option<u64> {
    let uptime = fs::read_to_string(proc.join("uptime")).ok()?;
    uptime.split_whitespace().next()?.replace('.', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A procfs at 50.00 s since boot.
    fn proc(threads: &[(u32, u64, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("uptime"), "50.00 9.00\n").unwrap();
        threads.iter().for_each(|thread| set(directory.path(), *thread));
        directory
    }

    /// Writes a thread's files: TID, creation time, and schedstat.
    fn set(proc: &Path, (tid, born_at, schedstat): (u32, u64, &str)) {
        let zeros = "0 ".repeat(18);
        let task = proc.join(format!("{tid}/task/{tid}"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("stat"), format!("{tid} (a) b) R {zeros}{born_at} 0\n")).unwrap();
        for directory in [proc.join(tid.to_string()), task] {
            fs::write(directory.join("schedstat"), schedstat).unwrap();
        }
    }

    fn since(times: &mut RunTimes, tid: u32) -> Option<u64> {
        let now = times.now([tid].into_iter());
        times.since(&now, tid)
    }

    #[test]
    fn a_thread_ran_for_the_difference_of_its_readings() {
        let proc = proc(&[(7, 100, "1000 5 3")]);
        let mut times = RunTimes::new(proc.path());
        times.begin();
        set(proc.path(), (7, 100, "1700 9 5"));
        assert_eq!(since(&mut times, 7), Some(700));
        // After the end of the run, its readings count.
        times.end();
        set(proc.path(), (7, 100, "9999 9 9"));
        assert_eq!(since(&mut times, 7), Some(700));
    }

    #[test]
    fn a_thread_created_later_ran_only_in_the_window_even_if_its_tid_was_reused() {
        let proc = proc(&[(7, 100, "1000 5 3")]);
        let mut times = RunTimes::new(proc.path());
        times.begin();
        set(proc.path(), (7, 5001, "1700 9 5"));
        set(proc.path(), (8, 5001, "30 0 1"));
        // Created in the same 1/100 s as the readings.
        set(proc.path(), (9, 5000, "20 0 1"));
        assert_eq!([7, 8, 9].map(|tid| since(&mut times, tid)), [Some(1700), Some(30), Some(20)]);
    }

    #[test]
    fn an_unknown_run_time_is_not_guessed() {
        let proc = proc(&[(7, 100, "1000 5 3"), (8, 100, "0 0 0")]);
        let mut times = RunTimes::new(proc.path());
        assert_eq!(since(&mut times, 7), None, "no window has begun");
        times.begin();
        // 9 existed but was not read, 10 does not exist, 8 has no counters.
        set(proc.path(), (9, 4999, "1700 9 5"));
        assert_eq!([9, 10, 8].map(|tid| since(&mut times, tid)), [None; 3]);
        // Only threads read at the end of a window are known in the next one.
        let now = times.now([7].into_iter());
        times.begin_at(now);
        set(proc.path(), (7, 100, "1500 5 4"));
        set(proc.path(), (8, 100, "10 5 4"));
        assert_eq!([7, 8].map(|tid| since(&mut times, tid)), [Some(500), None]);
    }
}
