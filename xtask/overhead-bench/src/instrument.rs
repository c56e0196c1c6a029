//! The instruments: how to find and start each of them, and how to know that it measures and what it lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use wakelat_build::program_in_path;

use super::losses::LossSource;

/// One way to measure scheduling latency, or none.
pub struct Instrument {
    /// Its name for `--instrument`.
    pub id: String,
    /// Its name in the table.
    pub title: String,
    /// What it is.
    pub kind: InstrumentKind,
}

/// What an instrument is.
pub enum InstrumentKind {
    /// The workload compared with itself: shows what the method finds if there is nothing to find.
    Nothing,
    /// Empty programs: see [`super::floor`].
    Floor,
    /// A program that runs until SIGINT.
    Program(ToolCommand),
}

/// How to run a program.
pub struct ToolCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// How to know that it measures.
    pub ready: ReadySignal,
    /// Where it reports losses.
    pub loss_source: LossSource,
}

/// How to know that a tool measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadySignal {
    /// One of its BPF programs has run.
    FirstRun,
    /// It answers on the control channel that perf opens after its events are enabled
    /// (tools/perf/Documentation/perf-record.txt).
    Answers,
    /// Ftrace has `sched_switch` enabled.
    EventOn,
}

/// The id of the instrument that the others are compared with.
pub const REFERENCE: &str = "runqlat";

/// The id of [`InstrumentKind::Floor`].
pub const FLOOR: &str = "floor";

/// The Debian packages of the tools.
pub const DEBIAN_PACKAGES: [&str; 5] = ["linux-perf", "libbpf-tools", "bpfcc-tools", "bpftrace", "trace-cmd"];

/// A tool from a package, and how to run it.
struct Peer {
    id: &'static str,
    title: &'static str,
    package: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    ready: ReadySignal,
    loss_source: LossSource,
}

/// The tools to compare with. `{}` is replaced by the directory of results.
const PEERS: [Peer; 5] = [
    Peer {
        id: REFERENCE,
        title: "runqlat (libbpf-tools)",
        package: "libbpf-tools",
        program: "runqlat",
        args: &[],
        ready: ReadySignal::FirstRun,
        loss_source: LossSource::Nowhere,
    },
    Peer {
        id: "runqlat-bcc",
        title: "runqlat (bcc)",
        package: "bpfcc-tools",
        program: "runqlat-bpfcc",
        args: &[],
        ready: ReadySignal::FirstRun,
        loss_source: LossSource::Nowhere,
    },
    Peer {
        id: "runqlat-bt",
        title: "runqlat.bt",
        package: "bpftrace",
        program: "bpftrace",
        args: &["{}/runqlat.bt"],
        ready: ReadySignal::FirstRun,
        loss_source: LossSource::Nowhere,
    },
    Peer {
        id: "perf-sched",
        title: "perf sched record",
        package: "linux-perf",
        program: "perf",
        args: &["sched", "record", "--output", "{}/perf.data", "--control=fifo:{}/perf.control,{}/perf.answer"],
        ready: ReadySignal::Answers,
        loss_source: LossSource::PerfRecord,
    },
    Peer {
        id: "trace-cmd",
        title: "trace-cmd record",
        package: "trace-cmd",
        program: "trace-cmd",
        args: &[
            "record",
            "-o",
            "{}/trace.dat",
            "-e",
            "sched:sched_wakeup",
            "-e",
            "sched:sched_wakeup_new",
            "-e",
            "sched:sched_waking",
            "-e",
            "sched:sched_switch",
        ],
        ready: ReadySignal::EventOn,
        loss_source: LossSource::TraceCmd,
    },
];

/// An instrument that cannot run here.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SkippedInstrument {
    /// Its id.
    pub instrument: String,
    /// Its name in the table.
    pub title: String,
    /// The workload under which it cannot run, if it can run under others.
    pub workload: Option<&'static str>,
    /// Why it cannot run, and the remedy.
    pub reason: String,
}

