//! What a view shows of a recording of histograms.

use crate::config::{Config, ConfigError, RecordedInput, ThresholdAction, ThresholdConfig};
use wakelat_common::filter::part;
use wakelat_core::{
    aggregate::key::Key,
    recording::{Header, Kept},
};

/// `config` for a recording of histograms, one per `interval_ns`, with the classes and the start of the latency of the
/// recording already.
///
/// # Errors
/// If the histograms do not have what `config` explicitly requests.
pub fn config_of(
    header: &Header,
    interval_ns: u64,
    mut config: Config,
    input: &RecordedInput,
) -> Result<Config, ConfigError> {
    config.by = keys(&header.kept, &config, input)?;
    check_filter(&header.kept, &config, input)?;
    let given_ns = config.threshold.as_ref().map(|threshold| threshold.threshold_ns);
    if given_ns.is_some() && given_ns != header.threshold_ns {
        let why = "the recording has histograms, not the length of each wait; leave it out, or record with \
                   `record --keep waits`";
        return Err(ConfigError::usage("--threshold", why));
    }
    config.threshold =
        header.threshold_ns.map(|threshold_ns| ThresholdConfig { threshold_ns, action: ThresholdAction::Continue });
    if input.has_default_interval {
        config.window.interval_ns =
            config.window.interval_ns.map(|default_ns| default_ns.next_multiple_of(interval_ns.max(1)));
    }
    if config.window.interval_ns.is_some_and(|wanted_ns| wanted_ns % interval_ns.max(1) != 0) {
        let recorded = std::time::Duration::from_nanos(interval_ns);
        let why =
            format!("the recording has a histogram per {recorded:?}; expected an interval that is a multiple of it");
        return Err(ConfigError::Usage(why));
    }
    Ok(config)
}

/// The keys of the view: those given, or those of the recording if the view's own are not in it.
fn keys(kept: &Kept, config: &Config, input: &RecordedInput) -> Result<Vec<Key>, ConfigError> {
    let Some(missing) = config.by.iter().find(|key| !kept.has_key(**key)) else { return Ok(config.by.clone()) };
    let Kept::Histograms { by, .. } = kept else { return Ok(config.by.clone()) };
    if input.has_given_keys {
        return Err(ConfigError::usage("--by", lacks(by, missing.name())));
    }
    let of_files = config.by.iter().copied().filter(|key| key.is_of_recordings());
    Ok(config.recorded_keys(by.iter().copied().chain(of_files).collect()))
}

fn check_filter(kept: &Kept, config: &Config, input: &RecordedInput) -> Result<(), ConfigError> {
    let Kept::Histograms { by, .. } = kept else { return Ok(()) };
    let parts = config.filter.parts;
    let flags = [
        ("--pid", parts & part::TGID != 0, Some(Key::Pid)),
        ("--tid", parts & part::PID != 0, Some(Key::Tid)),
        ("--comm", parts & part::COMM != 0, Some(Key::Comm)),
        ("--cpus", parts & part::CPU != 0, Some(Key::Cpu)),
        ("--cgroup", !input.cgroups.is_empty(), Some(Key::Cgroup)),
        ("--prio", parts & part::PRIO != 0, None),
        ("--policy", parts & part::POLICY != 0, None),
    ];
    for (flag, is_given, key) in flags {
        if is_given && !key.is_some_and(|key| kept.has_key(key)) {
            return Err(ConfigError::usage(flag, lacks(by, flag.trim_start_matches('-'))));
        }
    }
    Ok(())
}

/// Why `what` cannot be selected.
fn lacks(by: &[Key], what: &str) -> String {
    let names: Vec<_> = by.iter().map(|key| key.name()).collect();
    format!(
        "the recording has histograms by {}, not by `{what}`; use these keys, or record with `record --keep hist --by …` or \
         `record --keep waits`",
        names.join(", ")
    )
}
