//! The configuration of `verify`.

use std::{ffi::OsString, fs, ops::RangeInclusive, path::Path};

use super::{ConfigError, FilterConfig, OutputConfig, Resources, ranges::Ranges};
use crate::{
    cli::{FromEvent, TaskFlags, VerifyFlags},
    hist_trigger::recipe::TriggerFilter,
    kernel::Machine,
    verify::injected_error::InjectedError,
};
use wakelat_core::report::LatencyFrom;

/// The configuration of `verify`.
#[derive(Clone, Debug)]
pub struct VerifyConfig {
    /// How long to measure: ns.
    pub duration_ns: u64,
    /// The event that starts a wakeup's latency.
    pub from: LatencyFrom,
    /// The filter of wakelat's own side. Processes are replaced by the threads that they have now.
    pub filter: FilterConfig,
    /// The filter of the hist triggers.
    pub triggers: TriggerFilter,
    /// How and where the result is shown.
    pub output: OutputConfig,
    /// Resources of the machine that the measurement uses.
    pub resources: Resources,
    /// Values that differ from those given.
    pub notes: Vec<String>,
    /// Whether to fail at once if the triggers cannot be compared.
    pub require_triggers: bool,
    /// The error to inject into wakelat's own side, for tests.
    pub plant: Option<InjectedError>,
}

impl VerifyConfig {
    /// Validates the flags against this machine.
    pub(crate) fn new(flags: &VerifyFlags, machine: &Machine) -> Result<Self, ConfigError> {
        let (resources, notes) = Resources::new(&flags.resources, machine)?;
        let mut filter = FilterConfig::new(&flags.filter(), machine)?;
        if !filter.tgids.is_empty() {
            let tids = threads_of(&machine.roots.proc, &filter.tgids, &filter.pids);
            if tids.is_empty() {
                return Err(ConfigError::unmet("--pid", "the processes have exited"));
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

/// The filter of the triggers: the threads `tids`, restricted to the tasks and CPUs that the flags
/// select.
///
/// # Errors
/// If a name is not UTF-8.
pub(crate) fn trigger_filter(flags: &TaskFlags, tids: Vec<u32>) -> Result<TriggerFilter, ConfigError> {
    let ranges =
        |ranges: &[Ranges]| -> Vec<RangeInclusive<i64>> { ranges.iter().flat_map(Ranges::iter).cloned().collect() };
    let comm = |pattern: &OsString| {
        let text = pattern.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            ConfigError::usage(
                "--comm",
                format!("`{}` is not valid UTF-8, which hist triggers require", pattern.display()),
            )
        })
    };
    Ok(TriggerFilter {
        tids,
        comms: flags.comm.iter().map(comm).collect::<Result<_, _>>()?,
        prios: ranges(&flags.prio),
        cpus: ranges(&flags.cpus),
    })
}

/// The threads of these processes; only those in `selected`, unless that is empty.
fn threads_of(proc: &Path, tgids: &[u32], selected: &[u32]) -> Vec<u32> {
    let tasks = tgids.iter().filter_map(|tgid| fs::read_dir(proc.join(format!("{tgid}/task"))).ok());
    let mut tids: Vec<u32> = tasks
        .flat_map(|tasks| tasks.flatten())
        .filter_map(|task| task.file_name().to_str()?.parse().ok())
        .filter(|tid| selected.is_empty() || selected.contains(tid))
        .collect();
    tids.sort_unstable();
    tids
}
