//! `timerlat trace` for people: a line for each activation that reached the threshold.

use super::{
    super::{explain::ExplainedActivation, record::TimerlatContext},
    words,
};
use crate::sink::{
    style::{Style, TextStyle},
    text::{TextLine, flow, left, right},
    units,
};

/// Shares that a line names.
const MAX_NAMED_SHARES: usize = 4;

/// Columns that the shares need beside the figures; where there are fewer, they stand below.
const MIN_SHARES_WIDTH: usize = 30;

/// Columns from which the number of the activation is shown.
const MIN_NUMBERED_WIDTH: usize = 60;

/// The lines of a run.
#[derive(Clone, Debug)]
pub struct ActivationLines {
    style: Style,
    /// Whether a thread of user space measures: its column is there.
    user: bool,
}

impl ActivationLines {
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
        TextLine::of(TextStyle::Title, title).finish_within(self.columns(), &self.style, &mut out);
        out
    }

    /// The line of an activation. On a terminal it goes on below its last column where there is no room for the shares; lines
    /// of a file are as long as they need to be.
    pub fn line(&self, one: &ExplainedActivation) -> String {
        let (activation, style) = (&one.activation, &Style { width: self.columns(), ..self.style.clone() });
        let at = activation.total().map_or(0, |(_, measured)| measured.at_ns);
        let mut line = TextLine::of(TextStyle::Dim, right(&words::instant(at), 12))
            .and(TextStyle::Plain, format!("  {:>3}", activation.cpu));
        if self.is_numbered() {
            line.push(TextStyle::Plain, format!("  {}", left(&format!("#{}", activation.seq), 8, style)));
        }
        for context in self.contexts() {
            let measured =
                activation.measured(context).map_or_else(|| "-".to_owned(), |m| words::time(m.latency_ns, style));
            let ink = if context == one.context { TextStyle::Strong } else { TextStyle::Plain };
            line.push(TextStyle::Plain, "  ");
            line.push(ink, right(&measured, 9));
        }
        line.push(TextStyle::Plain, "  ");
        let mut shares: Vec<_> = one.shares.iter().collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
        let named = shares.iter().take(MAX_NAMED_SHARES).map(|share| {
            let share_of = units::share(share.ns, one.latency_ns);
            TextLine::of(TextStyle::Plain, format!("{} {share_of}", words::cause(&share.cause, style)))
        });
        let mut out = String::new();
        if line.width() + MIN_SHARES_WIDTH > style.columns() {
            line.finish(style, &mut out);
            line = TextLine::of(TextStyle::Plain, " ".repeat(4));
        }
        flow(line, named.collect(), ", ", style, &mut out);
        out
    }

    fn contexts(&self) -> impl Iterator<Item = TimerlatContext> + use<> {
        let user = self.user;
        TimerlatContext::ALL.into_iter().filter(move |context| user || *context != TimerlatContext::User)
    }

    fn is_numbered(&self) -> bool {
        self.columns() >= MIN_NUMBERED_WIDTH
    }

    /// Nothing breaks the lines of a file.
    fn columns(&self) -> usize {
        if self.style.terminal { self.style.columns() } else { usize::MAX / 2 }
    }
}
