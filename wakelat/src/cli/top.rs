//! `wakelat top`

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

use super::{CliError, CommonFlags, GroupingFlags, RecordingFlags, collected_events::DEFAULT};
use crate::config::{Config, TableConfig, duration, number};
use wakelat_core::{aggregate::key::Key, recording::MoreEvents, render::top_table::Sort};
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat top                        on a terminal: interactive screens; ? lists the keys, q quits
  wakelat top --batch                a table of tasks with the longest waits, every second
  wakelat top --sort p99 -n 20       a table of the twenty tasks with the worst 99th percentile
  wakelat top --last                 a table of only the last second
  wakelat top --by cgroup            a table of cgroups instead of tasks
  wakelat top -d 5s --json           JSON after five seconds
  wakelat top -i file.wakelat        the tasks of a recording

On a terminal, the screens show tasks, cgroups and what they waited for. `s` saves a recording
of the last 30 seconds, and `h` an HTML report. top prints a table instead if the output is not
a terminal, with --batch, with a table flag (--sort, --limit, --last, --by), or if wakelat
does not get every event (--mode aggregate, --max-overhead).
The table covers all waits since the start (--last: in the last interval), of all classes, including
preempted tasks (see --class). `run time` is the CPU time that the kernel accounted to a thread in
that time; `-` means unknown. Tables of threads have this column, and so do tables of recordings,
where it is the sum of the recorded slices of each group.";

/// Show the tasks that wait longest, live: interactive screens on a terminal, otherwise a table
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TopFlags {
    /// Sort by this column: waits, avg, p50, p99, max, sum, task
    #[arg(long, value_name = "COLUMN", default_value = "max", value_parser = sort(), hide_possible_values = true, help_heading = "Table")]
    sort: Sort,

    /// Show at most this many rows [default: as many as fit the terminal]
    #[arg(short = 'n', long, value_name = "N", value_parser = number::rows, allow_hyphen_values = true, help_heading = "Table")]
    limit: Option<usize>,

    /// Refresh at this interval; a bare number is seconds
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::seconds, allow_hyphen_values = true, help_heading = "Table")]
    interval: u64,

    /// Show only the last interval instead of everything since the start
    #[arg(long, help_heading = "Table")]
    last: bool,

    /// Print the table even on a terminal, instead of the interactive screens
    #[arg(short, long, help_heading = "Table")]
    batch: bool,

    #[command(flatten)]
    recording: RecordingFlags,
    #[command(flatten)]
    grouping: GroupingFlags,
    #[command(flatten)]
    common: CommonFlags,
}

/// Flags that only a table has.
const TABLE_FLAGS: [(&str, &str); 6] = [
    ("sort", "--sort"),
    ("limit", "--limit"),
    ("last", "--last"),
    ("by", "--by"),
    ("per_process", "--per-process"),
    ("per_thread", "--per-thread"),
];

/// Measures all classes by default: preempted tasks wait as well, and mostly longer.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    command.mut_arg("class", |class| class.default_value("runqueue")).mut_arg("by", |by| {
        let help = by.get_help().map(ToString::to_string).unwrap_or_default();
        by.help(format!("{help} [default: tid,comm]"))
    })
}

/// Parses the name of a column.
fn sort() -> impl TypedValueParser<Value = Sort> {
    let named = |sort: Sort| {
        let value = PossibleValue::new(sort.name());
        if sort == Sort::Waits { value.alias("runs") } else { value }
    };
    PossibleValuesParser::new(Sort::ALL.map(named))
        .try_map(|name| Sort::from_name(&name).ok_or("no column has this name"))
}

impl TopFlags {
    pub(super) fn table(&self, given: impl Fn(&str) -> bool) -> TableConfig {
        let flag = TABLE_FLAGS.into_iter().find(|(id, _)| given(id));
        TableConfig {
            sort: self.sort,
            limit: self.limit,
            last_only: self.last,
            batch: self.batch,
            flag: flag.map(|(_, flag)| flag),
            mode: self.grouping.mode(),
            collect: DEFAULT,
        }
    }

    pub(super) fn config(
        self,
        given: impl Fn(&str) -> bool,
        machine: impl FnOnce() -> Result<Machine, CliError>,
    ) -> Result<Config, CliError> {
        let (mut config, machine) =
            self.recording.config(&self.common, None, MoreEvents::default(), &given, machine)?;
        // A recording has one table, unless an interval is requested; one that is being made is also shown live.
        let is_live = machine.is_some() || config.measured().is_some() && config.output.is_terminal();
        let has_interval = is_live || given("interval");
        config.set_intervals(has_interval.then_some(self.interval), None)?;
        self.grouping.apply(&[Key::Tid, Key::Comm], machine.as_ref(), &mut config)?;
        Ok(config)
    }
}
