//! Renders `timerlat trace` for people: a line for each activation that reached the threshold.

use super::{
    super::{explain::ExplainedActivation, record::TimerlatContext},
    labels,
};
use crate::render::{
    style::{Style, TextStyle},
    text_line::{TextLine, flow, left, right},
    units,
};

/// Maximum number of shares shown of an activation.
const MAX_NAMED_SHARES: usize = 4;

/// Minimum width for the shares beside the figures, in columns. If there is less, they are shown below.
const MIN_SHARES_WIDTH: usize = 30;

/// Minimum width of a line with the number of the activation, in columns.
const MIN_NUMBERED_WIDTH: usize = 60;

/// Renders the lines of a run.
#[derive(Clone, Debug)]
pub struct ActivationLines {
    style: Style,
    /// Whether to show a column for the return to user space.
    user: bool,
}

impl ActivationLines {
    /// Creates a renderer in `style`, with a column for the return to user space if `user`.
    pub fn new(style: Style, user: bool) -> Self {
        Self { style, user }
    }

    /// The header above the first activation.
    pub fn head(&self) -> String {
        let mut title = format!("{:>12}  CPU", "time");
        if self.is_numbered() {
            title.push_str(&format!("  {:>8}", "#"));
        }
        self.contexts().for_each(|context| title.push_str(&format!("  {:>9}", context.name())));
        const SHARES: &str = "  causes";
        if title.len() + SHARES.len() <= self.columns() {
            title.push_str(SHARES);
        }
        let mut out = String::new();
        TextLine::of(TextStyle::Title, title).finish_within(self.columns(), &self.style, &mut out);
        out
    }

    /// The line of an activation. On a terminal without room for the shares, they follow on further lines;
    /// lines in a file have any length.
    pub fn line(&self, one: &ExplainedActivation) -> String {
        let (activation, style) = (&one.activation, &Style { width: self.columns(), ..self.style.clone() });
        let at = activation.total().map_or(0, |(_, measured)| measured.at_ns);
        let mut line = TextLine::of(TextStyle::Dim, right(&labels::instant(at), 12))
            .and(TextStyle::Plain, format!("  {:>3}", activation.cpu));
        if self.is_numbered() {
            line.push(TextStyle::Plain, format!("  {}", left(&format!("#{}", activation.seq), 8, style)));
        }
        for context in self.contexts() {
            let measured =
                activation.measured(context).map_or_else(|| "-".to_owned(), |m| labels::time(m.latency_ns, style));
            let ink = if context == one.context { TextStyle::Strong } else { TextStyle::Plain };
            line.push(TextStyle::Plain, "  ");
            line.push(ink, right(&measured, 9));
        }
        line.push(TextStyle::Plain, "  ");
        let mut shares: Vec<_> = one.shares.iter().collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
        let named = shares.iter().take(MAX_NAMED_SHARES).map(|share| {
            let share_of = units::share(share.ns, one.latency_ns);
            TextLine::of(TextStyle::Plain, format!("{} {share_of}", labels::cause(&share.cause, style)))
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

    /// The width of a line. Lines in a file are not limited.
    fn columns(&self) -> usize {
        if self.style.terminal { self.style.columns() } else { usize::MAX / 2 }
    }
}
