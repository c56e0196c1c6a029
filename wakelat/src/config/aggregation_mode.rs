//! Where waits are aggregated.

use super::{Attach, Config, ConfigError, ThresholdAction};
use wakelat_core::{
    aggregate::key::Key,
    report::{LatencyFrom, Mode},
};

/// The shortest interval for aggregation in the kernel: ns. Before the histograms can be read at its
/// end, all CPUs must have left the programs, which takes some 10 ms (`synchronize_rcu()`,
/// kernel/rcu/tree.c).
const MIN_AGGREGATE_INTERVAL_NS: u64 = 100_000_000;

/// The mode for `config`: the one given, or the cheapest that is enough. `publishes_btf`: of this machine's kernel.
pub(super) fn mode(given: Option<Mode>, config: &Config, publishes_btf: bool) -> Result<Mode, ConfigError> {
    match (given, needs_samples(config, publishes_btf)) {
        (Some(Mode::Samples), _) | (None, Some(_)) => Ok(Mode::Samples),
        // Tasks can be sampled, which leaves fewer pauses. The run queue's clock measures all tasks in any case.
        (None, None) if config.max_overhead_ppm.is_some() && config.from != LatencyFrom::Queued => Ok(Mode::Samples),
        (None | Some(Mode::Aggregate), None) => Ok(Mode::Aggregate),
        (Some(Mode::Aggregate), Some(why)) => {
            Err(ConfigError::usage("--mode", format!("`aggregate` cannot be used here: {why}; use `--mode samples`")))
        }
    }
}

/// Why `config` needs a sample of each wait, if it does.
fn needs_samples(config: &Config, publishes_btf: bool) -> Option<String> {
    if let Some(key) = config.by.iter().copied().find(|key: &Key| !key.is_counted()) {
        return Some(format!("`--by {}` needs a record of each wait", key.name()));
    }
    let has_btf = publishes_btf || config.resources.btf.is_some();
    let is_classic = match config.resources.attach {
        Attach::Classic => true,
        Attach::Auto => !has_btf,
        Attach::Btf | Attach::Raw => false,
    };
    // While user space reads a hash map, the kernel runs no program on a classic tracepoint of that CPU, and counts
    // nothing of it (`bpf_disable_instrumentation()`, include/linux/bpf.h; `trace_call_bpf()`,
    // kernel/trace/bpf_trace.c).
    if is_classic && let Some(key) = config.by.iter().find(|key| !matches!(key, Key::Cpu | Key::Class)) {
        return Some(format!("with classic tracepoints, `--by {}` needs a record of each wait", key.name()));
    }
    if config.window.interval_ns.is_some_and(|interval_ns| interval_ns < MIN_AGGREGATE_INTERVAL_NS) {
        return Some("intervals below `100ms` need a record of each wait".to_owned());
    }
    let acts = config.threshold.as_ref().is_some_and(|threshold| threshold.action != ThresholdAction::Continue);
    acts.then(|| "`--on-threshold` needs each wait as it happens".to_owned())
}
