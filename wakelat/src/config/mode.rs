//! Where waits are aggregated.

use super::{Config, ConfigError, ThresholdAction};
use wakelat_core::{aggregate::key::Key, report::Mode};

/// Where to aggregate waits, as given on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ModeChoice {
    /// In the kernel if that is enough, otherwise in user space
    #[default]
    Auto,
    /// In the kernel: cheaper, percentiles within 3.2 %
    Aggregate,
    /// In user space, from a sample of each wait: percentiles to three digits
    Samples,
}

/// The shortest interval for aggregation in the kernel: ns. Before the histograms can be read at its
/// end, all CPUs must have left the programs, which takes some 10 ms (`synchronize_rcu()`,
/// kernel/rcu/tree.c).
const MIN_AGGREGATE_INTERVAL_NS: u64 = 100_000_000;

/// The mode for `config`.
pub(super) fn mode(choice: ModeChoice, config: &Config) -> Result<Mode, ConfigError> {
    match (choice, needs_samples(config)) {
        (ModeChoice::Samples, _) | (ModeChoice::Auto, Some(_)) => Ok(Mode::Samples),
        (ModeChoice::Auto | ModeChoice::Aggregate, None) => Ok(Mode::Aggregate),
        (ModeChoice::Aggregate, Some(why)) => Err(ConfigError::usage(
            "--mode",
            format!("`aggregate` cannot be used here: {why}; use `--mode auto`, or leave that out"),
        )),
    }
}

/// Why `config` needs a sample of each wait, if it does.
fn needs_samples(config: &Config) -> Option<String> {
    if let Some(key) = config.by.iter().copied().find(|key: &Key| !key.is_counted()) {
        return Some(format!("`--by {}` needs a sample of each wait", key.name()));
    }
    if config.window.interval_ns.is_some_and(|interval_ns| interval_ns < MIN_AGGREGATE_INTERVAL_NS) {
        return Some("intervals below `100ms` need a sample of each wait".to_owned());
    }
    if config.max_overhead_ppm.is_some() {
        return Some("`--max-overhead` needs a sample of each wait, to estimate figures for all tasks".to_owned());
    }
    let acts = config.threshold.as_ref().is_some_and(|threshold| threshold.action != ThresholdAction::Continue);
    acts.then(|| "`--on-threshold` needs each wait as it happens".to_owned())
}