impl SkippedInstrument {
    /// Whether it is `instrument`, and cannot run under `workload`.
    pub fn is(&self, instrument: &str, workload: &str) -> bool {
        self.instrument == instrument && self.workload.is_none_or(|skipped| skipped == workload)
    }
}

/// Returns all instruments, in the order of the table, and those whose program is missing.
///
/// # Errors
/// Fails if wakelat does not run.
pub fn all(wakelat: &Path, directory: &Path) -> anyhow::Result<(Vec<Instrument>, Vec<SkippedInstrument>)> {
    let plain = |id: &str, title: &str, kind| Instrument { id: id.into(), title: title.into(), kind };
    let mut instruments = vec![
        plain("nothing", "nothing", InstrumentKind::Nothing),
        plain(FLOOR, "empty programs", InstrumentKind::Floor),
    ];
    let help = Command::new(wakelat).args(["hist", "--help"]).output().context("cannot run wakelat")?;
    let help = String::from_utf8_lossy(&help.stdout);
    for (id, title, args) in modes(&help) {
        // All classes in one distribution, as the other tools measure. The report is a single line.
        let fixed = ["hist", "--json", "--quiet", "--class", "runqueue"];
        let command = ToolCommand {
            program: wakelat.to_owned(),
            args: fixed.iter().chain(args).map(|arg| (*arg).to_owned()).collect(),
            ready: ReadySignal::FirstRun,
            loss_source: LossSource::Coverage,
        };
        instruments.push(plain(id, title, InstrumentKind::Program(command)));
    }
    instruments.push(plain("wakelat-why", "wakelat why", InstrumentKind::Program(why(wakelat, &[]))));
    if help.contains("queued") {
        let command = why(wakelat, &["--mode", "aggregate", "--by", "cgroup"]);
        instruments.push(plain("wakelat-causes", "wakelat why --mode aggregate", InstrumentKind::Program(command)));
    }
    if knows_flight_recorder(wakelat)? {
        let command = flight_recorder(wakelat, directory);
        instruments.push(plain("wakelat-last", "wakelat record --last 30s", InstrumentKind::Program(command)));
    }
    let mut skipped = Vec::new();
    for peer in PEERS {
        match program_in_path(peer.program) {
            Some(program) => instruments.push(peer.instrument(program, directory)),
            None => skipped.push(SkippedInstrument {
                instrument: peer.id.to_owned(),
                title: peer.title.to_owned(),
                workload: None,
                reason: format!("not installed; `cargo xtask bench --install`, or install `{}`", peer.package),
            }),
        }
    }
    Ok((instruments, skipped))
}

/// `wakelat why`: without `more` arguments, with all components of all waits.
fn why(wakelat: &Path, more: &[&str]) -> ToolCommand {
    ToolCommand {
        program: wakelat.to_owned(),
        args: ["why", "--json", "--quiet"].iter().chain(more).map(|arg| (*arg).to_owned()).collect(),
        ready: ReadySignal::FirstRun,
        loss_source: LossSource::Coverage,
    }
}

/// Whether this version of wakelat has a flight recorder.
fn knows_flight_recorder(wakelat: &Path) -> anyhow::Result<bool> {
    let help = Command::new(wakelat).args(["record", "--help"]).output().context("cannot run wakelat")?;
    Ok(String::from_utf8_lossy(&help.stdout).contains("--last <"))
}

/// `wakelat record --last`: without a trigger, which would write a file.
fn flight_recorder(wakelat: &Path, directory: &Path) -> ToolCommand {
    let file = directory.join("last.wakelat").to_string_lossy().into_owned();
    let args = ["record", "--last", "30s", "--output"].map(str::to_owned);
    ToolCommand {
        program: wakelat.to_owned(),
        args: args.into_iter().chain([file]).collect(),
        ready: ReadySignal::FirstRun,
        loss_source: LossSource::CoverageWarnings,
    }
}

type Mode = (&'static str, &'static str, &'static [&'static str]);

