//! `hist-trigger`: renders the histograms of a source, or prints commands.

mod source;

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use super::print::print;
use crate::config::{ConfigError, HistTriggerAction, HistTriggerConfig, PrintConfig};
use wakelat_core::render::Style;
use wakelat_tracefs::TracefsMount;
use wakelat_tracefs::hist_trigger::unit::units_of;
use wakelat_tracefs::hist_trigger::{SelectionError, chart, json, table};

/// `hist-trigger`: renders the output of hist triggers, or prints the commands that place them.
///
/// # Errors
/// If the input cannot be read or is not the output of hist triggers, a flag does not fit it, or the output cannot be
/// written.
pub fn hist_trigger(config: &HistTriggerConfig) -> Result<()> {
    print(&config.output, |style, out| run(&config.action, style, out))
}

/// Runs the subcommand and writes its result to `out`.
///
/// # Errors
/// If the input cannot be read or is not the output of hist triggers, or a unit or selection does not fit the
/// input ([`ConfigError::Usage`]).
fn run(action: &HistTriggerAction, style: &Style, out: &mut dyn Write) -> Result<()> {
    let usage = |error: SelectionError| ConfigError::Usage(error.to_string());
    match action {
        HistTriggerAction::Show(source, unit) => source::each(source, "\n", out, |histogram| {
            let units = units_of(&histogram.trigger.keys, *unit).map_err(usage)?;
            Ok(table::table(histogram, &units, style))
        }),
        HistTriggerAction::Chart(source, selection, unit) => source::each(source, "\n", out, |histogram| {
            Ok(chart::chart(histogram, selection, *unit, style).map_err(usage)?)
        }),
        HistTriggerAction::Json(source) => {
            source::each(source, "", out, |histogram| Ok(json::document(histogram)? + "\n"))
        }
        HistTriggerAction::Print(config) => print_commands(config, out),
    }
}

