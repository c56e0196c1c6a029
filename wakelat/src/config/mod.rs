//! What was asked for, validated: everything behind the command line works on these values and checks nothing again.

pub mod names;
pub mod number;
pub mod ranges;
pub mod size;
pub mod span;

mod classes;
mod error;
mod filter;
mod grouping;
mod mode;
mod output;
mod recorded;
mod resources;
mod signal;
mod threshold;
mod timerlat;
mod tracer;
mod tracer_events;
mod verify;
mod window;

use std::path::PathBuf;

use wakelat_common::Classes;

use crate::{
    aggregate::key::Key,
    cli::{CommonFlags, DoctorFlags, GroupingFlags},
    events::EventsFlags,
    hist_trigger::cli::HistTriggerFlags,
    kernel::Machine,
    recording::CollectedEvents,
    report::{LatencyFrom, Mode},
    sink::table::Sort,
    timeline::stay::SchedLineOptions,
};

pub use crate::kernel::cgroup::Cgroup;
pub use crate::sink::OutputFormat;
pub use error::ConfigError;
pub use filter::FilterConfig;
pub use mode::ModeChoice;
pub use output::{Colour, OutputConfig};
pub use recorded::WhyRecordedConfig;
pub use resources::{Attach, Resources};
pub use threshold::{ThresholdAction, ThresholdConfig};
pub use timerlat::{LiveConfig, OsnoiseConfig, TimerlatConfig, TracerInput};
pub use tracer::{
    CgroupChoice, Priority, SourceChoice, TIMERLAT_PERIOD_US, Tracer, TracerConfig, UserThreadConfig, UserThreadsConfig,
};
pub use tracer_events::TracerEvents;
pub use verify::VerifyConfig;
pub(crate) use verify::trigger_filter;
pub use window::WindowConfig;

/// What one run is to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// The distribution, once or per interval.
    Hist(Config),
    /// The live table of groups.
    Top(Config, TableConfig),
    /// A line after the other, as it happens.
    Trace(Config, TraceRows),
    /// Where the time of waits went.
    Why(Config, WhyConfig),
    /// The same, of a recording.
    WhyRecorded(WhyRecordedConfig),
    /// Everything that happens, to a file.
    Record(Config, CollectedEvents),
    /// The same window by hist triggers.
    Verify(VerifyConfig),
    /// The timerlat tracer, explained.
    Timerlat(Box<TimerlatConfig>),
    /// The osnoise tracer, added up.
    Osnoise(Box<OsnoiseConfig>),
    /// One measuring thread of a run of timerlat in user space.
    TimerlatThread(UserThreadConfig),
    /// The kernel's own histograms.
    HistTrigger(HistTriggerFlags),
    /// The tracepoints and their state.
    Events(EventsFlags),
    /// What this kernel and this user can do.
    Doctor(DoctorFlags),
}

/// A measurement.
#[derive(Clone, Debug)]
pub struct Config {
    /// For how long and in which steps.
    pub window: WindowConfig,
    /// Who is measured.
    pub filter: FilterConfig,
    /// Why they waited.
    pub classes: Classes,
    /// Run-queue latency was asked for by name: all classes go into one.
    pub merged: bool,
    /// Where the clock of a `wakeup` starts.
    pub from: LatencyFrom,
    /// By what waits are grouped, in this order, each at most once; empty for one group per class.
    pub by: Vec<Key>,
    /// Groups user space keeps before it merges further ones into one.
    pub max_groups: usize,
    /// Where waits are counted.
    pub mode: Mode,
    /// What measuring may take: millionths of the time of all CPUs; none for as much as it takes to watch all tasks.
    pub max_overhead_ppm: Option<u32>,
    /// The wait from which a sample counts, and what happens when one does.
    pub threshold: Option<ThresholdConfig>,
    /// How and where the result is shown.
    pub output: OutputConfig,
    /// What the measurement may take from the machine.
    pub resources: Resources,
    /// What was decided differently from what was typed: said once, on standard error, unless `quiet`.
    pub notes: Vec<String>,
}

/// Groups where the command has no flag for them.
const MAX_GROUPS: usize = 16384;

impl Config {
    /// Judges the flags that every measurement takes by what this machine is: one result at the end, one group per
    /// class.
    ///
    /// # Errors
    /// Where a value makes no sense, anywhere or on this machine.
    pub(crate) fn new(flags: &CommonFlags, machine: &Machine) -> Result<Self, ConfigError> {
        let (classes, merged) = classes::classes(&flags.filter)?;
        let (resources, notes) = Resources::new(&flags.resources, machine)?;
        Ok(Self {
            window: WindowConfig::new(&flags.window),
            filter: FilterConfig::new(&flags.filter, machine)?,
            classes,
            merged,
            from: classes::from(&flags.filter, classes)?,
            by: Vec::new(),
            max_groups: MAX_GROUPS,
            mode: Mode::Samples,
            max_overhead_ppm: flags.max_overhead,
            threshold: ThresholdConfig::new(&flags.threshold, machine)?,
            output: OutputConfig::new(&flags.output)?,
            resources,
            notes,
        })
    }