/// wakelat in each mode that its help lists.
fn modes(help: &str) -> Vec<Mode> {
    const BY_TASK: Mode = ("wakelat-by-tid", "wakelat --by tid", &["--by", "tid"]);
    const QUEUED: [Mode; 3] = [
        ("wakelat-queued", "wakelat --from queued", &["--from", "queued", "--mode", "aggregate"]),
        ("wakelat-queued-cgroup", "wakelat --from queued --by cgroup", &["--from", "queued", "--by", "cgroup"]),
        ("wakelat-queued-samples", "wakelat --from queued --mode samples", &["--from", "queued", "--mode", "samples"]),
    ];
    let mut modes: Vec<Mode> = if help.contains("--mode <") {
        vec![
            ("wakelat-aggregate", "wakelat --mode aggregate", &["--mode", "aggregate"]),
            ("wakelat-samples", "wakelat --mode samples", &["--mode", "samples"]),
        ]
    } else {
        vec![("wakelat", "wakelat", &[])]
    };
    if help.contains("queued") {
        modes.extend(QUEUED);
    }
    modes.push(BY_TASK);
    modes
}

impl Peer {
    fn instrument(&self, program: PathBuf, directory: &Path) -> Instrument {
        let directory = directory.to_string_lossy();
        let command = ToolCommand {
            program,
            args: self.args.iter().map(|arg| arg.replace("{}", &directory)).collect(),
            ready: self.ready,
            loss_source: self.loss_source,
        };
        Instrument { id: self.id.to_owned(), title: self.title.to_owned(), kind: InstrumentKind::Program(command) }
    }
}

/// Copies bpftrace's `runqlat.bt` to where the arguments in [`PEERS`] expect it, if it is installed. It
/// includes a kernel header for one constant, and does not compile if that header is not installed. So the
/// constant replaces the header, as in later versions of bpftrace's own script.
///
/// # Errors
/// Fails if the script cannot be read or written.
pub fn prepare_runqlat_bt(directory: &Path) -> anyhow::Result<()> {
    let Some(script) = program_in_path("runqlat.bt") else { return Ok(()) };
    let text = fs::read_to_string(&script).with_context(|| format!("cannot read `{}`", script.display()))?;
    fs::write(directory.join("runqlat.bt"), without_header(&text)).context("cannot write the bpftrace script")
}

fn without_header(script: &str) -> String {
    // Name and value as in include/linux/sched.h, unchanged since 1.0.
    script.replace("#include <linux/sched.h>", "#define TASK_RUNNING 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_of_wakelat_is_measured_if_it_has_modes() {
        let ids = |help| modes(help).into_iter().map(|(id, ..)| id).collect::<Vec<_>>();
        assert_eq!(ids("  --by <KEYS>"), ["wakelat", "wakelat-by-tid"]);
        assert_eq!(ids("  --mode <MODE>"), ["wakelat-aggregate", "wakelat-samples", "wakelat-by-tid"]);
        let all = "  --mode <MODE>\n  --from <EVENT>  wakeup, waking or queued";
        let queued = ["wakelat-queued", "wakelat-queued-cgroup", "wakelat-queued-samples"];
        assert_eq!(ids(all)[2..5], queued);
    }

    #[test]
    fn every_package_of_a_peer_can_be_installed() {
        for peer in PEERS {
            assert!(DEBIAN_PACKAGES.contains(&peer.package), "{}", peer.package);
        }
    }

    #[test]
    fn a_tool_writes_only_to_the_directory_of_results() {
        let perf = PEERS.iter().find(|peer| peer.id == "perf-sched").unwrap();
        let InstrumentKind::Program(command) = perf.instrument("perf".into(), Path::new("results")).kind else {
            unreachable!()
        };
        assert_eq!(command.args[3..], ["results/perf.data", "--control=fifo:results/perf.control,results/perf.answer"]);
        assert_eq!(flight_recorder("wakelat".as_ref(), Path::new("results")).args[4], "results/last.wakelat");
    }

    #[test]
    fn the_script_keeps_everything_but_its_header() {
        let script = "#!/usr/bin/env bpftrace\n#include <linux/sched.h>\nBEGIN {}\n";
        assert_eq!(without_header(script), "#!/usr/bin/env bpftrace\n#define TASK_RUNNING 0\nBEGIN {}\n");
    }
}