fn print_commands(config: &PrintConfig, out: &mut dyn Write) -> Result<()> {
    // Commands for another machine use the standard mount point of tracefs.
    let mounted = config.is_for_this_machine.then(|| TracefsMount::mounted().ok()).flatten();
    let root = mounted.as_ref().map_or(Path::new("/sys/kernel/tracing"), TracefsMount::root);
    let text = config.recipe.shell(&config.kernel, &root.display().to_string(), &config.tgids, config.duration_ns);
    out.write_all(text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HistogramSource;
    use wakelat_tracefs::hist_trigger::chart::ChartSelection;
    use wakelat_tracefs::hist_trigger::unit::Unit;

    fn run_with(action: &HistTriggerAction) -> Result<String> {
        let mut out = Vec::new();
        run(action, &Style { unicode: true, ..Style::default() }, &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    fn whole(file: &str) -> HistogramSource {
        HistogramSource { name: fixture(file), instance: None, excerpt: false }
    }

    fn excerpt(file: &str) -> HistogramSource {
        HistogramSource { excerpt: true, ..whole(file) }
    }

    fn show(source: HistogramSource) -> Result<String> {
        run_with(&HistTriggerAction::Show(source, None))
    }

    fn chart(source: HistogramSource) -> Result<String> {
        run_with(&HistTriggerAction::Chart(source, ChartSelection::default(), None))
    }

    fn chart_of_value(value: &str, source: HistogramSource) -> Result<String> {
        let selection = ChartSelection { value: Some(value.to_owned()), ..ChartSelection::default() };
        run_with(&HistTriggerAction::Chart(source, selection, None))
    }

    fn fixture(name: &str) -> String {
        format!("{}/../wakelat-tracefs/tests/fixtures/hist/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    /// A widely used introductory example of hist triggers, which leaves out the totals.
    const KMALLOC: &str = "kmalloc.excerpt";

    #[test]
    fn every_rendering_of_a_file_matches_its_snapshot() {
        insta::assert_snapshot!("kmalloc_show", show(excerpt(KMALLOC)).unwrap());
        let by_bytes = chart_of_value("bytes_req", excerpt(KMALLOC)).unwrap();
        insta::assert_snapshot!("kmalloc_chart", by_bytes);
        let latency = HistTriggerAction::Chart(whole("7.2-latency.hist"), ChartSelection::default(), Some(Unit::Ns));
        insta::assert_snapshot!("latency_chart", run_with(&latency).unwrap());
        insta::assert_snapshot!("latency_show", show(whole("7.2-latency.hist")).unwrap());
        insta::assert_snapshot!("names_show", show(whole("6.12-sched_switch.hist")).unwrap());
        insta::assert_snapshot!("onmax_show", show(whole("7.2-sched_switch-onmax.hist")).unwrap());
        insta::assert_snapshot!("percent_show", show(whole("6.12-hrtimer_expire_entry.hist")).unwrap());
        insta::assert_snapshot!("syscall_chart", chart(whole("6.1-sys_enter.hist")).unwrap());
        insta::assert_snapshot!(
            "onmax_json",
            run_with(&HistTriggerAction::Json(whole("7.2-sched_switch-onmax.hist"))).unwrap()
        );
    }

    #[test]
    fn truncated_output_is_an_error_unless_an_excerpt_is_requested() {
        let error = show(whole(KMALLOC)).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("line 8: the input ends here, before `Totals:`") && text.contains("`--excerpt`"),
            "{text}"
        );
    }

    #[test]
    fn the_error_for_an_unknown_value_lists_the_known_ones() {
        let error = chart_of_value("x", excerpt(KMALLOC)).unwrap_err();
        assert_eq!(format!("{error:#}"), "`--value`: no value `x`; expected one of `hitcount`, `bytes_req`");
        assert!(matches!(error.downcast_ref(), Some(ConfigError::Usage(_))));
    }

    #[test]
    fn flags_that_do_not_fit_the_input_are_usage_errors() {
        let directory = HistogramSource { name: env!("CARGO_MANIFEST_DIR").to_owned(), instance: None, excerpt: false };
        let error = show(directory).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(ConfigError::Usage(_))), "{error:#}");
        assert_eq!(format!("{error:#}").matches("directory").count(), 1, "{error:#}");
        let selection = ChartSelection { key: Some("x".to_owned()), ..ChartSelection::default() };
        let error = run_with(&HistTriggerAction::Chart(whole("7.2-latency.hist"), selection, None)).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(ConfigError::Usage(_))), "{error:#}");
    }

    #[test]
    fn json_has_a_document_per_line() {
        let json = run_with(&HistTriggerAction::Json(excerpt("hist-triggers-6.1-cloud.txt"))).unwrap();
        assert_eq!(json.lines().count(), 2, "{json}");
        assert!(json.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{json}");
    }

    #[test]
    fn an_empty_histogram_and_one_with_only_shares_have_a_chart() {
        let empty = chart(whole("6.1-sched_migrate_task.hist")).unwrap();
        assert!(empty.contains("\nnothing was counted\n0 hits, 0 entries, none dropped\n"), "{empty}");
        let shares = chart(whole("7.2-hrtimer_cancel.hist")).unwrap();
        insta::assert_snapshot!("shares_chart", shares);
    }

    #[test]
    fn stacks_are_numbered_in_the_chart_and_listed_below_it() {
        insta::assert_snapshot!("stacks_chart", chart(whole("6.12-sched_waking.hist")).unwrap());
    }

    /// Each transcript contains a whole histogram, lines of a test's log, and a histogram truncated by the
    /// log.
    #[test]
    fn a_log_is_read_up_to_a_truncated_histogram_and_as_an_excerpt_to_its_end() {
        for kernel in ["6.1-cloud", "6.1-rt", "6.12-cloud", "6.12-rt", "6.18-cloud", "6.18-rt", "7.0-rt", "7.2-cloud"] {
            let file = format!("hist-triggers-{kernel}.txt");
            let mut out = Vec::new();
            let error = run(&HistTriggerAction::Show(whole(&file), None), &Style::default(), &mut out).unwrap_err();
            assert!(format!("{error:#}").contains("`--excerpt` accepts incomplete input"), "{kernel}: {error:#}");
            let first = String::from_utf8(out).unwrap();
            let all = show(excerpt(&file)).unwrap();
            assert_eq!((first.matches("hist:keys").count(), all.matches("hist:keys").count()), (1, 2), "{kernel}");
        }
        let error = show(whole("hist-triggers-5.10-cloud.txt")).unwrap_err().to_string();
        assert!(error.contains("does not contain hist trigger output; line 1 is `VMLAB"), "{error}");
    }
}
