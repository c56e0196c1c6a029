//! `wakelat record`

use clap::{Args, ValueEnum};

use super::{
    CommonFlags, FromEvent,
    collected_events::CollectFlags,
    flight_recorder::FlightRecorderFlags,
    grouping::each_once,
    hide,
    stacks::StacksFlag,
    why::{adjust_from, with_all_waits},
};
use crate::config::{Config, ConfigError, RecordConfig, duration, keywords, label, labels};
use wakelat_core::{
    aggregate::key::Key,
    recording::{CollectedEvents, Kept, MoreEvents},
};
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat record -d 1m -o file.wakelat         record one minute
  wakelat why -i file.wakelat                  explain the waits in it
  wakelat top -i file.wakelat                  show the tasks that waited
  wakelat why -i file.wakelat --by cgroup      the same, grouped by cgroup
  wakelat record --keep hist -d 7d -o week.wakelat   a histogram per cgroup and second, for days
  wakelat record --last 30s --threshold 50ms -o incident.wakelat
                                               keep 30 s, and write them after a wait of 50 ms
  ssh HOST wakelat record -d 10s -o - | wakelat why -i -   record there, explain here";

/// Record scheduling events to a file; hist, top, trace and why show it with -i, on any machine
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RecordFlags {
    /// What to keep: every event (events, for all views), every wait (waits, for hist, top and trace), or a histogram per interval, group and class (hist, for hist and top)
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "events",
        hide_possible_values = true,
        help_heading = "What is kept"
    )]
    keep: KeepChoice,

    /// Group histograms by cgroup, container, comm, pid, tid, cpu or class; comma-separated [default: cgroup]
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = keywords::key, help_heading = "What is kept")]
    by: Vec<Key>,

    /// Length of the interval of a histogram [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration::seconds, allow_hyphen_values = true, help_heading = "What is kept")]
    interval: Option<u64>,

    #[command(flatten)]
    collect: CollectFlags,

    /// Also record every wakeup, for `trace --all -w`
    #[arg(short = 'w', long, help_heading = "What is kept")]
    wakeups: bool,

    /// Also record the migrations of tasks that do not wait, for `trace --all -M`
    #[arg(long, help_heading = "What is kept")]
    migrations: bool,

    #[command(flatten)]
    stacks: StacksFlag,

    /// Label the recording, such as release=42; repeatable
    #[arg(short = 'M', long, value_name = "KEY=VALUE", value_parser = label, help_heading = "Output")]
    label: Vec<(String, String)>,

    /// Why the recording is made
    #[arg(long, value_name = "TEXT", hide = true)]
    trigger: Option<String>,

    #[command(flatten)]
    flight_recorder: FlightRecorderFlags,

    #[command(flatten)]
    common: CommonFlags,
}

/// What a recording keeps of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum KeepChoice {
    /// Every event
    Events,
    /// Every wait
    Waits,
    /// A histogram per interval, group and class
    Hist,
}

/// Changes the common flags: the defaults of `why`, no flags for other formats, and a required file.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    const HIDDEN: [&str; 6] = ["json", "csv", "timestamps", "ascii", "color", "max_overhead"];
    let command = hide(with_all_waits(command), &HIDDEN).mut_arg("threshold", |arg| {
        arg.help(
            "Record only waits of at least this length; with --last, write a file at such a wait, and keep all waits \
             [default: all waits]",
        )
    });
    command.mut_arg("output", |arg| arg.required(true)).mut_arg("stacks", |arg| {
        arg.help(
            "Also record stacks of the waker, and of the wakee where it slept or was preempted, for `why --stacks` \
             [without LIST: waker,wakee]",
        )
        .help_heading("What is kept")
    })
}

impl RecordFlags {
    /// `given`: whether a flag was given, and has not only its default.
    pub(super) fn config(
        mut self,
        given: impl Fn(&str) -> bool,
        machine: &Machine,
    ) -> Result<(Config, RecordConfig), ConfigError> {
        self.check_kept(&given)?;
        if self.keep == KeepChoice::Hist && !given("from") {
            // As the views of histograms do. The delivery cannot be left out later.
            self.common.filter.from = FromEvent::Wakeup;
        }
        adjust_from(&mut self.common.filter);
        let mut config = self.common.config(machine)?;
        let (kept, collected) = match self.keep {
            KeepChoice::Events => {
                config.set_recorded()?;
                (Kept::Events, self.collect.collect())
            }
            KeepChoice::Waits => {
                config.set_recorded_waits()?;
                (Kept::Waits, CollectedEvents::default())
            }
            KeepChoice::Hist => {
                let by = each_once(&self.by)?;
                (config.set_recorded_histograms(by, self.interval, machine)?, CollectedEvents::default())
            }
        };
        let threshold_ns = config.threshold.as_ref().map(|threshold| threshold.threshold_ns);
        let flight_recorder = self.flight_recorder.config(threshold_ns)?;
        if flight_recorder.is_some() {
            config.set_flight_recorder()?;
        }
        if self.wakeups {
            config.check_sees_wakeups("--wakeups", "each of them")?;
        }
        let stacks = self.stacks.roles();
        if stacks.waker_stacks {
            config.check_sees_wakeups("--stacks=waker", "the stacks of wakers")?;
        }
        let more = MoreEvents { wakeups: self.wakeups, migrations: self.migrations, ..stacks };
        let events = RecordConfig::of_events(collected, labels(&self.label)?);
        Ok((config, RecordConfig { kept, more, trigger: self.trigger, flight_recorder, ..events }))
    }

    /// Rejects flags that were given and do not apply to what is kept.
    fn check_kept(&self, given: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        let flags = [
            ("by", "--by", KeepChoice::Hist, "hist"),
            ("interval", "--interval", KeepChoice::Hist, "hist"),
            ("collect", "--collect", KeepChoice::Events, "events"),
            ("wakeups", "--wakeups", KeepChoice::Events, "events"),
            ("migrations", "--migrations", KeepChoice::Events, "events"),
            ("stacks", "--stacks", KeepChoice::Events, "events"),
            ("last", "--last", KeepChoice::Events, "events"),
        ];
        match flags.iter().find(|(id, _, of, _)| *of != self.keep && given(id)) {
            Some((_, flag, _, keep)) => {
                Err(ConfigError::usage(flag, format!("only applies to `--keep {keep}`; leave it out")))
            }
            None => Ok(()),
        }
    }
}
