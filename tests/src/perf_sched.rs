//! `perf sched`: a recording of the scheduler's tracepoints, and perf's analysis of it.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        stat::Mode,
    },
    unistd::{Pid, mkfifo},
};

use crate::{skip::Skip, tool, workload::until};

/// The events of `perf sched record` (tools/perf/builtin-sched.c, `__cmd_record()`), with
/// `sched_wakeup` in addition to `sched_waking`: perf 6.1 records only the latter, from which its
/// `timehist` takes delays, but its `latency` takes them from the former.
const EVENTS: [&str; 7] = [
    "sched:sched_switch",
    "sched:sched_stat_runtime",
    "sched:sched_process_fork",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_waking",
    "sched:sched_migrate_task",
];

/// A running `perf record`, killed when dropped.
pub struct PerfSched {
    perf: String,
    child: Child,
    directory: PathBuf,
}

/// A line of `perf sched timehist`: a task has left its CPU. perf prints µs.
#[derive(Clone, Copy, Debug)]
pub struct PerfTimehistLine {
    /// When the task left the CPU: ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The task.
    pub tid: u32,
    /// From its previous switch-out to its switch-in: ns; 0 if perf does not know.
    pub wait_ns: u64,
    /// From its wakeup to its switch-in: ns; 0 if it was not woken.
    pub delay_ns: u64,
    /// How long it ran, as perf sees it: since the last switch of the CPU that perf saw: ns.
    pub run_ns: u64,
    /// Whether that last switch was the switch-in of this task.
    pub came: bool,
}

/// A line of `perf sched latency --pids`.
#[derive(Clone, Copy, Debug)]
pub struct PerfLatency {
    /// The task.
    pub tid: u32,
    /// Number of waits.
    pub count: u64,
    /// Mean latency: ns.
    pub avg_ns: u64,
    /// Longest latency: ns.
    pub max_ns: u64,
}

impl PerfSched {
    /// Starts to record, on all CPUs, with wakelat's clock. Returns once perf reports that it records.
    ///
    /// # Errors
    /// If perf is not installed or cannot record here.
    pub fn record() -> Result<Self, Skip> {
        let perf = tool::find("perf", "linux-perf")?;
        let directory = std::env::temp_dir().join(format!("wakelat-perf-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).expect("a directory for the recording");
        let (control, answer) = (fifo(&directory.join("control")), fifo(&directory.join("answer")));
        let mut command = Command::new(&perf);
        command.current_dir(&directory).args(["record", "--all-cpus", "--raw-samples", "--count", "1"]);
        command.args(["--mmap-pages", "8192", "--clockid", "CLOCK_MONOTONIC", "--output", "recording"]);
        command.args(EVENTS.iter().flat_map(|event| ["--event", event]));
        command.args(["--delay", "-1", "--control", "fifo:control,answer"]);
        let errors = File::create(directory.join("errors")).expect("a file beside the recording");
        let child = command.stdout(Stdio::null()).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| panic!("{perf}: {error}"));
        let mut recording = Self { perf, child, directory };
        (&control).write_all(b"enable\n").expect("a pipe has room");
        let mut ended = false;
        until("perf records", || {
            ended = recording.child.try_wait().expect("a child").is_some();
            ended || has_answered(&answer)
        });
        if ended {
            let errors = fs::read_to_string(recording.directory.join("errors")).unwrap_or_default();
            return Err(Skip::because(format!("`perf record` does not run here: {}", errors.trim())));
        }
        Ok(recording)
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// If perf itself lost events, because then there is nothing to compare with.
    pub fn stop(&mut self) -> Result<(), Skip> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).expect("perf is running");
        let status = self.child.wait().expect("a child can be waited for");
        let errors = fs::read_to_string(self.directory.join("errors")).unwrap_or_default();
        assert!(self.directory.join("recording").is_file(), "{status}: {errors}");
        if errors.contains("lost") {
            return Err(Skip::because(format!("perf lost events: {}", errors.trim())));
        }
        Ok(())
    }

    /// Every line of `perf sched timehist`, in its order.
    pub fn timehist(&self) -> Vec<PerfTimehistLine> {
        let text = self.sched(&["timehist", "--next"]);
        let mut next_tasks = std::collections::HashMap::new();
        let lines = text.lines().filter_map(PerfTimehistLine::parse);
        lines
            .map(|(line, next)| {
                let came = next_tasks.insert(line.cpu, next);
                PerfTimehistLine { came: came == Some(line.tid), ..line }
            })
            .collect()
    }

    /// Every line of `perf sched latency --pids`, in its order.
    pub fn latency(&self) -> Vec<PerfLatency> {
        self.sched(&["latency", "--pids"]).lines().filter_map(PerfLatency::parse).collect()
    }

