//! A comparison as Markdown, for a comment on a change.

use super::{super::comparison::ArmComparison, labels};
use crate::render::{Style, text_line::clean};

/// The number of causes that are shown of a group.
const CAUSES: usize = 5;

/// The comparison as Markdown of GitHub: the verdict, and a table for each group.
pub fn markdown(comparison: &ArmComparison) -> String {
    let style = Style { unicode: true, ..Style::default() };
    let cell = |text: &str| {
        let text = clean(text, &style);
        let escaped: String =
            text.chars().flat_map(|c| if "\\`*_{}[]<>|#@".contains(c) { vec!['\\', c] } else { vec![c] }).collect();
        escaped
    };
    let mut out = format!("**wakelat: {}**\n\n", labels::verdict(comparison));
    for reason in labels::reasons(comparison, true) {
        out += &format!("- {}\n", cell(&reason));
    }
    if let Some(needed) = labels::runs_needed(comparison) {
        out += &format!("- {needed}\n");
    }
    for note in &comparison.notes {
        out += &format!("- note: {}\n", cell(note));
    }
    for group in &comparison.groups {
        out += &format!("\n#### {}: {}\n\n", cell(&group.name.to_string()), group.verdict.name());
        out += "| | base | new | ratio | interval | verdict |\n|---|--:|--:|--:|---|---|\n";
        for metric in &group.metrics {
            let [base, new] = metric.values.map(|value| labels::value(metric.metric, value, true));
            let verdict = metric.verdict.map_or("", super::super::comparison::ArmVerdict::name);
            out += &match metric.ratio {
                None => format!("| {} | | | | not resolvable | |\n", metric.metric),
                Some(ratio) => format!(
                    "| {} | {base} | {new} | {} | {} | {verdict} |\n",
                    metric.metric,
                    labels::number(ratio),
                    labels::interval(metric.interval)
                ),
            };
        }
        for limit in &group.limits {
            let sentence = labels::limit_sentence(group, limit, true);
            out += &format!("\n{}: {}\n", cell(&sentence), limit.verdict.name());
        }
        if group.causes.iter().any(|cause| cause.change() != 0.0) {
            out += "\n| change | cause | base | new |\n|--:|---|--:|--:|\n";
            for cause in group.causes.iter().take(CAUSES) {
                let [base, new] = cause.rates.map(|rate| labels::rate(rate, true));
                let change = labels::rate_change(cause.change(), true);
                out += &format!("| {change} | {} | {base} | {new} |\n", cell(&cause.name));
            }
        }
    }
    let [base, new] = [0, 1].map(|arm: usize| comparison.runs[arm].len());
    out += &format!("\n{base} and {new} runs; {}\n", labels::method(comparison));
    out
}
