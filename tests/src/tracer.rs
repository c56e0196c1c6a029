//! The timerlat tracer's output as a test reads it: from the kernel's own text, and from the text that
//! wakelat saves.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use nix::sys::signal::Signal;

use crate::{
    skip::Skip,
    tracefs,
    wakelat::{RunOutput, Wakelat, command},
};

/// The settings that are global to the machine.
const SETTINGS: [&str; 9] = [
    "osnoise/cpus",
    "osnoise/options",
    "osnoise/period_us",
    "osnoise/runtime_us",
    "osnoise/stop_tracing_us",
    "osnoise/stop_tracing_total_us",
    "osnoise/timerlat_period_us",
    "osnoise/print_stack",
    "tracing_thresh",
];

/// Skips the test if this kernel does not have the tracer.
pub fn need(tracer: &str) -> Result<(), Skip> {
    if tracefs::read("available_tracers").split_whitespace().any(|other| other == tracer) {
        Ok(())
    } else {
        Err(Skip::because(format!("this kernel has no tracer `{tracer}`")))
    }
}

/// Skips the test if `source` needs tracepoints for the samples and this kernel has none.
pub fn need_source(source: &str) -> Result<(), Skip> {
    if source == "bpf" && !tracefs::path("events/osnoise/timerlat_sample").exists() {
        return Err(Skip::because("this kernel has no tracepoint `osnoise:timerlat_sample`"));
    }
    Ok(())
}

/// The file in which wakelat saves what it reads.
fn file() -> PathBuf {
    std::env::temp_dir().join(format!("wakelat-timerlat-{}.txt", std::process::id()))
}

fn arguments<'a>(verb: &'a str, file: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec![verb, "--json", "--trace", file.to_str().expect("a name of ASCII")];
    all.extend(more);
    all
}

/// The saved text, whose file is removed; empty if no run has got as far as saving.
pub fn saved() -> ParsedTrace {
    let path = file();
    let trace = if path.exists() { ParsedTrace::read(&path) } else { ParsedTrace::default() };
    let _ = fs::remove_file(path);
    trace
}

/// Runs `wakelat timerlat` or `wakelat osnoise` to the end, and returns the output and what was saved.
pub fn run(verb: &str, more: &[&str]) -> (RunOutput, ParsedTrace) {
    let ended = Wakelat::start(command(&arguments(verb, &file(), more))).end();
    (ended, saved())
}

/// Runs `wakelat timerlat` or `wakelat osnoise` to the end and returns its document. Nothing is saved,
/// so it records no more than it shows.
pub fn document(verb: &[&str], more: &[&str]) -> serde_json::Value {
    let ended = Wakelat::start(command(&[verb, &["--json"], more].concat())).end();
    assert!(ended.status.success(), "{ended:#?}");
    serde_json::from_str(&ended.stdout).expect("a document")
}

/// Starts a `wakelat timerlat` that measures until it is stopped.
pub fn running(more: &[&str]) -> Wakelat {
    Wakelat::measuring(command(&arguments("timerlat", &file(), more)))
}

/// Stops it as Ctrl-C does, and returns the output and what was saved.
pub fn end(wakelat: Wakelat) -> (RunOutput, ParsedTrace) {
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    (ended, saved())
}

/// The value of a setting. Read with one call, as some of these files require.
pub fn setting(file: &str) -> String {
    let mut text = Vec::with_capacity(1 << 16);
    let read =
        fs::File::open(tracefs::path(file)).and_then(|mut open| std::io::Read::read_to_end(&mut open, &mut text));
    read.map(|_| String::from_utf8_lossy(&text).trim().to_owned()).unwrap_or_default()
}