    /// Every event as text, with its time in ns.
    pub fn script(&self) -> String {
        self.run(&["script", "--input", "recording", "--header", "--ns"])
    }

    fn sched(&self, arguments: &[&str]) -> String {
        self.run(&[&["sched", "--input", "recording"], arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.perf);
        let output = command
            .current_dir(&self.directory)
            .args(arguments)
            .env("LC_ALL", "C")
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for PerfSched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Creates a fifo that is open at both ends, so that neither side waits for the other to open it.
fn fifo(path: &Path) -> File {
    mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    options.open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether perf has answered.
fn has_answered(mut answer: &File) -> bool {
    match answer.read(&mut [0; 16]) {
        Ok(read) => read > 0,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("perf's answer: {error}"),
    }
}

impl PerfTimehistLine {
    /// Parses a line and the next task from text such as
    ///
    /// ```text
    ///   4200.787959 [0001]  cargo[27189]    0.000      0.000      3.447      next: lto cgu.10[27184]
    /// ```
    fn parse(line: &str) -> Option<(Self, u32)> {
        let (at, rest) = line.split_once('[')?;
        let (cpu, rest) = rest.split_once(']')?;
        let (line, next) = rest.split_once("next:")?;
        let (task, figures) = match line.rsplit_once(']') {
            Some((task, figures)) => (tid(task)?, figures),
            None => (0, line.trim_start().strip_prefix("<idle>")?),
        };
        let mut figures = figures.split_whitespace().map(|figure| ns(figure, 1_000_000));
        let (wait_ns, delay_ns, run_ns) = (figures.next()??, figures.next()??, figures.next()??);
        let next = next.trim().strip_suffix(']').map_or(Some(0), tid)?;
        let line = Self {
            at_ns: ns(at.trim(), 1_000_000_000)?,
            cpu: cpu.parse().ok()?,
            tid: task,
            wait_ns,
            delay_ns,
            run_ns,
            came: false,
        };
        Some((line, next))
    }
}

impl PerfLatency {
    /// Parses text such as
    ///
    /// ```text
    ///   name:27198  |  21.576 ms |  210 | avg:  0.147 ms | max:  10.147 ms | max start: … | max end: … s
    /// ```
    fn parse(line: &str) -> Option<Self> {
        let mut cells = line.split('|').map(str::trim);
        let (_, tid) = cells.next()?.rsplit_once(':')?;
        let count = cells.nth(1)?.parse().ok()?;
        let mut figure = |name| {
            let text = cells.next()?.strip_prefix(name)?.strip_suffix("ms")?;
            ns(text.trim(), 1_000_000)
        };
        Some(Self { tid: tid.parse().ok()?, count, avg_ns: figure("avg:")?, max_ns: figure("max:")? })
    }
}

/// The thread in `name[thread/process` or `name[thread`.
fn tid(task: &str) -> Option<u32> {
    let (_, ids) = task.rsplit_once('[')?;
    ids.split('/').next()?.parse().ok()
}

/// Converts a decimal number, in a unit of `unit_ns` ns, to ns, exactly.
fn ns(text: &str, unit_ns: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    let scale = 10u64.checked_pow(fraction.len() as u32)?;
    Some(whole.parse::<u64>().ok()? * unit_ns + fraction.parse::<u64>().ok()? * (unit_ns / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_timehist_is_read() {
        let text = "    4200.798191 [0001]  lto cgu.10[27184/23773]             7.761      0.013      2.384  next: build-script-bu[20407]";
        let (line, next) = PerfTimehistLine::parse(text).unwrap();
        assert_eq!((line.at_ns, line.cpu, line.tid, next), (4_200_798_191_000, 1, 27184, 20407));
        assert_eq!((line.wait_ns, line.delay_ns, line.run_ns), (7_761_000, 13_000, 2_384_000));
        let idle = "    4200.798191 [0001]  <idle>     7.761      0.000      2.384  next: a [b][7]";
        assert_eq!(PerfTimehistLine::parse(idle).map(|(line, next)| (line.tid, next)), Some((0, 7)));
        assert!(
            PerfTimehistLine::parse("           time    cpu  task name     wait time  sch delay   run time").is_none()
        );
    }

    #[test]
    fn a_line_of_latency_is_read() {
        let text = "  sched-pipe:27215      |     15.313 ms |      206 | avg:   0.047 ms | max:   4.187 ms | max start:  4202.540047 s | max end:  4202.544234 s";
        let latency = PerfLatency::parse(text).unwrap();
        assert_eq!((latency.tid, latency.count, latency.avg_ns, latency.max_ns), (27215, 206, 47_000, 4_187_000));
        assert!(PerfLatency::parse("  TOTAL:                |     24.141 ms |      203 |").is_none());
    }
}
