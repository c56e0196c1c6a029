//! Recordings: what is written, and what is read instead of a measurement.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    Config, ConfigError, FilterConfig, FlightRecorderConfig, GroupingConfig, OutputConfig, Resources, WindowConfig,
    all_classes, archive,
};
use wakelat_core::{
    aggregate::key::Key,
    cgroup_path,
    files::MAX_FILES,
    recording::{CollectedEvents, Kept, MoreEvents, TimeRange},
    render::OutputFormat,
    report::{LatencyFrom, Mode},
};
use wakelat_kernel::Machine;

/// The input that is the recording of `wakelat demo` instead of a file.
pub const DEMO: &str = "demo:";

/// The interval of the readings in a recording of events or waits: ns. If the recording ends early, everything until the last
/// one is valid: everything until a second before, also if the reading that was due then was late.
const READING_INTERVAL_NS: u64 = 500_000_000;

/// The shortest interval that a view shows of a recording of events or waits, and the one of recorded histograms if none is
/// given: ns.
pub const RECORDED_INTERVAL_NS: u64 = 1_000_000_000;

/// What `record` writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordConfig {
    /// What is kept of the measurement.
    pub kept: Kept,
    /// The events that are collected besides switches.
    pub collected: CollectedEvents,
    /// The events besides those that explain waits.
    pub more: MoreEvents,
    /// The labels of the recording.
    pub labels: BTreeMap<String, String>,
    /// Why the recording is made, if that is known.
    pub trigger: Option<String>,
    /// What is kept and when it is written, if only the last events are kept.
    pub flight_recorder: Option<FlightRecorderConfig>,
}

impl RecordConfig {
    /// All events, with these besides switches, written as they come.
    pub(crate) const fn of_events(collected: CollectedEvents, labels: BTreeMap<String, String>) -> Self {
        Self {
            kept: Kept::Events,
            collected,
            more: MoreEvents { wakeups: false, migrations: false, waker_stacks: false, wakee_stacks: false },
            labels,
            trigger: None,
            flight_recorder: None,
        }
    }
}

/// A measurement that is recorded.
#[derive(Clone, Debug)]
pub struct RecordedMeasurement {
    /// The measurement, whose output is the recording.
    pub config: Config,
    /// What is recorded.
    pub record: RecordConfig,
}

/// A recording that is shown instead of a measurement.
#[derive(Clone, Debug, Default)]
pub struct RecordedInput {
    /// The files, of which there is at least one; `-` is standard input.
    pub paths: Vec<PathBuf>,
    /// The measurement that makes the recording while it is shown; `None` if it exists already.
    pub measured: Option<Box<RecordedMeasurement>>,
    /// Refuse a recording whose end is missing.
    pub is_strict: bool,
    /// The part that is shown.
    pub range: TimeRange,
    /// Cgroups, which include their descendants, as paths below the mount of the v2 hierarchy; empty for all.
    pub cgroups: Vec<String>,
    /// The classes were given, not the command's default: all of them must be in the recording.
    pub has_given_classes: bool,
    /// The event that starts the latency was given: the recording must have it.
    pub has_given_from: bool,
    /// The keys of groups were given, not the command's default: the recording must have them.
    pub has_given_keys: bool,
    /// The length of an interval is the command's default: it becomes longer if the recording has longer ones.
    pub has_default_interval: bool,
}

/// Number of groups if the command has no flag for it.
pub(crate) const MAX_GROUPS: usize = 16384;

impl Config {
    /// Shows the waits of all classes of a recording that the filter accepts: one result at the end, one group per class.
    pub(crate) fn recorded(input: RecordedInput, filter: FilterConfig, output: OutputConfig) -> Self {
        Self {
            input: Some(input),
            command: Vec::new(),
            window: WindowConfig::default(),
            filter,
            classes: all_classes(),
            merged: false,
            from: LatencyFrom::default(),
            by: Vec::new(),
            max_groups: MAX_GROUPS,
            mode: Mode::Samples,
            with_causes: false,
            traces_interrupts: false,
            max_overhead_ppm: None,
            keep_privileges: true,
            threshold: None,
            output,
            resources: Resources::none(),
            notes: Vec::new(),
        }
    }

