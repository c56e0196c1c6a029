//! `timerlat trace` for people: a line for each activation that reached the threshold.

use super::{
    super::{explain::Explained, record::Context},
    words,
};
use crate::sink::{
    style::{Ink, Style},
    text::{Line, flow, left, right},
    units,
};

/// Shares that a line names.
const NAMED: usize = 4;

/// Columns that the shares need beside the figures; where there are fewer, they stand below.
const SHARES: usize = 30;

/// Columns from which the number of the activation is shown.
const NUMBERED: usize = 60;

/// The lines of a run.
#[derive(Clone, Debug)]
pub struct Lines {
    style: Style,
    /// Whether a thread of user space measures: its column is there.
    user: bool,
}

impl Lines {
    /// Lines in `style`, with a column for the return to user space if `user`.
    pub fn new(style: Style, user: bool) -> Self {
        Self { style, user }
    }

    /// The line above the first activation.
    pub fn head(&self) -> String {
        let mut title = format!("{:>12}  CPU", "time");
        if self.is_numbered() {
            title.push_str(&format!("  {:>8}", "#"));
        }
        self.contexts().for_each(|context| title.push_str(&format!("  {:>9}", context.name())));
        const SHARES: &str = "  where it went";
        if title.len() + SHARES.len() <= self.columns() {
            title.push_str(SHARES);
        }
        let mut out = String::new();
        Line::of(Ink::Title, title).end_within(self.columns(), &self.style, &mut out);
        out
    }

    /// The line of an activation. On a terminal it goes on below its last column where there is no room for the shares; lines
    /// of a file are as long as they need to be.
    pub fn line(&self, one: &Explained) -> String {
        let (activation, style) = (&one.activation, &Style { width: self.columns(), ..self.style.clone() });
        let at = activation.total().map_or(0, |(_, measured)| measured.at_ns);
        let mut line =
            Line::of(Ink::Dim, right(&words::instant(at), 12)).and(Ink::Plain, format!("  {:>3}", activation.cpu));
        if self.is_numbered() {
            line.push(Ink::Plain, format!("  {}", left(&format!("#{}", activation.seq), 8, style)));
        }
        for context in self.contexts() {
            let measured =
                activation.measured(context).map_or_else(|| "-".to_owned(), |m| words::time(m.latency_ns, style));
            let ink = if context == one.context { Ink::Strong } else { Ink::Plain };
            line.push(Ink::Plain, "  ");
            line.push(ink, right(&measured, 9));
        }
        line.push(Ink::Plain, "  ");
        let mut shares: Vec<_> = one.shares.iter().collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
        let named = shares.iter().take(NAMED).map(|share| {
            let share_of = units::share(share.ns, one.latency_ns);
            Line::of(Ink::Plain, format!("{} {share_of}", words::cause(&share.cause, style)))
        });
        let mut out = String::new();
        if line.width() + SHARES > style.columns() {
            line.end(style, &mut out);
            line = Line::of(Ink::Plain, " ".repeat(4));
        }
        flow(line, named.collect(), ", ", style, &mut out);
        out
    }

    fn contexts(&self) -> impl Iterator<Item = Context> + use<> {
        let user = self.user;
        Context::ALL.into_iter().filter(move |context| user || *context != Context::User)
    }

    fn is_numbered(&self) -> bool {
        self.columns() >= NUMBERED
    }

    /// Nothing breaks the lines of a file.
    fn columns(&self) -> usize {
        if self.style.terminal { self.style.columns() } else { usize::MAX / 2 }
    }
}
