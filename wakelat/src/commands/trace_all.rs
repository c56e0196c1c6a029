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
    let cpu_map = cpu_map(all, &config, source.headers().first().copied())?;
    let (style, _) = style(&config.output);
    let mut view = TraceAllView {
        slices: SliceTracker::new(all.shown),
        stderr_style: stderr_style(&config.output, &style),
        events: config.output.format.events(&cpu_map, style),
        shown: all.shown,
        filter: &config.filter,
        warming_up: config.window.warm_up_ns > 0,
    };
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
    warming_up: bool,
    /// The style of the coverage on standard error, if the output cannot contain it.
    stderr_style: Option<Style>,
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
