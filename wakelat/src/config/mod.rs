//! The validated configuration. All code behind the command line works on these values and does not
//! check them again. `cli` makes them from flags; nothing here depends on how flags are parsed.

pub mod keywords;
pub mod number;
pub mod size;

mod aggregation_mode;
pub mod archive;
mod capture;
mod classic_tracepoints;
mod compare;
mod dump;
mod error;
mod events;
mod filter;
mod flight_recorder;
mod given_settings;
mod grouping;
mod hist;
mod hist_trigger;
mod http_url;
mod injected_error;
mod kubelet;
mod launch;
mod osnoise_tracers;
mod otlp;
mod output;
mod recording;
mod resources;
mod serve;
mod serve_file;
mod serve_settings;
mod service_limit;
mod settings_table;
mod signal_names;
mod table;
mod threshold;
mod time_point;
mod timerlat;
mod verify;
mod why;
mod window;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use wakelat_common::{Class, Classes};

use wakelat_core::{
    aggregate::key::Key,
    report::{LatencyFrom, Mode},
    timeline::timehist::SchedLineOptions,
    why::counted::CauseGroups,
};
use wakelat_kernel::Machine;

pub use capture::{CaptureProcessConfig, CaptureRule, CaptureSettings, GivenCapture, recordings_size};
pub use compare::{AbConfig, CompareConfig, CompareFormat, DiffConfig, InconclusiveAs, Margin, limit, margin};
pub(crate) use compare::{commands, criteria};
pub use dump::DumpConfig;
pub use error::ConfigError;
pub use events::EventsConfig;
pub use filter::FilterConfig;
pub use flight_recorder::FlightRecorderConfig;
pub use given_settings::GivenSettings;
pub use grouping::GroupingConfig;
pub use hist::HistConfig;
pub use hist_trigger::{HistTriggerAction, HistTriggerConfig, HistogramSource, PrintConfig};
pub use injected_error::InjectedError;
pub use kubelet::{GivenKubelet, KubeletSettings, KubeletUrl};
pub use launch::LaunchConfig;
pub use osnoise_tracers::{SourceChoice, TracerConfig, UserThreadConfig, priority};
pub use otlp::{GivenOtlp, OtlpConfig, OtlpEndpoint, OtlpSettings, interval as otlp_interval};
pub use output::{Colour, OutputConfig};
pub use recording::{
    DEMO, ExportConfig, ExportFormat, RECORDED_INTERVAL_NS, RecordConfig, RecordedInput, RecordedMeasurement, label,
};
pub(crate) use recording::{MAX_GROUPS, check_recording_output, labels};
pub use resources::Resources;
pub use serve::{ListenAddress, ServeConfig, allowed_host};
pub use serve_file::ServeFile;
pub use serve_settings::{CgroupSelection, ServeSettings, ServiceCollect};
pub use service_limit::ServiceLimit;
pub use table::TableConfig;
pub use threshold::{ThresholdAction, ThresholdConfig};
pub use time_point::time_point;
pub(crate) use time_point::time_range;
pub use timerlat::{LiveConfig, OsnoiseConfig, SavedTrace, TimerlatConfig, TracerInput};
pub use verify::VerifyConfig;
pub use wakelat_core::{duration, render::OutputFormat};
pub use wakelat_kernel::{attach_choice::Attach, cgroup::Cgroup, thread_priority::Priority};
pub use why::{StacksConfig, WhyConfig, WhyLayout};
pub use window::WindowConfig;

