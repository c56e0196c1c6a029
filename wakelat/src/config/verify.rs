//! What `verify` is to do.

use std::{ffi::OsString, fs, ops::RangeInclusive, path::Path};

use super::{ConfigError, FilterConfig, OutputConfig, Resources, ranges::Ranges};
use crate::{
    cli::{FromEvent, TaskFlags, VerifyFlags},
    hist_trigger::recipe::TriggerFilter,
    kernel::Machine,
    report::LatencyFrom,
    verify::plant::InjectedError,
};

/// What `verify` is to do.
#[derive(Clone, Debug)]
pub struct VerifyConfig {
    /// How long to measure: ns.
    pub duration_ns: u64,
    /// Where the clock starts.
    pub from: LatencyFrom,
    /// Who is measured, as wakelat's own side takes it. Processes are the threads that they have now.
    pub filter: FilterConfig,
    /// The same, as triggers take it.
    pub triggers: TriggerFilter,
    /// How and where the result is shown.
    pub output: OutputConfig,
    /// What the measurement may take from the machine.
    pub resources: Resources,
    /// What was decided differently from what was typed.
    pub notes: Vec<String>,
    /// Whether to fail at once if the triggers cannot be compared.
    pub require_triggers: bool,
    /// The error to make on wakelat's own side, for tests.
    pub plant: Option<InjectedError>,
}

impl VerifyConfig {
    /// Judges the flags by what this machine is.
    ///
    /// # Errors
    /// Where a value makes no sense, anywhere or on this machine.
    pub(crate) fn new(flags: &VerifyFlags, machine: &Machine) -> Result<Self, ConfigError> {
        let (resources, notes) = Resources::new(&flags.resources, machine)?;
        let mut filter = FilterConfig::new(&flags.filter(), machine)?;
        if !filter.tgids.is_empty() {
            let tids = threads_of(&machine.roots.proc, &filter.tgids, &filter.pids);
            if tids.is_empty() {
                return Err(ConfigError::unmet("--pid", "the processes are gone"));
            }
            filter.only_threads(tids);
        }
        let triggers = trigger_filter(&flags.tasks, filter.pids.clone())?;
        Ok(Self {
            duration_ns: flags.duration,
            from: match flags.from {
                FromEvent::Wakeup => LatencyFrom::Wakeup,
                FromEvent::Waking => LatencyFrom::Waking,
            },
            filter,
            triggers,
            output: OutputConfig::new(&flags.output())?,
            resources,
            notes,
            require_triggers: flags.require_triggers,
            plant: flags.plant,
        })
    }
}

/// Whom triggers are to measure: the threads `tids`, and of those the tasks and CPUs that the flags select.
///
/// # Errors
/// Where a name is not UTF-8.
pub(crate) fn trigger_filter(flags: &TaskFlags, tids: Vec<u32>) -> Result<TriggerFilter, ConfigError> {
    let ranges =
        |ranges: &[Ranges]| -> Vec<RangeInclusive<i64>> { ranges.iter().flat_map(Ranges::iter).cloned().collect() };
    let comm = |pattern: &OsString| {
        let text = pattern.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            ConfigError::usage("--comm", format!("`{}` is not UTF-8, as triggers need it", pattern.display()))
        })
    };
    Ok(TriggerFilter {
        tids,
        comms: flags.comm.iter().map(comm).collect::<Result<_, _>>()?,
        prios: ranges(&flags.prio),
        cpus: ranges(&flags.cpus),
    })
}

/// The threads of these processes, and of those only the ones that were asked for, where some were.
fn threads_of(proc: &Path, tgids: &[u32], asked: &[u32]) -> Vec<u32> {
    let tasks = tgids.iter().filter_map(|tgid| fs::read_dir(proc.join(format!("{tgid}/task"))).ok());
    let mut tids: Vec<u32> = tasks
        .flat_map(|tasks| tasks.flatten())
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .filter(|tid| asked.is_empty() || asked.contains(tid))
        .collect();
    tids.sort_unstable();
    tids
}