    /// Whether several recordings are shown.
    pub(crate) fn shows_several_files(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.paths.len() > 1)
    }

    /// The keys of groups were given: a recording must have them.
    pub(crate) fn require_recorded_keys(&mut self) {
        self.input.iter_mut().for_each(|input| input.has_given_keys = true);
    }

    /// Shows an interval at a time, or whole intervals of a recording that has longer ones.
    pub(crate) fn set_default_intervals(&mut self, interval_ns: u64) -> Result<(), ConfigError> {
        self.input.iter_mut().for_each(|input| input.has_default_interval = true);
        self.set_intervals(Some(interval_ns), None)
    }

    /// These keys, and that of the file if several recordings are shown and a key has IDs of a machine: those of two
    /// recordings are never the same.
    pub(crate) fn recorded_keys(&self, mut by: Vec<Key>) -> Vec<Key> {
        let has_host = by.contains(&Key::Host);
        let needs_file = |key: &Key| key.is_of_one_machine() && !(has_host && *key == Key::Cpu);
        if self.shows_several_files() && by.iter().any(needs_file) && !by.contains(&Key::Recording) {
            by.push(Key::Recording);
        }
        by
    }
}

impl RecordedInput {
    /// Whether it is the recording of `wakelat demo`.
    pub fn is_demo(&self) -> bool {
        self.paths == [Path::new(DEMO)]
    }

    /// Checks that the files can be shown together.
    ///
    /// # Errors
    /// If a file is given more than once, or if there are too many.
    pub(crate) fn check_files(&self) -> Result<(), ConfigError> {
        let canonical: Vec<_> = self.paths.iter().map(|path| archive::identity(path)).collect();
        for (at, path) in self.paths.iter().enumerate() {
            if canonical[..at].contains(&canonical[at]) {
                let why = format!("`{}` is given more than once; give it once", path.display());
                return Err(ConfigError::usage("--input", why));
            }
        }
        if self.paths.len() > MAX_FILES {
            let why = format!("{} files are given; at most {MAX_FILES} can be shown together", self.paths.len());
            return Err(ConfigError::usage("--input", why));
        }
        Ok(())
    }

    /// The path of a recorded cgroup as in a recording, from one as the user gives it: below the usual mount, or with it.
    pub(crate) fn cgroup(path: &Path) -> String {
        let below = path.strip_prefix("/sys/fs/cgroup").unwrap_or(path);
        let text = match below.to_str() {
            // As views show it.
            Some(text) => format!("/{}", text.trim_matches('/')),
            None => cgroup_path::text(below),
        };
        text.trim_end_matches('/').to_owned()
    }

    /// Whether a recorded cgroup is one of the selected ones, or a descendant.
    pub fn wants_cgroup(&self, path: &str) -> bool {
        let is_below =
            |of: &String| path.strip_prefix(of.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.cgroups.is_empty() || self.cgroups.iter().any(is_below)
    }
}

/// Parses a label, `KEY=VALUE`.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not a label; expected KEY=VALUE")),
    }
}

/// The labels by key.
///
/// # Errors
/// If a key is given more than once.
pub(crate) fn labels(given: &[(String, String)]) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut labels = BTreeMap::new();
    for (key, value) in given {
        if labels.insert(key.clone(), value.clone()).is_some() {
            return Err(ConfigError::usage("--label", format!("`{key}` is given more than once; give it once")));
        }
    }
    Ok(labels)
}

/// Checks that the binary file of `command` can be written to `output`.
///
/// # Errors
/// If a text format is given, or if the output is a terminal.
pub(crate) fn check_recording_output(output: &OutputConfig, command: &str) -> Result<(), ConfigError> {
    let flag = match output.format {
        OutputFormat::Human if output.is_terminal() => {
            let why =
                "cannot write a binary file to a terminal; give a file, or redirect standard output to a file or pipe";
            return Err(ConfigError::usage("--output", why));
        }
        OutputFormat::Human => return Ok(()),
        OutputFormat::Json => "--json",
        OutputFormat::Csv => "--csv",
    };
    let why = format!("`{command}` writes its own format; leave it out, and use `wakelat trace -i FILE {flag}`");
    Err(ConfigError::usage(flag, why))
}

impl Config {
    /// Records all events to a file.
    ///
    /// # Errors
    /// If `--max-overhead` or another output format is given, or if the output is a terminal.
    pub(crate) fn set_recorded(&mut self) -> Result<(), ConfigError> {
        self.check_can_record_events()?;
        self.set_intervals(Some(READING_INTERVAL_NS), None)?;
        check_recording_output(&self.output, "record")
    }

