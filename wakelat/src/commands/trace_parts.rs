//! `trace --parts`: a line a wait, with what it went to.

use std::io::{self, Write};

use anyhow::Result;

use super::{aside, run, style};
use crate::{
    aggregate::key::Names,
    collect,
    config::Config,
    report::Report,
    session::{StopReason, View},
    sink::{self, Accounts, Style},
    timeline::{Timeline, event::Event},
};

/// `trace --parts`: a line a wait, with what it went to.
///
/// # Errors
/// Those of [`crate::session::run`].
pub fn trace_parts(config: &Config) -> Result<StopReason> {
    let (style, _) = style(&config.output);
    let mut view = TraceParts {
        reasons: Timeline::new(config.from),
        aside: aside(config, &style),
        accounts: config.output.format.accounts(config.from, style),
    };
    run(config, &mut view)
}

/// Shows accounts of waits as lines.
struct TraceParts {
    reasons: Timeline,
    accounts: Box<dyn Accounts>,
    /// How the coverage is to look on standard error, where the output cannot hold it.
    aside: Option<Style>,
}

impl View for TraceParts {
    fn shows_events(&self) -> Option<collect::TimelineSettings> {
        Some(collect::TimelineSettings::OF_WAITS)
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.accounts.head(out)
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        let Some(account) = self.reasons.push(event) else { return Ok(()) };
        let name_of = |tid| names.comm(tid);
        self.accounts.account(account, &sink::Context { unix_offset_ns, name_of: &name_of }, out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.accounts.end(report, out)?;
        if let Some(style) = &self.aside {
            sink::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}