/// What one run does.
#[derive(Clone, Debug)]
pub enum Command {
    /// The distribution, once or per interval.
    Hist(Config, HistConfig),
    /// The live table of groups.
    Top(Config, TableConfig),
    /// A line per wait or switch, as it happens.
    Trace(Config, TraceRows),
    /// The causes of waits.
    Why(Config, WhyConfig),
    /// Aggregate the causes of waits in the kernel, by these groups.
    WhyCounted(Config, CauseGroups),
    /// All events, written to a file.
    Record(Config, RecordConfig),
    /// A request to a flight recorder.
    Dump(DumpConfig),
    /// Several recordings in one file.
    Merge(Config),
    /// A recording as one HTML file.
    Report(Config),
    /// A recording, converted for another tool.
    Export(Config, ExportConfig),
    /// Saved runs of two arms, compared.
    Diff(Box<DiffConfig>),
    /// Two commands, recorded alternately and compared.
    Ab(Box<AbConfig>),
    /// The same window measured by BPF and by hist triggers, compared.
    Verify(VerifyConfig),
    /// Metrics of all cgroups, all the time.
    Serve(Box<ServeConfig>),
    /// The process that makes the recordings of a service.
    CaptureProcess(CaptureProcessConfig),
    /// The timerlat tracer, with causes of latency.
    Timerlat(Box<TimerlatConfig>),
    /// The osnoise tracer, with totals.
    Osnoise(Box<OsnoiseConfig>),
    /// One measuring thread of a run of timerlat in user space.
    TimerlatThread(UserThreadConfig),
    /// The process that becomes a measured command.
    Launch(LaunchConfig),
    /// The kernel's own histograms.
    HistTrigger(HistTriggerConfig),
    /// The tracepoints and their state.
    Events(EventsConfig),
    /// What works with this kernel and this user.
    Doctor(OutputConfig),
}

/// The configuration of a measurement.
#[derive(Clone, Debug)]
pub struct Config {
    /// The recording that is shown instead of a measurement, if one is given.
    pub input: Option<RecordedInput>,
    /// The command that is measured, with its arguments: the run ends with it. Empty for none.
    pub command: Vec<OsString>,
    /// How long to measure, and in which intervals.
    pub window: WindowConfig,
    /// Which tasks are measured.
    pub filter: FilterConfig,
    /// Which classes of waits are measured.
    pub classes: Classes,
    /// Whether all classes are merged into run-queue latency, which was requested by name.
    pub merged: bool,
    /// The event that starts the latency of a `wakeup`.
    pub from: LatencyFrom,
    /// Grouping keys, in this order, each at most once; empty for one group per class.
    pub by: Vec<Key>,
    /// Number of groups that user space keeps before it merges further ones into one.
    pub max_groups: usize,
    /// Where waits are aggregated.
    pub mode: Mode,
    /// Whether the programs aggregate the causes of waits, too.
    pub with_causes: bool,
    /// Whether interrupts are traced for that, if the kernel does not count their time.
    pub traces_interrupts: bool,
    /// Limit of the overhead: millionths of the time of all CPUs; none for no limit, with all tasks
    /// measured.
    pub max_overhead_ppm: Option<u32>,
    /// Whether to keep all privileges while measuring.
    pub keep_privileges: bool,
    /// The shortest wait that counts, and the action at the first one.
    pub threshold: Option<ThresholdConfig>,
    /// How and where the result is shown.
    pub output: OutputConfig,
    /// Resources of the machine that the measurement uses.
    pub resources: Resources,
    /// Values that differ from those given: printed once on standard error, unless `quiet`.
    pub notes: Vec<String>,
}

/// Every class of waits.
pub(crate) fn all_classes() -> Classes {
    Class::ALL.into_iter().fold(Classes::NONE, Classes::with)
}

impl Config {
    /// Measures waits of all classes, each separately.
    ///
    /// # Errors
    /// If `--max-overhead` is given.
    pub(crate) fn set_all_classes(&mut self) -> Result<(), ConfigError> {
        (self.classes, self.merged) = (all_classes(), false);
        self.check_can_record_events()
    }