    /// Asks for waits of all classes, each by itself.
    ///
    /// # Errors
    /// Where not all tasks are to be watched.
    pub(crate) fn set_all_classes(&mut self) -> Result<(), ConfigError> {
        (self.classes, self.merged) = (classes::all(), false);
        self.check_no_max_overhead()
    }

    /// Asks for a result per interval.
    ///
    /// # Errors
    /// Where the intervals are too short to be of use, or too long together.
    pub(crate) fn set_intervals(&mut self, interval_ns: Option<u64>, count: Option<u64>) -> Result<(), ConfigError> {
        self.window.set_intervals(interval_ns, count)
    }

    /// Asks for groups, counted where the flags say.
    ///
    /// # Errors
    /// Where a key is given twice or cannot be had on this machine, or the waits cannot be counted there.
    pub(crate) fn set_grouping(
        &mut self,
        flags: &GroupingFlags,
        default: &[Key],
        machine: &Machine,
    ) -> Result<(), ConfigError> {
        self.by = grouping::keys(flags, default, machine)?;
        self.max_groups = flags.max_groups;
        self.mode = mode::mode(flags.mode, self)?;
        if self.by.contains(&Key::Component) { self.check_no_max_overhead() } else { Ok(()) }
    }

    /// What happens on a CPU is told of all tasks or of none.
    fn check_no_max_overhead(&self) -> Result<(), ConfigError> {
        let why = "where a wait went is told by what all tasks did meanwhile, watched or not; leave it out with `why`, \
                   `trace --parts`, `trace --all` and `--by part`";
        self.max_overhead_ppm.map_or(Ok(()), |_| Err(ConfigError::usage("--max-overhead", why)))
    }

    /// Asks for the parts of each wait.
    ///
    /// # Errors
    /// Where not all tasks are to be watched.
    pub(crate) fn set_breakdown(&mut self) -> Result<(), ConfigError> {
        self.check_no_max_overhead()
    }

    /// Asks for where the time of waits went, by group where the flags say so.
    ///
    /// # Errors
    /// As [`Config::set_grouping`], and where the result is to be rows.
    pub(crate) fn set_why(&mut self, flags: &GroupingFlags, machine: &Machine) -> Result<(), ConfigError> {
        self.by = grouping::keys(flags, &[], machine)?;
        self.max_groups = flags.max_groups;
        self.check_no_max_overhead()?;
        check_why(&self.by, flags, &self.output)
    }

    /// Asks for everything that happens, in a file.
    ///
    /// # Errors
    /// Where not all tasks are to be watched, or the file is to be something else than a recording, or a terminal.
    pub(crate) fn set_recorded(&mut self) -> Result<(), ConfigError> {
        self.check_no_max_overhead()?;
        let flag = match self.output.format {
            OutputFormat::Human => return recorded::check_output(&self.output),
            OutputFormat::Json => "--json",
            OutputFormat::Csv => "--csv",
        };
        let why = "a recording has a form of its own; leave it out, and show the file with `wakelat why -i FILE`";
        Err(ConfigError::usage(flag, why))
    }
}

/// Whether `why` can show groups of waits by these keys, and like this.
fn check_why(by: &[Key], flags: &GroupingFlags, output: &OutputConfig) -> Result<(), ConfigError> {
    if by.contains(&Key::Component) {
        return Err(ConfigError::usage("--by", "`part` is what `why` shows of every group; leave it out"));
    }
    if flags.mode == ModeChoice::Aggregate {
        let why = "`aggregate` does not do: where a wait went is known in user space alone; leave it out";
        return Err(ConfigError::usage("--mode", why));
    }
    if output.format == OutputFormat::Csv {
        let why = "parts, rankings and time lines are no rows; use `--json`";
        return Err(ConfigError::usage("--csv", why));
    }
    Ok(())
}

/// What `why` tells apart and shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyConfig {
    /// How many of the longest waits are drawn.
    pub worst: usize,
    /// What is told from the task that has the CPU.
    pub collect: CollectedEvents,
    /// Whose stacks are shown.
    pub stacks: StacksConfig,
}

/// Whose stacks are shown, and where they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StacksConfig {
    /// Those of wakers.
    pub waker: bool,
    /// Those of tasks that wait.
    pub wakee: bool,
    /// The file for folded stacks, if they are asked for.
    pub folded: Option<PathBuf>,
}

/// The table of `top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// By which column it is ordered.
    pub sort: Sort,
    /// How many rows at most; none for as many as the terminal has.
    pub limit: Option<usize>,
    /// Only the last interval, in place of all since the start.
    pub last_only: bool,
}

/// Of what `trace` has a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceRows {
    /// A wait.
    Waits,
    /// A wait, with its parts.
    Breakdowns,
    /// A switch.
    Switches(TraceAllConfig),
}

/// Every switch, in place of every wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceAllConfig {
    /// What is shown beside the stays of tasks on CPUs.
    pub shown: SchedLineOptions,
    /// The CPUs that have a column each, rising; empty where none was asked for.
    pub cpu_map: Vec<u32>,
}