    /// Records waits, without the events between them.
    ///
    /// # Errors
    /// If `--max-overhead` or another output format is given, or if the output is a terminal.
    pub(crate) fn set_recorded_waits(&mut self) -> Result<(), ConfigError> {
        self.check_can_record_events()?;
        self.set_intervals(Some(READING_INTERVAL_NS), None)?;
        check_recording_output(&self.output, "record")
    }

    /// Records a histogram for each interval and group, by `by` or by cgroup, which the programs aggregate if they can.
    /// Returns what is kept.
    ///
    /// # Errors
    /// If a key is not available on this machine or cannot be aggregated by; if `--max-overhead` or another output format is
    /// given; if the output is a terminal.
    pub(crate) fn set_recorded_histograms(
        &mut self,
        by: Vec<Key>,
        interval_ns: Option<u64>,
        machine: &Machine,
    ) -> Result<Kept, ConfigError> {
        if self.max_overhead_ppm.is_some() {
            let why = "cannot be used with `--keep hist`, whose histograms cover all tasks, not a sample; leave \
                       it out";
            return Err(ConfigError::usage("--max-overhead", why));
        }
        let default = if GroupingConfig::has_cgroups(machine) { Key::Cgroup } else { Key::Comm };
        let by = if by.is_empty() { vec![default] } else { by };
        if let Some(key) = by.iter().find(|key| !key.is_counted()) {
            let why = format!("`{}` needs a record of each wait; use `--keep waits`", key.name());
            return Err(ConfigError::usage("--by", why));
        }
        let interval_ns = interval_ns.unwrap_or(RECORDED_INTERVAL_NS);
        self.set_intervals(Some(interval_ns), None)?;
        // All classes are kept apart: a view can merge them.
        self.merged = false;
        let max_groups = self.max_groups;
        self.set_grouping(GroupingConfig { by: by.clone(), max_groups, mode: None }, Some(machine))?;
        check_recording_output(&self.output, "record")?;
        Ok(Kept::Histograms { by, interval_ns })
    }

    /// Records waits of all lengths, and writes no output besides the files of the flight recorder.
    ///
    /// # Errors
    /// If the output is no file.
    pub(crate) fn set_flight_recorder(&mut self) -> Result<(), ConfigError> {
        self.check_several_files("a flight recorder")?;
        self.threshold = None;
        Ok(())
    }

    /// Writes several files instead of the output. Returns what their names begin with.
    ///
    /// # Errors
    /// If the output is no file.
    #[cfg(feature = "parquet")]
    pub(crate) fn set_several_files(&mut self, writer: &str) -> Result<PathBuf, ConfigError> {
        self.check_several_files(writer)?;
        Ok(self.output.path.take().unwrap_or_default())
    }

    fn check_several_files(&self, writer: &str) -> Result<(), ConfigError> {
        if self.output.path.as_ref().is_some_and(|path| path.file_name().is_some()) {
            return Ok(());
        }
        let why = format!("{writer} writes several files; expected the name of a file");
        Err(ConfigError::usage("--output", why))
    }
}

/// The format that a recording is converted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A trace for Perfetto.
    Perfetto,
    /// Folded stacks, for flame graphs.
    Folded,
    /// A log of HdrHistogram.
    IntervalLog,
    /// Tables in the format of Apache Parquet.
    #[cfg(feature = "parquet")]
    Parquet {
        /// What the names of the files begin with.
        prefix: PathBuf,
    },
}

/// How a recording is converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// The format.
    pub format: ExportFormat,
    /// The shortest wait that has slices: ns.
    pub threshold_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_includes_its_descendants_and_no_cgroup_with_a_longer_name() {
        for given in ["/kubepods", "kubepods/", "/sys/fs/cgroup/kubepods"] {
            let input = RecordedInput {
                paths: vec!["-".into()],
                cgroups: vec![RecordedInput::cgroup(Path::new(given))],
                ..RecordedInput::default()
            };
            let wanted = ["/kubepods", "/kubepods/pod1", "/kubepods2", "/"].map(|path| input.wants_cgroup(path));
            assert_eq!(wanted, [true, true, false, false], "{given}");
        }
        assert_eq!(RecordedInput::cgroup(Path::new("/")), "");
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
        for given in [&b"/a\xff"[..], b"/sys/fs/cgroup/a\xff/", b"/a\\xff"] {
            assert_eq!(RecordedInput::cgroup(Path::new(OsStr::from_bytes(given))), "/a\\xff");
        }
    }
}
