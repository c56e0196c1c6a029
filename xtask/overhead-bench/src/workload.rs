//! The workloads, and how to run one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use wakelat_build::program_in_path;

use super::affinity::CpuList;
use super::load::{ForkLoad, Load, LoadTimes, READY, TokenRing};
use super::process::ProcessGroup;
use super::sigint::InterruptFlag;

/// Far more than a run takes, even under a slow instrument.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A load under which costs are measured.
pub struct BenchWorkload {
    /// Its name for `--workload`.
    pub id: &'static str,
    /// Its description.
    pub about: &'static str,
    /// The number of CPUs that it runs on.
    pub cpus: usize,
    command: LoadCommand,
}

enum LoadCommand {
    /// `perf bench` with these arguments and a number of rounds: one copy on each CPU, or one on all of
    /// them.
    Perf { args: &'static [&'static str], rounds: u64, copies: bool },
    /// One of the benchmark's own loads: `load` takes the divisor of its rounds, and `copies` processes run it.
    Own { load: fn(u64) -> Load, copies: usize },
}

/// All workloads. A run takes about half a second on a machine of 2024.
pub const WORKLOADS: [BenchWorkload; 7] = [
    BenchWorkload {
        id: "pipe",
        about: "`perf bench sched pipe`, both sides on one CPU",
        cpus: 1,
        command: LoadCommand::Perf { args: &["pipe", "-l"], rounds: 200_000, copies: false },
    },
    BenchWorkload {
        id: "pipe-2",
        about: "`perf bench sched pipe`, one on each of two CPUs",
        cpus: 2,
        command: LoadCommand::Perf { args: &["pipe", "-l"], rounds: 200_000, copies: true },
    },
    BenchWorkload {
        id: "messaging",
        about: "`perf bench sched messaging`: 40 senders and 40 receivers on two CPUs",
        cpus: 2,
        command: LoadCommand::Perf { args: &["messaging", "-g", "2", "-l"], rounds: 500, copies: false },
    },
    BenchWorkload {
        id: "think",
        about: "8 threads that think for some 30 µs and wake each other, 3 of them at a time on two CPUs",
        cpus: 2,
        command: LoadCommand::Own {
            load: |part| Load::Ring(TokenRing { threads: 8, tokens: 3, work: 30_000, hops: 10_000 / part }),
            copies: 1,
        },
    },
    BenchWorkload {
        id: "forks",
        about: "forks of processes that end at once, one after another on one CPU",
        cpus: 1,
        command: LoadCommand::Own { load: |part| Load::Forks(ForkLoad { children: 5_000 / part }), copies: 1 },
    },
    BenchWorkload {
        id: "ring-10",
        about: "10 threads that wake each other in turn on one CPU",
        cpus: 1,
        command: LoadCommand::Own {
            load: |part| Load::Ring(TokenRing { threads: 10, tokens: 1, work: 0, hops: 200_000 / part }),
            copies: 1,
        },
    },
    BenchWorkload {
        id: "ring-20000",
        about: "20,000 threads in two processes, which wake each other in turn on one CPU: all but two sleep",
        cpus: 1,
        // One process has no room for as many, with 65,530 mappings (vm.max_map_count) and four for each
        // thread.
        command: LoadCommand::Own {
            load: |part| Load::Ring(TokenRing { threads: 10_000, tokens: 1, work: 0, hops: 100_000 / part }),
            copies: 2,
        },
    },
];

/// A workload that is ready to run: if it is one of the benchmark's own, its tasks exist.
pub struct PreparedWorkload {
    cpus: CpuList,
    printed: PathBuf,
    part: u64,
    processes: LoadProcesses,
}

enum LoadProcesses {
    Perf { perf: PathBuf, args: &'static [&'static str], rounds: u64, copies: bool },
    Own(Vec<LoadProcess>),
}

