//! What a view shows of a recording: its own configuration, as far as the recording has it.

use std::path::PathBuf;

use wakelat_common::Classes;

use super::{super::open_input, recorded_histograms};
use crate::config::{Config, ConfigError, RECORDED_INTERVAL_NS, RecordedInput, ThresholdAction, ThresholdConfig};
use wakelat_core::{
    aggregate::key::Key,
    files::{FileIds, FileName, Files},
    recording::{Header, Kept},
    report::LatencyFrom,
};

/// `config` for recordings with these headers: with the classes and the start of the latency that they have.
///
/// # Errors
/// If the recordings do not have what `config` explicitly requests, or cannot be shown together.
pub fn config_of(headers: &[&Header], config: &Config, input: &RecordedInput) -> Result<Config, ConfigError> {
    check_same_waits(headers, input)?;
    let mut config = config.clone();
    for header in headers {
        config = config_of_one(header, &config, input)?;
    }
    let name = |(path, header): (&PathBuf, &&Header)| FileName {
        file: path.display().to_string(),
        host: header.machine.host.clone(),
    };
    config.output.files = Files::new(input.paths.iter().zip(headers).map(name));
    Ok(config)
}

/// The processes that made the recordings with these headers, by their IDs among those of all recordings.
pub fn own_pids(headers: &[&Header]) -> Vec<u32> {
    let own = |(number, header): (usize, &&Header)| header.own_pid.map(|pid| FileIds::new(number).tid(pid));
    // Those of a single recording are as they are.
    headers.iter().enumerate().filter_map(own).collect()
}

/// Checks that all recordings have the same classes of waits, from the same event on.
fn check_same_waits(headers: &[&Header], input: &RecordedInput) -> Result<(), ConfigError> {
    let of = |header: &Header| {
        let classes: Vec<_> = header.classes.iter().map(|class| class.name()).collect();
        format!("{} from `{}`, with {}", classes.join(", "), header.from.name(), header.kept.description())
    };
    let files = || input.paths.iter().map(|path| open_input::name(path)).zip(headers.iter().map(|header| of(header)));
    let Some((first, its)) = files().next() else { return Ok(()) };
    match files().find(|(_, other)| *other != its) {
        None => Ok(()),
        Some((file, other)) => {
            let why = format!("{first} has waits of {its}, and {file} of {other}; show them separately");
            Err(ConfigError::usage("--input", why))
        }
    }
}

