//! The configuration of `hist-trigger`.

use super::OutputConfig;
use wakelat_kernel::release::Release;
use wakelat_tracefs::hist_trigger::{chart::ChartSelection, unit::Unit, wakeup_latency::TriggerRecipe};

/// The configuration of `hist-trigger`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistTriggerConfig {
    /// What is printed.
    pub action: HistTriggerAction,
    /// How and where it is written.
    pub output: OutputConfig,
}

/// What `hist-trigger` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistTriggerAction {
    /// A table with all keys and values, with this unit of the bucketed key, or of the only key.
    Show(HistogramSource, Option<Unit>),
    /// A chart of one value, with this unit of the key.
    Chart(HistogramSource, ChartSelection, Option<Unit>),
    /// A JSON document per histogram.
    Json(HistogramSource),
    /// Shell commands that measure wakeup latency without wakelat.
    Print(PrintConfig),
}

/// Where histograms are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramSource {
    /// A file with the output of `cat events/…/hist`, `-` for standard input, or an event such as
    /// `sched:sched_switch`.
    pub name: String,
    /// The tracefs instance in which the event's triggers are read; none for the top-level one.
    pub instance: Option<String>,
    /// Whether truncated histograms are accepted.
    pub excerpt: bool,
}

/// The shell commands that `hist-trigger print` writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintConfig {
    /// The triggers that the commands place.
    pub recipe: TriggerRecipe,
    /// The kernel that the commands are for, which accepts the recipe.
    pub kernel: Release,
    /// Whether the commands are for this machine, so that they use its mount point of tracefs.
    pub is_for_this_machine: bool,
    /// Processes whose threads the commands look up when they run.
    pub tgids: Vec<u32>,
    /// How long the commands measure: ns.
    pub duration_ns: u64,
}
