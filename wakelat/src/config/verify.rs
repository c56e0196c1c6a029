//! What `verify` is to do.

use std::{fs, ops::RangeInclusive, path::Path};

use super::{ConfigError, FilterConfig, OutputConfig, Resources, ranges::Ranges};
use crate::{
    cli::{FromEvent, VerifyFlags},
    hist_trigger::recipe::TriggerFilter,
    kernel::Machine,
    report::From,
    verify::plant::Plant,
};

/// What `verify` is to do.
#[derive(Clone, Debug)]
pub struct VerifyConfig {
    /// How long to measure: ns.
    pub duration_ns: u64,
    /// Where the clock starts.
    pub from: From,
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
    /// The error to make on wakelat's own side, for tests.
    pub plant: Option<Plant>,
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
        let ranges = |ranges: &Option<Ranges>| -> Vec<RangeInclusive<i64>> {
            ranges.iter().flat_map(Ranges::iter).cloned().collect()
        };
        let comm = |pattern: &std::ffi::OsString| {
            let text = pattern.to_str().map(str::to_owned);
            text.ok_or_else(|| {
                ConfigError::usage("--comm", format!("`{}` is not UTF-8, as triggers need it", pattern.display()))
            })
        };
        let triggers = TriggerFilter {
            tids: filter.pids.clone(),
            comms: flags.comm.iter().map(comm).collect::<Result<_, _>>()?,
            prios: ranges(&flags.prio),
            cpus: ranges(&flags.cpus),
        };
        Ok(Self {
            duration_ns: flags.duration,
            from: match flags.from {
                FromEvent::Wakeup => From::Wakeup,
                FromEvent::Waking => From::Waking,
            },
            filter,
            triggers,
            output: OutputConfig::new(&flags.output())?,
            resources,
            notes,
            plant: flags.plant,
        })
    }
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
