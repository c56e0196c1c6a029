//! Renders figures as a Markdown table. Pure.

use std::fmt::Write as _;

use super::figures::Figures;
use super::instrument::SkippedInstrument;
use super::losses::Losses;
use super::spread::Spread;

/// A row of a table.
pub struct FigureRow<'a> {
    /// The instrument's title.
    pub title: &'a str,
    /// Whether its net cost is zero by definition.
    pub floor: bool,
    /// Its figures.
    pub figures: &'a Figures,
}

const HEADING: &str = "\
| instrument | CPU time | time | ns a wakeup | ns a switch | pair, × runqlat | tool, % of a CPU | resident | maps | first event | lost |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
";

/// The table of one workload.
pub fn table(rows: &[FigureRow]) -> String {
    let mut text = HEADING.to_owned();
    for FigureRow { title, floor, figures } in rows {
        let gross =
            || figures.switch_gross_ns.map_or(NONE.to_owned(), |gross| format!("0 ({:.0} gross)", gross.median));
        let cells = [
            (*title).to_owned(),
            change(figures.cpu),
            change(figures.elapsed),
            if *floor { "0".to_owned() } else { plain(figures.wakeup_ns, 0) },
            if *floor { gross() } else { plain(figures.switch_ns, 0) },
            if *floor { NONE.to_owned() } else { plain(figures.pair_to_reference, 2) },
            median(figures.tool_cpu, |share| format!("{:.1}", share * 100.0)),
            median(figures.resident_bytes, mebibytes),
            median(figures.map_bytes, mebibytes),
            median(figures.start_s, |seconds| format!("{:.0} ms", seconds * 1e3)),
            losses(figures.losses),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// What was not run, and why; empty if everything was.
pub fn skipped(skipped: &[SkippedInstrument]) -> String {
    let line = |SkippedInstrument { title, workload, reason, .. }: &SkippedInstrument| match workload {
        Some(workload) => format!("- {title} under {workload}: {reason}\n"),
        None => format!("- {title}: {reason}\n"),
    };
    skipped.iter().map(line).collect()
}

/// Shown for a figure that does not apply.
const NONE: &str = "–";

fn median(spread: Option<Spread>, show: impl Fn(f64) -> String) -> String {
    spread.map_or(NONE.to_owned(), |spread| show(spread.median))
}

/// A multiple as the change in percent, with its quartiles: `+41 % (39…44)`.
fn change(multiple: Option<Spread>) -> String {
    let Some(Spread { lower, median, upper }) = multiple else { return NONE.to_owned() };
    let percent = |multiple: f64| format!("{:.0}", (multiple - 1.0) * 100.0).replace("-0", "0");
    let sign = if percent(median).starts_with(['-', '0']) { "" } else { "+" };
    format!("{sign}{} % ({}…{})", percent(median), percent(lower), percent(upper)).replace('-', "−")
}

fn plain(spread: Option<Spread>, digits: usize) -> String {
    let Some(Spread { lower, median, upper }) = spread else { return NONE.to_owned() };
    format!("{median:.digits$} ({lower:.digits$}…{upper:.digits$})").replace('-', "−")
}

fn mebibytes(bytes: f64) -> String {
    let mebibytes = bytes / f64::from(1 << 20);
    if mebibytes < 0.1 { format!("{:.0} KiB", bytes / 1024.0) } else { format!("{mebibytes:.1} MiB") }
}

fn losses(losses: Option<Losses>) -> String {
    match losses {
        None => NONE.to_owned(),
        Some(Losses::Events(count)) => count.to_string(),
        Some(Losses::Chunks(0)) => "0".to_owned(),
        Some(Losses::Chunks(count)) => format!("{count} chunks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(lower: f64, median: f64, upper: f64) -> Option<Spread> {
        Some(Spread { lower, median, upper })
    }

    fn figures() -> Figures {
        Figures {
            elapsed: spread(1.39, 1.41, 1.444),
            cpu: spread(0.98, 0.999, 1.01),
            accounting: None,
            switch_gross_ns: spread(57.0, 58.0, 59.0),
            wakeup_ns: spread(170.0, 180.4, 190.0),
            switch_ns: None,
            pair_ns: None,
            pair_to_reference: spread(0.1, 0.201, 0.3),
            tool_cpu: spread(0.0, 0.0123, 0.1),
            resident_bytes: spread(0.0, 10.5 * 1024.0 * 1024.0, 0.0),
            map_bytes: spread(0.0, 8192.0, 0.0),
            start_s: spread(0.0, 0.0432, 0.0),
            losses: Some(Losses::Events(7)),
        }
    }

    #[test]
    fn a_row_has_a_cell_for_each_heading() {
        let text = table(&[FigureRow { title: "x", floor: false, figures: &figures() }]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[2],
            "| x | 0 % (−2…1) | +41 % (39…44) | 180 (170…190) | – | 0.20 (0.10…0.30) | 1.2 | 10.5 MiB | 8 KiB | 43 ms | 7 |"
        );
        assert!(lines.iter().all(|line| line.matches('|').count() == lines[0].matches('|').count()));
    }

    #[test]
    fn the_floor_has_a_gross_cost_but_no_net_cost() {
        let text = table(&[FigureRow { title: "x", floor: true, figures: &figures() }]);
        assert!(text.contains("| 0 | 0 (58 gross) | – |"), "{text}");
    }

    #[test]
    fn lost_chunks_are_not_reported_as_events() {
        assert_eq!(losses(Some(Losses::Chunks(3))), "3 chunks");
        assert_eq!(losses(Some(Losses::Chunks(0))), "0");
        assert_eq!(losses(None), NONE);
    }

    #[test]
    fn a_failure_under_one_workload_is_reported_for_that_workload() {
        let tool = |workload| SkippedInstrument {
            instrument: "x".into(),
            title: "X".into(),
            workload,
            reason: "fails".into(),
        };
        assert_eq!(skipped(&[tool(None), tool(Some("forks"))]), "- X: fails\n- X under forks: fails\n");
        assert!(tool(None).is("x", "pipe") && tool(Some("pipe")).is("x", "pipe"));
        assert!(!tool(Some("forks")).is("x", "pipe") && !tool(None).is("y", "pipe"));
    }

    #[test]
    fn a_change_below_zero_has_a_minus() {
        assert_eq!(change(spread(0.5, 0.9, 1.0)), "−10 % (−50…0)");
    }
}
