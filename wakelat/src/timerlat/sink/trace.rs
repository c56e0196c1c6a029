//! `timerlat trace` for people: a line for each activation that reached the threshold.

use super::{
    super::{explain::Explained, record::Context},
    words,
};
use crate::sink::{
    style::{Ink, Style},
    text::{Line, left, right},
    units,
};

/// Shares that a line names.
const NAMED: usize = 4;

/// The line above the first activation.
pub fn head(style: &Style) -> String {
    let mut out = String::new();
    let title = format!("{:>12}  CPU  {:>8}  {:>9}  {:>9}  {:>9}  where it went", "time", "#", "IRQ", "Thr", "Usr");
    Line::of(Ink::Title, title).end(style, &mut out);
    out
}

/// The line of an activation. Lines of a file are as long as they need to be.
pub fn line(one: &Explained, style: &Style) -> String {
    let activation = &one.activation;
    let at = activation.total().map_or(0, |(_, measured)| measured.at_ns);
    let number = left(&format!("#{}", activation.seq), 8, style);
    let mut line = Line::of(Ink::Dim, right(&words::instant(at), 12))
        .and(Ink::Plain, format!("  {:>3}  {number}", activation.cpu));
    for context in Context::ALL {
        let measured =
            activation.measured(context).map_or_else(|| "-".to_owned(), |m| words::time(m.latency_ns, style));
        let ink = if context == one.context { Ink::Strong } else { Ink::Plain };
        line.push(Ink::Plain, "  ");
        line.push(ink, right(&measured, 9));
    }
    let mut shares: Vec<_> = one.shares.iter().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
    let named = shares
        .iter()
        .take(NAMED)
        .map(|share| format!("{} {}", words::cause(&share.cause, style), units::share(share.ns, one.latency_ns)));
    line.push(Ink::Plain, format!("  {}", named.collect::<Vec<_>>().join(", ")));
    let mut out = String::new();
    let columns = if style.terminal { style.columns() } else { usize::MAX };
    line.end_within(columns, style, &mut out);
    out
}
