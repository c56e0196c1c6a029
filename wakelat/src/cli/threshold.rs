//! The threshold.

use clap::Args;

use crate::config::{ConfigError, ThresholdAction, ThresholdConfig, duration};
use wakelat_kernel::Machine;

/// The threshold.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Threshold")]
pub struct ThresholdFlags {
    /// Measure only waits of at least this length, such as 500us [default: all waits]
    #[arg(long, value_name = "TIME", value_parser = duration::with_unit, allow_hyphen_values = true)]
    pub threshold: Option<u64>,

    /// Action at the first such wait: continue, stop, signal:NAME:PID or exec:COMMAND [default: continue]
    #[arg(long, value_name = "ACTION", value_parser = ThresholdAction::parse, allow_hyphen_values = true)]
    pub on_threshold: Option<ThresholdAction>,
}

impl ThresholdFlags {
    /// The threshold for a recording, if one is given.
    pub(super) fn recorded_config(&self) -> Option<ThresholdConfig> {
        let action = ThresholdAction::Continue;
        self.threshold.map(|threshold_ns| ThresholdConfig { threshold_ns, action })
    }

    /// The threshold, if one is given.
    ///
    /// # Errors
    /// If there is an action without a threshold, or the process to signal does not exist.
    pub(super) fn config(&self, machine: &Machine) -> Result<Option<ThresholdConfig>, ConfigError> {
        let Some(threshold_ns) = self.threshold else {
            return match self.on_threshold {
                None => Ok(None),
                Some(_) => {
                    Err(ConfigError::usage("--on-threshold", "needs a threshold; add one, such as `--threshold 1ms`"))
                }
            };
        };
        let action = self.on_threshold.clone().unwrap_or_default();
        action.check(machine)?;
        Ok(Some(ThresholdConfig { threshold_ns, action }))
    }
}
