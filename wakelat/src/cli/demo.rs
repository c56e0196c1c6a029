//! `wakelat demo`, and `wakelat` without arguments: the first things that a new user types.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use crate::config::{Command, DEMO, WhyLayout};

const EXAMPLES: &str = "\
Examples:
  wakelat demo                         what delayed the tasks, at a glance
  wakelat demo why --by cgroup         the causes for each cgroup
  wakelat demo top --sort p99          the tasks that wait longest
  wakelat demo trace --class runqueue --threshold 20ms
                                       each wait of 20 ms or more
  wakelat demo hist 1                  a chart for each second
  wakelat demo --report report.html    a page that opens in any browser";

/// Number of the longest waits in an overview.
const WORST: &str = "3";

/// Show the built-in recording with hist, top, trace, why, report or export; needs no privileges
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DemoFlags {
    /// The view: hist, top, trace, why, report or export [default: an overview]
    #[arg(value_enum, hide_possible_values = true)]
    view: Option<DemoView>,

    /// Also write the result as one HTML file, which opens in any browser
    #[arg(long, value_name = "FILE")]
    report: Option<OsString>,

    /// Also write the causes of the waits as a picture (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<OsString>,

    /// The flags of the view, as with -i
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

/// The views that show a recording.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DemoView {
    Hist,
    Top,
    Trace,
    Why,
    Report,
    Export,
}

impl DemoFlags {
    /// The same as a command line that reads the demo recording, and whether that is an overview.
    pub(super) fn command_line(self) -> (Vec<OsString>, bool) {
        let files = [("--report", self.report), ("--svg", self.svg)];
        let files = files.into_iter().filter_map(|(flag, file)| Some([flag.into(), file?])).flatten();
        let Some(view) = self.view.as_ref().and_then(DemoView::to_possible_value) else {
            return (overview(&["--input", DEMO]).into_iter().chain(files).collect(), true);
        };
        let view = ["wakelat", view.get_name(), "--input", DEMO].map(OsString::from);
        (view.into_iter().chain(files).chain(self.flags).collect(), false)
    }
}

/// The command line of an overview of this machine.
pub(super) fn overview_of_this_machine() -> Vec<OsString> {
    overview(&["--duration", "10s"])
}

fn overview(source: &[&str]) -> Vec<OsString> {
    let view = ["wakelat", "why", "--class", "runqueue", "--worst", WORST];
    view.iter().chain(source).map(OsString::from).collect()
}

/// Makes an overview of a report of `why`.
pub(super) fn as_overview(command: Command) -> Command {
    match command {
        Command::Why(config, why) => {
            Command::Why(config, crate::config::WhyConfig { layout: WhyLayout::Overview, ..why })
        }
        other => other,
    }
}
