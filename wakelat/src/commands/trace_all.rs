//! `trace --all`: prints a line per switch.

use std::io::{self, Write};

use anyhow::{Context as _, Result};
use wakelat_common::filter::MAX_CPUS;

use super::{
    measurement::Source,
    terminal_style::{stderr_style, style},
};
use crate::{
    collect::{MigrationScope, TimelineSettings},
    config::{Config, ConfigError, CpuMap, FilterConfig, TraceAllConfig},
    session::{StopReason, View},
    status::status,
};
use wakelat_core::{
    aggregate::key::Names,
    recording::{Header, MoreEvents},
    render::{self, EventRenderer, Style},
    report::Report,
    timeline::{
        event::Event,
        timehist::{SchedLineOptions, SliceTracker},
    },
};
use wakelat_kernel::cpus::Cpus;

/// `trace --all`: prints a line per switch.
///
/// # Errors
/// Errors of [`crate::session::run`], or if the recording cannot be read or does not have what `config` requests.
pub fn trace_all(config: &Config, all: &TraceAllConfig) -> Result<StopReason> {
    let (source, config) = Source::open(config)?;
    check_events(all.shown, &config, &source.headers())?;
    let mut view = TraceAllView::new(&config, all, &source.headers())?;
    source.show(&config, &mut view)
}

/// Checks that the recordings with these headers have the events that are `shown`; says so if they have only some.
fn check_events(shown: SchedLineOptions, config: &Config, headers: &[&Header]) -> Result<(), ConfigError> {
    let Some(has) = headers.iter().map(|header| header.more).reduce(MoreEvents::both) else { return Ok(()) };
    let is_text = headers.iter().any(|header| header.text.is_some());
    if shown.wakeups && !has.wakeups {
        let why = if is_text {
            "the trace has neither `sched_wakeup` nor `sched_waking`; leave it out, or record one of them"
        } else {
            "the recording has no wakeups; leave it out, or record them with `wakelat record --wakeups`"
        };
        return Err(ConfigError::usage("--wakeups", why));
    }
    if shown.migrations && !has.migrations && !config.output.quiet {
        status(if is_text {
            "the beginning of the trace has no `sched_migrate_task`; without it, no migrations are shown"
        } else {
            "only migrations of waiting tasks are in the recording; `wakelat record --migrations` records all"
        });
    }
    Ok(())
}

/// The CPUs that have a column each; empty for no columns.
fn cpu_map(all: &TraceAllConfig, config: &Config, header: Option<&Header>) -> Result<Vec<u32>> {
    Ok(match (&all.cpu_map, header) {
        (CpuMap::None, _) | (CpuMap::OfRecording, None) => Vec::new(),
        (CpuMap::Of(cpus), _) => cpus.clone(),
        (CpuMap::OfRecording, Some(header)) => {
            let online = Cpus::parse(&header.machine.cpus_online).context("cannot read the CPUs of the recording")?;
            // Bounded, whatever the file contains.
            online.iter().take(MAX_CPUS).filter(|cpu| config.filter.wants_cpu(*cpu)).collect()
        }
    })
}

/// Prints events as lines.
struct TraceAllView<'a> {
    slices: SliceTracker,
    events: Box<dyn EventRenderer>,
    shown: SchedLineOptions,
    /// Filters by CPU here; the programs apply the rest of the filter.
    filter: &'a FilterConfig,
    /// The window has not begun: events are only the history of later lines.
    warming_up: bool,
    /// The style of the coverage on standard error, if the output cannot contain it.
    stderr_style: Option<Style>,
}

impl<'a> TraceAllView<'a> {
    /// A view of a measurement, or of recordings with these headers.
    fn new(config: &'a Config, all: &TraceAllConfig, headers: &[&Header]) -> Result<Self> {
        let cpu_map = cpu_map(all, config, headers.first().copied())?;
        let (style, _) = style(&config.output);
        Ok(Self {
            slices: SliceTracker::new(all.shown),
            stderr_style: stderr_style(&config.output, &style),
            events: config.output.format.events(&cpu_map, style),
            shown: all.shown,
            filter: &config.filter,
            warming_up: config.window.warm_up_ns > 0 || headers.iter().any(|header| header.has_warm_up),
        })
    }
}

impl View for TraceAllView<'_> {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(TimelineSettings {
            interrupts: false,
            idle: false,
            migrations: if self.shown.migrations { MigrationScope::All } else { MigrationScope::Waiting },
            wakeups: self.shown.wakeups,
            cgroups: false,
            clocks: false,
            work_items: false,
            forks: false,
            stacks: 0,
            filter_results: true,
        })
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.events.head(out)
    }

    fn warmed_up(&mut self, _: &mut dyn Write) -> io::Result<()> {
        self.warming_up = false;
        Ok(())
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        let context = render::RenderContext { unix_offset_ns, names };
        let (warming_up, filter) = (self.warming_up, self.filter);
        let mut lines = self.slices.take(event).filter(|line| !warming_up && filter.wants_cpu(line.cpu()));
        lines.try_for_each(|line| self.events.event(&line, &context, out))
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.events.end(report, out)?;
        if let Some(style) = &self.stderr_style {
            render::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::{
        config::{Command, TraceRows},
        session::replay::{Replay, config_of},
    };
    use wakelat_common::Class;
    use wakelat_core::{
        recording::Frame,
        timeline::event::{EventKind, MigrationEvent},
        wait::Comm,
    };

    /// The lines of a recording with a migration of `before`, the end of a warm-up, and a migration of `after`.
    fn lines(has_warm_up: bool) -> String {
        let header = Header { classes: Class::ALL.into(), has_warm_up, ..Header::default() };
        let line = "wakelat trace --all -M --csv -i file".split(' ').map(Into::into);
        let Command::Trace(config, TraceRows::Switches(all)) = crate::cli::parse(line).unwrap().command else {
            panic!("not a trace of switches")
        };
        let input = config.input.clone().unwrap();
        let config = config_of(&[&header], &config, &input).unwrap();
        let mut view = TraceAllView::new(&config, &all, &[&header]).unwrap();
        let mut replay = Replay::new(&config, &input, &[&header], &mut view);
        let migration = |seq: u32, name: &str| {
            let (at_ns, comm) = (1_000 * u64::from(seq), Comm::new(name.as_bytes()));
            let migration = MigrationEvent { at_ns, tid: seq, comm, waiting: true, from_cpu: 0, to_cpu: 1 };
            Frame::Event(Cow::Owned(Event { cpu: 0, seq, kind: EventKind::Migration(migration) }))
        };
        let mut out = Vec::new();
        for frame in [migration(1, "before"), Frame::WarmedUp, migration(2, "after")] {
            replay.take(frame, None, &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_recording_is_shown_from_the_end_of_its_warm_up() {
        let shown = lines(true);
        assert!(!shown.contains("before") && shown.contains("after"), "{shown}");
        assert!(lines(false).contains("before"));
    }
}