    /// The names of the grouping keys, in their order.
    pub(crate) fn key_names(&self) -> Vec<&'static str> {
        self.by.iter().map(|key| key.name()).collect()
    }

    /// Checks that these files, each with its flag, can be written in addition to the result and a recording.
    ///
    /// # Errors
    /// If one is no file, or if two of the files that are read and written are the same.
    pub(crate) fn check_written<'a>(
        &'a self,
        files: impl IntoIterator<Item = (&'a str, Option<&'a Path>)>,
    ) -> Result<(), ConfigError> {
        let input = self.input.iter().filter(|input| !input.is_demo());
        let recordings = input.flat_map(|input| {
            let flag = if input.measured.is_some() { "--record" } else { "--input" };
            input.paths.iter().map(move |path| (flag, &**path))
        });
        self.output.check_all_beside(recordings, files)
    }

    /// Reports at an interval.
    ///
    /// # Errors
    /// If the intervals are too short to be of use, or too long in total.
    pub(crate) fn set_intervals(&mut self, interval_ns: Option<u64>, count: Option<u64>) -> Result<(), ConfigError> {
        self.window.set_intervals(interval_ns, count)?;
        if let (Some(measured), Some(interval_ns), Some(count)) = (self.measured(), interval_ns, count) {
            let duration_ns = &mut measured.config.window.duration_ns;
            *duration_ns = Some(duration_ns.unwrap_or(u64::MAX).min(interval_ns.saturating_mul(count)));
        }
        Ok(())
    }

    /// The measurement that is recorded and shown at once, if it is one.
    pub(crate) fn measured(&mut self) -> Option<&mut RecordedMeasurement> {
        self.input.as_mut()?.measured.as_deref_mut()
    }

    /// Groups waits, and aggregates them where `grouping` says. Without a `machine`, the waits are
    /// recorded.
    ///
    /// # Errors
    /// If a key is not available on this machine, or if the waits cannot be aggregated there.
    pub(crate) fn set_grouping(
        &mut self,
        grouping: GroupingConfig,
        machine: Option<&Machine>,
    ) -> Result<(), ConfigError> {
        let Some(machine) = machine else {
            (self.by, self.max_groups) = (self.recorded_keys(grouping.by), grouping.max_groups);
            return Ok(());
        };
        grouping.check_available(machine)?;
        self.check_sees_waker_of(&grouping)?;
        (self.by, self.max_groups) = (grouping.by, grouping.max_groups);
        self.mode = aggregation_mode::mode(grouping.mode, self, machine.publishes_btf)?;
        if self.by.contains(&Key::Component) { self.check_can_record_events() } else { Ok(()) }
    }

    /// Rejects a sample of the tasks, which does not have the events of all tasks.
    fn check_can_record_events(&self) -> Result<(), ConfigError> {
        if self.max_overhead_ppm.is_some() {
            let with = "`why`, `record`, `trace --breakdown`, `trace --all`, `hist --report` or `--by component`";
            let why = format!(
                "cannot be used with {with}, which need the events of all tasks, not of a sample; leave it out"
            );
            return Err(ConfigError::usage("--max-overhead", why));
        }
        Ok(())
    }

    /// Rejects groups by waker if the run queue's clock measures the waits.
    fn check_sees_waker_of(&self, grouping: &GroupingConfig) -> Result<(), ConfigError> {
        if grouping.by.contains(&Key::Waker) { self.check_sees_wakeups("--by waker", "the waker") } else { Ok(()) }
    }

    /// Rejects `flag`, which needs `events` at wakeups, if the run queue's clock measures the waits.
    pub(crate) fn check_sees_wakeups(&self, flag: &str, events: &str) -> Result<(), ConfigError> {
        if self.from != LatencyFrom::Queued {
            return Ok(());
        }
        let why = format!("`queued` sees no wakeups, and `{flag}` needs {events}; use `wakeup` or `waking`");
        Err(ConfigError::usage("--from", why))
    }

    /// Adds the components of each wait.
    ///
    /// # Errors
    /// If `--max-overhead` is given.
    pub(crate) fn set_breakdown(&mut self) -> Result<(), ConfigError> {
        self.check_can_record_events()
    }

    /// Explains waits, by group if `grouping` has keys.
    ///
    /// # Errors
    /// As for [`Config::set_grouping`], and if the output format is CSV.
    pub(crate) fn set_why(&mut self, grouping: GroupingConfig, machine: Option<&Machine>) -> Result<(), ConfigError> {
        machine.map_or(Ok(()), |machine| grouping.check_available(machine))?;
        self.check_sees_waker_of(&grouping)?;
        self.check_can_record_events()?;
        check_why(&grouping, &self.output)?;
        (self.by, self.max_groups) = (self.recorded_keys(grouping.by), grouping.max_groups);
        Ok(())
    }

    /// Explains waits by causes that the programs count, by the groups of `grouping`: its one key, or cgroups, or names
    /// if there are no cgroups (v2). Only the run queue's clock can do so.
    ///
    /// # Errors
    /// As for [`Config::set_grouping`], and if the key or the output format cannot be used.
    pub(crate) fn set_why_counted(
        &mut self,
        grouping: GroupingConfig,
        machine: &Machine,
    ) -> Result<CauseGroups, ConfigError> {
        grouping.check_available(machine)?;
        self.from = LatencyFrom::Queued;
        let groups = match grouping.by[..] {
            [] if GroupingConfig::has_cgroups(machine) => CauseGroups::Cgroups,
            [] | [Key::Comm] => CauseGroups::Names,
            [Key::Cgroup] => CauseGroups::Cgroups,
            [Key::Container] => CauseGroups::Containers,
            _ => {
                let why = "`why --mode aggregate` counts causes by one of `cgroup`, `container` and `comm`; give one of \
                           them, or use `--mode samples`";
                return Err(ConfigError::usage("--by", why));
            }
        };
        check_why(&grouping, &self.output)?;
        (self.max_groups, self.with_causes) = (grouping.max_groups, true);
        // Waits have no other groups than their classes: the causes are counted separately.
        self.mode = aggregation_mode::mode(grouping.mode, self, machine.publishes_btf)?;
        Ok(groups)
    }

    /// Measures all classes separately, without an end and without an output of its own. The view decides each second whether
    /// everything is read.
    ///
    /// # Errors
    /// Errors of [`Self::set_intervals`].
    pub(crate) fn set_service(&mut self) -> Result<(), ConfigError> {
        const SECOND_NS: u64 = 1_000_000_000;
        (self.classes, self.merged) = (all_classes(), false);
        self.output.path = Some("/dev/null".into());
        self.set_intervals(Some(SECOND_NS), None)
    }
}

