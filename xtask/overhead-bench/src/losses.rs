//! Reads what a tool reports as lost. Pure.

use serde::Serialize;
use serde_json::Value;

/// Where a tool reports its losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossSource {
    /// In the coverage of wakelat's report.
    Coverage,
    /// In the warnings of the coverage that `wakelat record` writes to standard error.
    CoverageWarnings,
    /// On standard error of `perf record`, which counts chunks of its ring buffer.
    PerfRecord,
    /// In the statistics of each CPU's buffer that `trace-cmd record` prints.
    TraceCmd,
    /// Nowhere.
    Nowhere,
}

/// What was lost, as the tool counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Losses {
    /// A number of events.
    Events(u64),
    /// A number of chunks of a buffer, each with an unknown number of events.
    Chunks(u64),
}

impl Losses {
    /// Adds up two losses. If only one counts chunks, so does the sum.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Events(a), Self::Events(b)) => Self::Events(a + b),
            (Self::Chunks(a) | Self::Events(a), Self::Chunks(b) | Self::Events(b)) => Self::Chunks(a + b),
        }
    }
}

impl LossSource {
    /// Reads the losses from what the tool wrote to standard output and to standard error. `None` if it
    /// does not report them.
    pub fn losses(self, printed: (&str, &str)) -> Option<Losses> {
        match self {
            Self::Coverage => {
                // With --quiet, there is nothing else on standard output.
                let coverage = &serde_json::from_str::<Value>(printed.0.lines().last()?).ok()?["coverage"];
                let lost = |counters: &Value| LOST.iter().filter_map(|term| counters[term].as_u64()).sum::<u64>();
                let waits = lost(coverage) + lost(&coverage["preemptions"]) + lost(&coverage["switch_ins"]);
                // If every switch is recorded, a wait without room in the ring buffer is lost with its
                // switch record: it is in both counts.
                let events = coverage["events_lost"].as_u64().unwrap_or(0);
                Some(Losses::Events(waits.max(events)))
            }
            Self::CoverageWarnings => {
                // As for the other form, an event that was lost may also be a wait that was lost.
                let of = |what: &str| warned(printed.1, what).sum::<u64>();
                let waits = of("%) lost: the task table was full")
                    + of("%) lost: the ring buffer was full")
                    + of("%) invalid:");
                let events = of("of the timeline lost:") + of("not written:");
                let missed = of("missed: the kernel skipped");
                printed.1.contains("window: ").then_some(Losses::Events(waits.max(events) + missed))
            }
            Self::PerfRecord => Some(Losses::Chunks(number_before(printed.1, " chunks!").unwrap_or(0))),
            Self::TraceCmd => {
                let statistics = |name: &str| -> Option<u64> {
                    let lines = printed.0.lines().chain(printed.1.lines());
                    lines
                        .filter_map(|line| line.trim().strip_prefix(name)?.trim().parse::<u64>().ok())
                        .reduce(|a, b| a + b)
                };
                let (overrun, dropped) = (statistics("overrun:"), statistics("dropped events:"));
                (overrun.is_some() || dropped.is_some())
                    .then(|| Losses::Events(overrun.unwrap_or(0) + dropped.unwrap_or(0)))
            }
            Self::Nowhere => None,
        }
    }
}

/// Counters of the coverage that are losses (docs/output.md), except `missed_switch`: nothing that a tool
/// does makes a kernel hide its switches.
const LOST: [&str; 4] = ["task_table_full", "ring_buffer_full", "invalid", "missed"];

/// The numbers of the warnings of this kind: `! 12 events of the timeline lost: …`, `! 3 wakeups (0.1 %) lost: …`. Long
/// warnings have several lines.
fn warned<'a>(text: &'a str, what: &'a str) -> impl Iterator<Item = u64> + 'a {
    let warnings = text.split("\n! ").skip(1).map(|warning| warning.split_whitespace().collect::<Vec<_>>().join(" "));
    let warnings = warnings.filter(move |warning| warning.split(';').next().is_some_and(|first| first.contains(what)));
    warnings.filter_map(|warning| warning.split(' ').next()?.replace(',', "").parse().ok())
}