/// Everything in tracefs that a run may change: the settings, the tracer of the main instance, the instances.
pub fn state() -> BTreeMap<String, String> {
    let mut state: BTreeMap<String, String> = SETTINGS.iter().map(|file| ((*file).to_owned(), setting(file))).collect();
    state.insert("current_tracer".to_owned(), setting("current_tracer"));
    let instances: BTreeSet<String> = fs::read_dir(tracefs::path("instances"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    state.insert("instances".to_owned(), format!("{instances:?}"));
    state
}

/// A latency from the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceLatency {
    /// The CPU.
    pub cpu: u32,
    /// Number of the activation.
    pub seq: u64,
    /// `irq`, `thread` or `user-ret`.
    pub context: String,
    /// Timer latency: ns.
    pub latency_ns: u64,
}

/// A parsed trace text.
#[derive(Clone, Debug, Default)]
pub struct ParsedTrace {
    /// Latencies with their times, in the order of the text: µs.
    pub latencies: Vec<(u64, TraceLatency)>,
    /// Time that each thread took according to `thread_noise`, by CPU and name: ns.
    pub threads: BTreeMap<(u32, String), u64>,
    /// Each noise event: CPU, and the text from the event's name on without its start, with its length in ns.
    pub noises: Vec<(u32, String)>,
    /// Lines of stacks.
    pub frames: Vec<String>,
}

impl ParsedTrace {
    /// Parses a text with lines such as
    /// `  timerlat/5-1035  [005] .......   548.771104: #402268 context thread …`.
    pub fn parse(text: &str) -> Self {
        let mut trace = Self::default();
        for line in text.lines() {
            if let Some(frame) = line.strip_prefix(" => ") {
                trace.frames.push(frame.to_owned());
            } else if !line.starts_with('#') {
                trace.line(line);
            }
        }
        trace
    }

    /// Parses a file that wakelat saved.
    pub fn read(path: &Path) -> Self {
        Self::parse(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let (head, message) = line.split_once(": ")?;
        let at_us = head.split_whitespace().next_back()?.replace('.', "").parse().ok()?;
        let cpu = head.split('[').next_back()?.split(']').next()?.parse().ok()?;
        let words: Vec<&str> = message.split_whitespace().collect();
        if let [seq, "context", context, "timer_latency", latency, "ns"] = words[..] {
            let (seq, latency_ns) = (seq.strip_prefix('#')?.parse().ok()?, latency.parse().ok()?);
            self.latencies.push((at_us, TraceLatency { cpu, seq, context: context.to_owned(), latency_ns }));
        } else if message.contains("_noise: ") {
            let (what, rest) = message.split_once(" start ")?;
            let duration_ns: u64 = rest.split_once("duration ")?.1.split(' ').next()?.parse().ok()?;
            self.noises.push((cpu, format!("{} {duration_ns}", what.split_whitespace().collect::<Vec<_>>().join(" "))));
            if let Some(thread) = what.strip_prefix("thread_noise: ") {
                let name = thread.trim().rsplit_once(':')?.0.to_owned();
                *self.threads.entry((cpu, name)).or_default() += duration_ns;
            }
        }
        Some(())
    }

    /// The latencies of a context, by CPU, in the order of the text: time in µs and activation.
    pub fn of(&self, context: &str) -> BTreeMap<u32, Vec<(u64, u64)>> {
        let mut found: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for (at_us, latency) in self.latencies.iter().filter(|(_, latency)| latency.context == context) {
            found.entry(latency.cpu).or_default().push((*at_us, latency.seq));
        }
        found
    }
}

/// An instance of the test's own with the same tracer, which the kernel feeds to every instance that
/// enables it. Dropping it removes the instance.
pub struct ReferenceInstance(PathBuf);

impl ReferenceInstance {
    /// Creates the instance, with the noise events enabled.
    pub fn make(tracer: &str) -> Self {
        let name = "instances/wl-witness";
        fs::create_dir(tracefs::path(name)).expect("an instance can be made");
        let witness = Self(tracefs::path(name));
        for event in ["irq_noise", "softirq_noise", "nmi_noise", "thread_noise"] {
            tracefs::append(&format!("{name}/events/osnoise/{event}/enable"), "1");
        }
        tracefs::append(&format!("{name}/current_tracer"), tracer);
        witness
    }

    /// Stops recording, and returns the recorded text.
    pub fn text(&self) -> String {
        tracefs::append("instances/wl-witness/tracing_on", "0");
        fs::read_to_string(self.0.join("trace")).expect("an instance has a trace")
    }
}

impl Drop for ReferenceInstance {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("current_tracer"), "nop");
        let _ = fs::remove_dir(&self.0);
    }
}
