//! The configuration of `verify`.

use super::{FilterConfig, InjectedError, OutputConfig, Resources};
use wakelat_core::report::LatencyFrom;
use wakelat_tracefs::hist_trigger::wakeup_latency::TriggerFilter;

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