/// The number right before `words`.
fn number_before(text: &str, words: &str) -> Option<u64> {
    text.split_once(words)?.0.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_in_the_coverage_counts() {
        let report = r#"{"schema":"wakelat.report/1","coverage":{"measured":9,"task_table_full":1,"ring_buffer_full":20,"invalid":300,
            "missed_switch":7,"missed":4000,"preemptions":{"ring_buffer_full":50000}}}"#
            .replace('\n', "");
        assert_eq!(LossSource::Coverage.losses((&report, "")), Some(Losses::Events(54321)));
        let report = r#"{"schema":"wakelat.report/1","coverage":{"invalid":0,"switch_ins":{"ring_buffer_full":7}}}"#;
        assert_eq!(LossSource::Coverage.losses((report, "")), Some(Losses::Events(7)));
        let report = r#"{"schema":"wakelat.why/1","coverage":{"ring_buffer_full":20,"events_lost":50}}"#;
        assert_eq!(LossSource::Coverage.losses((report, "")), Some(Losses::Events(50)));
        assert_eq!(LossSource::Coverage.losses(("", "error")), None);
    }

    #[test]
    fn the_warnings_of_a_recording_count_once_and_missed_switches_do_not() {
        let printed = "wakelat: measuring\nwindow: 1.0 s\n1,403 wakeups: 1,334 measured, 71 lost\n\
            ! 2 wakeups (0.1 %) with a missed switch: the switch that ended the wait was not\n  seen\n\
            ! 1,020 wakeups (7.1 %) lost: the ring buffer\n  was full; raise `--ring-size`\n\
            ! 1,500 events of the timeline lost: the ring buffer was full; raise\n  `--ring-size`\n\
            ! 4 events missed: the kernel skipped a BPF program that was already running; waits\n  may be missing\n";
        assert_eq!(LossSource::CoverageWarnings.losses(("", printed)), Some(Losses::Events(1_504)));
        let none = "wakelat: measuring\nwindow: 1.0 s\n1,403 wakeups: 1,403 measured, 0 lost\n";
        assert_eq!(LossSource::CoverageWarnings.losses(("", none)), Some(Losses::Events(0)));
        assert_eq!(LossSource::CoverageWarnings.losses(("", "wakelat: error: no")), None);
    }

    #[test]
    fn perf_reports_nothing_if_it_lost_nothing() {
        let lost = "Warning:\nProcessed 1234 events and lost 5 chunks!\n\nCheck IO/CPU overload!\n";
        assert_eq!(LossSource::PerfRecord.losses(("", lost)), Some(Losses::Chunks(5)));
        assert_eq!(LossSource::PerfRecord.losses(("", "[ perf record: Woken up 1 times ]")), Some(Losses::Chunks(0)));
    }

    #[test]
    fn the_counts_of_trace_cmd_are_summed_over_the_cpus() {
        let cpu = |overrun: u64, dropped: u64| {
            format!("entries: 0\noverrun: {overrun}\ncommit overrun: 0\ndropped events: {dropped}\nread events: 42\n")
        };
        let printed = format!("CPU: 0\n{}CPU: 1\n{}", cpu(3, 10), cpu(4, 0));
        assert_eq!(LossSource::TraceCmd.losses((&printed, "")), Some(Losses::Events(17)));
        assert_eq!(LossSource::TraceCmd.losses(("", "")), None);
    }

    #[test]
    fn a_tool_that_does_not_report_losses_has_none_instead_of_zero() {
        assert_eq!(LossSource::Nowhere.losses(("lost 3 chunks!", "")), None);
    }

    #[test]
    fn rounds_add_up() {
        assert_eq!(Losses::Events(1).and(Losses::Events(2)), Losses::Events(3));
        assert_eq!(Losses::Chunks(1).and(Losses::Chunks(2)), Losses::Chunks(3));
    }
}