/// Checks that `why` can show these groups of waits, in this format.
fn check_why(grouping: &GroupingConfig, output: &OutputConfig) -> Result<(), ConfigError> {
    if grouping.by.contains(&Key::Component) {
        return Err(ConfigError::usage(
            "--by",
            "`why` shows the components of every group anyway; leave out `component`",
        ));
    }
    if output.format == OutputFormat::Csv {
        let why = "the result is not a table; use `--json`";
        return Err(ConfigError::usage("--csv", why));
    }
    Ok(())
}

/// What `trace` prints a line for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceRows {
    /// Each wait.
    Waits,
    /// Each wait, with its components; the timeline of the longest one is also written to this file as a picture.
    Breakdowns(Option<PathBuf>),
    /// Each switch.
    Switches(TraceAllConfig),
}

/// The configuration of `trace --all`, which shows every switch instead of every wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceAllConfig {
    /// What is shown besides the slices of tasks.
    pub shown: SchedLineOptions,
    /// The CPUs that have a column each.
    pub cpu_map: CpuMap,
}

/// The CPUs that have a column each in `trace --all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuMap {
    /// None of them.
    None,
    /// These, ascending.
    Of(Vec<u32>),
    /// Those that were online when the recording was made, as far as the filter accepts them.
    OfRecording,
}