fn config_of_one(header: &Header, config: &Config, input: &RecordedInput) -> Result<Config, ConfigError> {
    let mut config = config.clone();
    if let Some(text) = &header.text {
        config.check_trace_text(text, !input.cgroups.is_empty())?;
    }
    let both = header.classes.iter().filter(|class| config.classes.contains(**class));
    let both = both.fold(Classes::NONE, |classes, class| classes.with(*class));
    if both == Classes::NONE || (input.has_given_classes && both != config.classes) {
        let names: Vec<_> = header.classes.iter().map(|class| class.name()).collect();
        let why = format!("the recording has only {}; select from these", names.join(", "));
        return Err(ConfigError::usage("--class", why));
    }
    config.classes = both;
    config.merged |= header.merged && !input.has_given_classes;
    config.from = match (header.from, config.from) {
        (recorded, requested) if recorded == requested => recorded,
        // The delivery of each wait is known, and can be left out.
        (LatencyFrom::Waking, LatencyFrom::Wakeup)
            if header.text.is_none_or(|text| text.has_delivery) && !matches!(header.kept, Kept::Histograms { .. }) =>
        {
            LatencyFrom::Wakeup
        }
        (recorded, _) if input.has_given_from => {
            let why = format!("the recording has waits from `{}`; leave out the flag", recorded.name());
            return Err(ConfigError::usage("--from", why));
        }
        (recorded, _) => recorded,
    };
    if let Kept::Histograms { interval_ns, .. } = &header.kept {
        return recorded_histograms::config_of(header, *interval_ns, config, input);
    }
    // Shorter waits are not recorded. Without the delivery, a recorded wait may be shorter, too.
    let shown_ns = config.threshold.as_ref().map(|threshold| threshold.threshold_ns);
    config.threshold = shown_ns
        .max(header.threshold_ns)
        .map(|threshold_ns| ThresholdConfig { threshold_ns, action: ThresholdAction::Continue });
    if config.window.interval_ns.is_some_and(|interval_ns| interval_ns < RECORDED_INTERVAL_NS) {
        let why = "the interval is too short for a recording; expected at least `1s`";
        return Err(ConfigError::Usage(why.to_owned()));
    }
    if config.by.contains(&Key::Waker) {
        config.check_sees_wakeups("--by waker", "the waker")?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use wakelat_common::Class;
    use wakelat_core::recording::{TextKind, TextSource};

    use super::*;
    use crate::config::Command;

    /// The configuration of `hist` with these flags for a recording with these classes and this start of the latency.
    fn of(flags: &str, classes: &[Class], from: LatencyFrom) -> Result<Config, String> {
        let line = format!("wakelat hist -i file {flags}");
        let parsed = crate::cli::parse(line.split_whitespace().map(Into::into)).map_err(|error| error.to_string())?;
        let Command::Hist(config, _) = parsed.command else { panic!("{:?}", parsed.command) };
        let header = Header { classes: classes.to_vec(), from, ..Header::default() };
        config_of(&[&header], &config, config.input.as_ref().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_view_shows_the_classes_that_it_has_in_common_with_the_recording() {
        let of = |flags, classes: &[Class]| of(flags, classes, LatencyFrom::Wakeup).map(|config| config.classes);
        let [wakeup, preempted] = [Class::Wakeup, Class::Preempted].map(|class| Classes::NONE.with(class));
        assert_eq!(of("", &Class::ALL), Ok(wakeup));
        assert_eq!(of("--class preempted", &Class::ALL), Ok(preempted));
        assert!(of("", &[Class::Preempted]).unwrap_err().contains("the recording has only preempted"));
        let error = of("--class wakeup,preempted", &[Class::Wakeup, Class::New]).unwrap_err();
        assert!(error.contains("`--class`: the recording has only wakeup, new"), "{error}");
    }

    #[test]
    fn latency_starts_at_an_event_that_was_recorded() {
        use LatencyFrom::{Queued, Wakeup, Waking};
        let of = |flags, from| of(flags, &Class::ALL, from).map(|config| config.from);
        assert_eq!(of("", Waking), Ok(Wakeup));
        assert_eq!(of("--from waking", Waking), Ok(Waking));
        assert_eq!(of("", Queued), Ok(Queued));
        assert!(of("--from waking", Wakeup).unwrap_err().contains("the recording has waits from `wakeup`"));
        assert!(of("--from wakeup", Queued).unwrap_err().contains("the recording has waits from `queued`"));
        assert!(of("--by waker", Queued).unwrap_err().contains("`--by waker` needs the waker"));
    }

    /// The configuration of `hist` with these flags for the text of a trace.
    fn of_text(flags: &str, has_delivery: bool, has_processes: bool) -> Result<Config, String> {
        let line = format!("wakelat hist -i file {flags}");
        let parsed = crate::cli::parse(line.split_whitespace().map(Into::into)).map_err(|error| error.to_string())?;
        let Command::Hist(config, _) = parsed.command else { panic!("{:?}", parsed.command) };
        let text = Some(TextSource { kind: TextKind::Ftrace, has_delivery, has_processes, resolution_ns: 1 });
        let header = Header { classes: Class::ALL.into(), from: LatencyFrom::Waking, text, ..Header::default() };
        config_of(&[&header], &config, config.input.as_ref().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn without_its_delivery_a_wait_begins_at_sched_waking() {
        let of = |flags, has_delivery| of_text(flags, has_delivery, false).map(|config| config.from);
        assert_eq!(of("", true), Ok(LatencyFrom::Wakeup));
        assert_eq!(of("", false), Ok(LatencyFrom::Waking));
        assert!(of("--from wakeup", false).unwrap_err().contains("the recording has waits from `waking`"));
    }

    #[test]
    fn what_a_text_lacks_can_be_neither_selected_nor_grouped_by() {
        for flags in ["--policy fifo", "--by policy", "--cgroup /user.slice", "--by cgroup", "--by container"] {
            let error = of_text(flags, true, true).unwrap_err();
            assert!(error.contains("the text of a trace does not contain the"), "{flags}: {error}");
        }
        for flags in ["--pid 7", "--by pid"] {
            assert!(of_text(flags, true, true).is_ok(), "{flags}");
            assert!(of_text(flags, true, false).unwrap_err().contains("the `process` of a task"), "{flags}");
        }
        assert!(of_text("--tid 7 --comm a --prio 120 --cpus 0 --by tid,comm,prio,cpu", true, false).is_ok());
    }

    #[test]
    fn waits_below_the_threshold_of_the_recording_are_not_shown() {
        let of = |flags: &str, recorded_ns| {
            let Command::Hist(config, _) =
                crate::cli::parse(format!("wakelat hist -i file {flags}").split_whitespace().map(Into::into))
                    .unwrap()
                    .command
            else {
                panic!("{flags}")
            };
            let header = Header { classes: Class::ALL.into(), threshold_ns: recorded_ns, ..Header::default() };
            let config = config_of(&[&header], &config, config.input.as_ref().unwrap()).unwrap();
            config.threshold.map(|threshold| threshold.threshold_ns)
        };
        assert_eq!(of("", None), None);
        assert_eq!(of("", Some(2_000_000)), Some(2_000_000));
        assert_eq!(of("--threshold 1ms", Some(2_000_000)), Some(2_000_000));
        assert_eq!(of("--threshold 3ms", Some(2_000_000)), Some(3_000_000));
    }

    #[test]
    fn a_default_interval_is_a_multiple_of_the_recorded_ones_and_a_given_one_must_be() {
        let of = |flags: &str, recorded_s: u64| {
            let words = format!("wakelat export --to hdr -o other -i file {flags}");
            let Command::Export(config, _) =
                crate::cli::parse(words.split_whitespace().map(Into::into)).unwrap().command
            else {
                panic!("{flags}")
            };
            let kept = Kept::Histograms { by: Vec::new(), interval_ns: recorded_s * 1_000_000_000 };
            let header = Header { classes: Class::ALL.into(), from: LatencyFrom::Waking, kept, ..Header::default() };
            let config = config_of(&[&header], &config, config.input.as_ref().unwrap());
            config
                .map(|config| config.window.interval_ns.map(|ns| ns / 1_000_000_000))
                .map_err(|error| error.to_string())
        };
        assert_eq!([of("", 10), of("", 1)], [Ok(Some(10)), Ok(Some(1))]);
        assert!(of("--interval 1s", 10).unwrap_err().contains("a multiple of it"));
    }

    #[test]
    fn an_interval_is_at_least_that_of_the_readings() {
        let of = |flags| of(flags, &Class::ALL, LatencyFrom::Wakeup).map(|config| config.window.interval_ns);
        assert_eq!(of("1"), Ok(Some(1_000_000_000)));
        assert!(of("500ms").unwrap_err().contains("expected at least `1s`"));
    }
}