/// A process that runs one of the benchmark's own loads, killed when dropped.
struct LoadProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl BenchWorkload {
    /// Prepares the workload on `cpus`, with one in `part` of its rounds in each run. Its output goes to
    /// files below `directory`.
    ///
    /// # Errors
    /// Fails if it needs a program that is missing, or more threads than there is room for.
    pub fn stage(&self, cpus: CpuList, part: u64, directory: &Path) -> anyhow::Result<PreparedWorkload> {
        let processes = match self.command {
            LoadCommand::Perf { args, rounds, copies } => {
                let perf = program_in_path("perf").context("needs `perf`; install `linux-perf`")?;
                LoadProcesses::Perf { perf, args, rounds, copies }
            }
            LoadCommand::Own { load, copies } => {
                let load = load(part);
                LoadProcesses::Own(
                    (0..copies).map(|_| LoadProcess::stage(&load, &cpus)).collect::<anyhow::Result<_>>()?,
                )
            }
        };
        Ok(PreparedWorkload { cpus, printed: directory.join(self.id), part, processes })
    }
}

impl PreparedWorkload {
    /// Runs the workload once.
    ///
    /// # Errors
    /// Fails if the workload fails, or the run is interrupted.
    pub fn perform(&mut self, interrupt: &InterruptFlag) -> anyhow::Result<LoadTimes> {
        interrupt.check()?;
        match &mut self.processes {
            LoadProcesses::Perf { perf, args, rounds, copies } => {
                let cpu_lists: Vec<CpuList> = match copies {
                    true => self.cpus.0.iter().map(|cpu| CpuList(vec![*cpu])).collect(),
                    false => vec![self.cpus.clone()],
                };
                let cpu_before = children_cpu_s()?;
                let start = |(copy, cpus): (usize, &CpuList)| {
                    let mut command = Command::new(&*perf);
                    command.args(["bench", "sched"]).args(*args).arg((*rounds / self.part).to_string());
                    ProcessGroup::spawn(&mut command, cpus, self.printed.with_extension(copy.to_string()))
                };
                let mut groups = cpu_lists.iter().enumerate().map(start).collect::<anyhow::Result<Vec<_>>>()?;
                let mut elapsed_s = 0.0;
                for group in &mut groups {
                    let printed = group.outcome(TIMEOUT, interrupt)?;
                    elapsed_s += total_time_s(&printed).with_context(|| format!("`perf bench` printed `{printed}`"))?;
                }
                // The copies run in parallel, so they take as long as one of them does on average.
                Ok(LoadTimes { elapsed_s: elapsed_s / groups.len() as f64, cpu_s: children_cpu_s()? - cpu_before })
            }
            LoadProcesses::Own(processes) => {
                processes.iter_mut().try_for_each(LoadProcess::begin)?;
                let took = processes.iter_mut().map(LoadProcess::took).collect::<anyhow::Result<Vec<_>>>()?;
                Ok(LoadTimes {
                    elapsed_s: took.iter().map(|took| took.elapsed_s).fold(0.0, f64::max),
                    cpu_s: took.iter().map(|took| took.cpu_s).sum(),
                })
            }
        }
    }
}

impl LoadProcess {
    fn stage(load: &Load, cpus: &CpuList) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "--perform", &serde_json::to_string(load)?]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = cpus.inherited(|| command.spawn())?.context("cannot start another process of this program")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut process = Self { child, input, output };
        let line = process.next_line()?;
        ensure!(line == READY, "the load printed `{line}`, expected `{READY}`");
        Ok(process)
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.input.write_all(b"perform\n").and_then(|()| self.input.flush()).context("the load is gone")
    }

    fn took(&mut self) -> anyhow::Result<LoadTimes> {
        let line = self.next_line()?;
        serde_json::from_str(&line).with_context(|| format!("the load printed `{line}`"))
    }

    fn next_line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("the load is gone")?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The time that `perf bench` reports: `Total time: 0.575 [sec]`.
fn total_time_s(printed: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.trim().strip_prefix("Total time:"))?;
    line.trim().strip_suffix("[sec]")?.trim().parse().ok()
}

/// CPU time of children that have ended and were waited for: seconds.
fn children_cpu_s() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_perf_bench_is_read() {
        let printed = "# Running 'sched/pipe' benchmark:\n# Executed 100000 pipe operations between two processes\n\n\
                       \x20    Total time: 0.575 [sec]\n\n       5.752850 usecs/op\n         173826 ops/sec\n";
        assert_eq!(total_time_s(printed), Some(0.575));
        assert_eq!(total_time_s("Usage: perf bench"), None);
    }

    #[test]
    fn no_two_workloads_have_the_same_name() {
        let ids: std::collections::BTreeSet<_> = WORKLOADS.iter().map(|workload| workload.id).collect();
        assert_eq!(ids.len(), WORKLOADS.len());
    }
}
