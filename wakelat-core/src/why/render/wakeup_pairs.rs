//! Renders the wakeup pairs, with the waits that followed.

use crate::{
    aggregate::percentile_rank::Percentile,
    render::{
        Style,
        labels::key,
        style::TextStyle,
        text_line::{TextLine, fit, flow, left, right, width},
        units,
    },
    report::KeyPart,
    why::{Summary, wakeup_pairs::WakeupPair},
};

/// Maximum number of lines.
const LINES: usize = 10;

/// Minimum share of the waiting time of all pairs that a pair needs to be shown: percent.
const FROM: u128 = 1;

/// Maximum width of a name, in columns.
const NAME: usize = 28;

/// The arrow between two names, and the width of each figure in columns.
const ARROW: &str = " --> ";
const TIME: usize = 10;
const SHARE: usize = 8;
const WAITS: usize = 9;
const P99: usize = 10;
const LONGEST: usize = 10;

/// Appends the table to `out`.
pub fn draw(summary: &Summary, style: &Style, out: &mut String) {
    let ranking = &summary.wakeup_pairs;
    let time = |ns: u128| units::duration(ns, style.unicode);
    if ranking.pairs.is_empty() {
        return;
    }
    let pieces = vec![
        TextLine::of(TextStyle::Title, "wakeup pairs"),
        TextLine::of(TextStyle::Plain, units::counted(ranking.all.count, "wait")),
        TextLine::of(TextStyle::Plain, format!("{} in total", time(ranking.all.ns))),
    ];
    flow(TextLine::new(), pieces, style.pick(" · ", " | "), style, out);
    let large = |pair: &&WakeupPair| pair.waits.ns * 100 >= ranking.all.ns * FROM;
    let shown: Vec<&WakeupPair> = ranking.pairs.iter().filter(large).take(LINES).collect();
    let names: Vec<[String; 2]> =
        shown.iter().map(|pair| [name(&pair.waker, style), key(&pair.wakee, style).unwrap_or_default()]).collect();
    let longest = |index: usize| names.iter().map(|names| width(&names[index])).max().unwrap_or(0).clamp(5, NAME);
    let (waker, wakee) = (longest(0), longest(1));
    let room = style.columns().saturating_sub(2 + ARROW.len() + TIME + SHARE);
    // One more figure is not worth truncated names.
    let with = |figures: usize| room >= waker + wakee + figures;
    let (waits, p99, longest) = (with(WAITS), with(WAITS + P99), with(WAITS + P99 + LONGEST));
    let (waker, wakee) = (waker.min(room / 2), wakee.min(room.saturating_sub(waker.min(room / 2))));
    let mut title = format!(
        "  {}{}{:>TIME$}{:>SHARE$}",
        right("waker", waker),
        left("     wakee", wakee + ARROW.len(), style),
        "total",
        "share"
    );
    for (_, text) in [
        (waits, format!("{:>WAITS$}", "waits")),
        (p99, format!("{:>P99$}", "p99")),
        (longest, format!("{:>LONGEST$}", "longest")),
    ]
    .into_iter()
    .filter(|(shown, _)| *shown)
    {
        title.push_str(&text);
    }
    TextLine::of(TextStyle::Dim, title).finish(style, out);
    for (pair, [from, to]) in shown.iter().zip(&names) {
        let mut line = TextLine::of(TextStyle::Plain, format!("  {}", right(&fit(from, waker, style), waker)))
            .and(TextStyle::Dim, ARROW)
            .and(TextStyle::Plain, left(to, wakee, style))
            .and(TextStyle::Plain, right(&time(pair.waits.ns), TIME))
            .and(TextStyle::Strong, right(&units::share_of(pair.waits.ns, ranking.all.ns), SHARE));
        if waits {
            line.push(TextStyle::Dim, right(&units::short(pair.waits.count), WAITS));
        }
        if p99 {
            line.push(TextStyle::Dim, right(&time(pair.waits.percentile_ns(Percentile::P99).into()), P99));
        }
        if longest {
            line.push(TextStyle::Dim, right(&time(pair.waits.max_ns.into()), LONGEST));
        }
        line.finish(style, out);
    }
    rest(summary, shown.len(), style, out);
    out.push('\n');
}

/// Appends the number and the time of the waits of pairs without a line.
fn rest(summary: &Summary, shown: usize, style: &Style, out: &mut String) {
    let ranking = &summary.wakeup_pairs;
    let ns: u128 = ranking.pairs.iter().take(shown).map(|pair| pair.waits.ns).sum();
    let waits: u64 = ranking.pairs.iter().take(shown).map(|pair| pair.waits.count).sum();
    if waits < ranking.all.count {
        let time = units::duration(ranking.all.ns - ns, style.unicode);
        let text = format!("  {} more in other pairs: {time}", units::thousands(ranking.all.count - waits));
        TextLine::of(TextStyle::Dim, text).finish(style, out);
    }
}

fn name(waker: &[KeyPart], style: &Style) -> String {
    key(waker, style).unwrap_or_else(|| "unknown".to_owned())
}
