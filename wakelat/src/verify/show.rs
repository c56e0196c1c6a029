//! A comparison for people and for programs.

use serde_json::{Value as Json, json};

use super::compare::{Comparison, Fault};
use crate::sink::style::{Ink, Style};
use crate::sink::text::{Line, paragraph, right, width};
use crate::sink::units;

/// Both sides in the same buckets, side by side, with totals and the verdict.
pub fn text(comparison: &Comparison, style: &Style) -> String {
    let mut out = String::new();
    let mut rows = vec![["bucket", "wakelat", "trigger", "difference", "moved", "explained"].map(str::to_owned)];
    for row in &comparison.rows {
        let (from, to) = (units::bound(row.range.0, style.unicode), units::bound(row.range.1, style.unicode));
        rows.push([
            format!("{from} {} {to}", style.pick('–', '-')),
            units::thousands(row.bpf),
            units::thousands(row.trigger),
            signed(i128::from(row.bpf) - i128::from(row.trigger)),
            signed(row.moved),
            units::thousands(row.explained),
        ]);
    }
    let (bpf, trigger) = (&comparison.bpf, &comparison.trigger);
    let sum = |sum: Option<u128>| sum.map_or_else(String::new, |sum| units::duration(sum, style.unicode));
    let mut totals = |name: &str, left: String, right: String, difference: String| {
        rows.push([name.to_owned(), left, right, difference, String::new(), String::new()]);
    };
    let counted = |name: &str, left: u64, right: u64| {
        let difference = signed(i128::from(left) - i128::from(right));
        (name.to_owned(), units::thousands(left), units::thousands(right), difference)
    };
    for (name, left, right, difference) in [
        counted("waits", bpf.count(), trigger.count()),
        counted("hits", bpf.totals.hits, trigger.totals.hits),
        counted("entries", bpf.totals.entries, trigger.totals.entries),
        counted("dropped", bpf.totals.dropped, trigger.totals.dropped),
    ] {
        totals(&name, left, right, difference);
    }
    let difference = match (bpf.sum_ns, trigger.sum_ns) {
        (Some(left), Some(right)) => {
            let sign = if left < right { "-" } else { "" };
            format!("{sign}{}", units::duration(left.abs_diff(right), style.unicode))
        }
        _ => String::new(),
    };
    totals("sum", sum(bpf.sum_ns), sum(trigger.sum_ns), difference);
    let widths: [usize; 6] =
        std::array::from_fn(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0));
    let first_total = rows.len() - 5;
    for (index, row) in rows.iter().enumerate() {
        let faulty = index
            .checked_sub(1)
            .and_then(|index| comparison.rows.get(index))
            .is_some_and(|row| comparison.faults.iter().any(|fault| is_at(fault, row.range.1)));
        let ink = match index {
            0 => Ink::Dim,
            _ if faulty => Ink::Warning,
            _ if index >= first_total => Ink::Strong,
            _ => Ink::Plain,
        };
        let mut line = Line::new();
        for (text, columns) in row.iter().zip(widths) {
            line.push(ink, format!("  {}", right(text, columns)));
        }
        line.end_within(usize::MAX, style, &mut out);
    }
    let distance = format!(
        "largest distance between the two distributions: {:.4}; two readings of the clock may differ by {}",
        comparison.distance,
        units::exact(comparison.clock_ns, style.unicode)
    );
    paragraph(Line::of(Ink::Plain, "  "), Ink::Plain, &distance, style, &mut out);
    for fault in &comparison.faults {
        paragraph(Line::of(Ink::Warning, "  disagree: "), Ink::Plain, &fault.to_string(), style, &mut out);
    }
    if comparison.agrees() {
        let why =
            "both counted the same waits, and two readings of the clock explain every one that changed its bucket";
        paragraph(Line::of(Ink::Strong, "  agree: "), Ink::Plain, why, style, &mut out);
    }
    out
}

fn is_at(fault: &Fault, edge: u64) -> bool {
    matches!(fault, Fault::Moved { edge_ns, .. } if *edge_ns == edge)
}

fn signed(number: i128) -> String {
    let sign = match number {
        0 => "",
        _ if number < 0 => "-",
        _ => "+",
    };
    format!("{sign}{}", units::thousands(number.unsigned_abs()))
}

/// The comparison as a document; integers in ns.
pub fn document(comparison: &Comparison) -> Json {
    let side = |side: &super::side::Side| {
        json!({
            "count": side.count(),
            "sum_ns": side.sum_ns.map(|sum| u64::try_from(sum).unwrap_or(u64::MAX)),
            "hits": side.totals.hits,
            "entries": side.totals.entries,
            "dropped": side.totals.dropped,
        })
    };
    let buckets: Vec<Json> = comparison
        .rows
        .iter()
        .map(|row| {
            json!({
                "from_ns": row.range.0,
                "last_ns": row.range.1,
                "wakelat": row.bpf,
                "trigger": row.trigger,
                "moved": i64::try_from(row.moved).unwrap_or(i64::MAX),
                "explained": row.explained,
            })
        })
        .collect();
    let faults: Vec<String> = comparison.faults.iter().map(Fault::to_string).collect();
    json!({
        "schema": "wakelat.comparison/1",
        "wakelat": side(&comparison.bpf),
        "trigger": side(&comparison.trigger),
        "buckets": buckets,
        "distance": comparison.distance,
        "clock_ns": comparison.clock_ns,
        "tolerated_waits": comparison.tolerance.waits,
        "held_up": comparison.tolerance.held_up,
        "agree": comparison.agrees(),
        "reasons": faults,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist_trigger::recipe::Buckets;
    use crate::verify::{compare::Tolerance, side::Exact};

    fn comparison(shift: u64) -> Comparison {
        let counted = |shift: u64, clock_ns: u64| {
            let mut exact = Exact::new(Buckets::Log2, clock_ns);
            (0..2_000u64).for_each(|i| exact.record(20_000 + i * 7919 % 60_000 + shift));
            exact
        };
        Comparison::new(&counted(0, 5_000), counted(shift, 0).side, Tolerance::default())
    }

    #[test]
    fn both_sides_stand_beside_each_other_with_the_verdict() {
        let style = Style { unicode: true, ..Style::default() };
        insta::assert_snapshot!("agree", text(&comparison(300), &style));
        insta::assert_snapshot!("disagree", text(&comparison(40_000), &style));
    }

    #[test]
    fn json_says_the_same() {
        let (agree, disagree) = (document(&comparison(300)), document(&comparison(40_000)));
        assert_eq!((&agree["agree"], &disagree["agree"]), (&json!(true), &json!(false)));
        assert_eq!(agree["reasons"], json!([]));
        assert_eq!(agree["buckets"].as_array().unwrap().len(), 3);
        assert!(disagree["reasons"][0].as_str().unwrap().contains("on the other side of"));
    }
}
