//! `why`: where the time of waits went.

use std::io::{self, Write};

use anyhow::{Context as _, Result};

use super::{prepare, stacks::StackSymbolizer, style};
use crate::{
    aggregate::key::{Key, Names},
    collect::{Collector, TimelineSettings},
    config::{self, Config, OutputConfig},
    recording::{CollectedEvents, Frame, RecordedNames, Recording},
    report::{LatencyFrom, Report},
    session::{
        self, StopReason, View, input,
        output::{Output, WriteResult},
    },
    sink::{OutputFormat, Style},
    timeline::{event::Event, stack::Role},
    why,
};

/// `why`: where the time of waits went.
///
/// # Errors
/// Those of [`crate::session::run`], and where the file of folded stacks cannot be written.
pub fn why(config: &Config, why: &config::WhyConfig) -> Result<StopReason> {
    let place = prepare(config)?;
    let mut folded = why.stacks.folded.as_deref().map(|path| Output::open(Some(path))).transpose()?;
    let roles = [(why.stacks.waker, Role::Waker), (why.stacks.wakee, Role::Wakee)];
    let roles: Vec<Role> = roles.into_iter().filter(|(told, _)| *told).map(|(_, role)| role).collect();
    let shown = WhyOptions {
        by: &config.by,
        max_groups: config.max_groups,
        worst: why.worst,
        output: &config.output,
        is_live: true,
    };
    let mut view = shown.view(why.collect, config.from, config.merged, &roles);
    if folded.is_some() {
        view.builder.enable_folding();
    }
    let stop = session::run(config, &place, &mut view)?;
    if let (Some(output), Some(folded), Some(stacks)) = (&mut folded, view.builder.folded(), &view.stacks) {
        output.write(|out| folded.write(&roles, stacks, &view.names, out))?;
    }
    Ok(stop)
}

/// `why -i`: the same, of a recording.
///
/// # Errors
/// Where the file cannot be read or is no whole recording, or the result cannot be written.
pub fn why_recorded(config: &config::WhyRecordedConfig) -> Result<StopReason> {
    let config::WhyRecordedConfig { input, by, max_groups, worst, output } = config;
    let unreadable = || format!("cannot read {}", input::name(input));
    let mut recording = Recording::open(input::open(input).with_context(unreadable)?).with_context(unreadable)?;
    let header = recording.header();
    let shown = WhyOptions { by, max_groups: *max_groups, worst: *worst, output, is_live: false };
    let mut view = shown.view(header.collected, header.from, header.merged, &[]);
    let mut out = Output::open(output.path.as_deref())?;
    let mut names = RecordedNames::default();
    let mut written = WriteResult::All;
    while let Some(frame) = recording.frame().with_context(unreadable)? {
        names.learn(&frame);
        match frame {
            Frame::Event(event) => view.push(&event, &names),
            Frame::WarmedUp => view.builder.start_window(),
            Frame::End(report) => written = out.write(|out| view.report(&report, out))?,
            _ => {}
        }
    }
    Ok(if written == WriteResult::NoReader { StopReason::NoReader } else { StopReason::Done })
}

/// What is asked about waits, wherever they come from.
struct WhyOptions<'a> {
    by: &'a [Key],
    max_groups: usize,
    worst: usize,
    output: &'a OutputConfig,
    /// The waits are those of this machine now, and not of a recording.
    is_live: bool,
}

impl WhyOptions<'_> {
    /// Of waits of which `parts` are told, and the stacks of these.
    fn view(&self, parts: CollectedEvents, from: LatencyFrom, merged: bool, roles: &[Role]) -> WhyView {
        let (style, _) = style(self.output);
        let untold = [
            (parts.irq, "interrupts and softirqs"),
            (parts.idle, "C-states"),
            (parts.throttling, "throttling and stolen time"),
        ];
        let rules = why::SummaryOptions {
            from,
            by: self.by.to_vec(),
            merged,
            max_groups: self.max_groups,
            worst: self.worst,
            not_collected: untold.into_iter().filter(|(told, _)| !told).map(|(_, what)| what).collect(),
            stacks: roles.to_vec(),
            own_pid: self.is_live.then(std::process::id),
        };
        WhyView {
            timeline: TimelineSettings {
                stacks: roles.iter().fold(0, |roles, role| roles | role.bit()),
                ..timeline(parts)
            },
            builder: why::SummaryBuilder::new(rules),
            names: why::NameCache::default(),
            stacks: None,
            json: self.output.format == OutputFormat::Json,
            style,
        }
    }
}

/// What has to be told, for `parts` to be.
pub(super) fn timeline(parts: CollectedEvents) -> TimelineSettings {
    let CollectedEvents { irq: noise, idle, throttling: quota, workqueue: works, fork: forks } = parts;
    TimelineSettings {
        interrupts: noise,
        idle,
        clocks: quota,
        work_items: works,
        forks,
        cgroups: true,
        ..TimelineSettings::OF_WAITS
    }
}

/// Adds up events, and shows the sum.
struct WhyView {
    timeline: TimelineSettings,
    builder: why::SummaryBuilder,
    names: why::NameCache,
    /// Where stacks are asked for, and the programs are loaded.
    stacks: Option<StackSymbolizer>,
    json: bool,
    style: Style,
}

impl WhyView {
    fn push(&mut self, event: &Event, names: &dyn Names) {
        self.names.learn(event, names);
        let longest = self.builder.push(event, &self.names);
        if longest.is_some() {
            self.names.learn_namespace(event, names);
        }
        if let (Some(pair), Some(stacks)) = (longest, &mut self.stacks) {
            stacks.record_locations(&pair);
        }
    }
}

impl View for WhyView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(self.timeline)
    }

    fn loaded(&mut self, collector: &mut Collector) {
        self.stacks = collector.take_stacks().map(StackSymbolizer::new);
    }

    fn event(&mut self, event: &Event, _: i64, names: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        self.push(event, names);
        Ok(())
    }

    fn warmed_up(&mut self, _: &mut dyn Write) -> io::Result<()> {
        self.builder.start_window();
        self.stacks.as_mut().map_or(Ok(()), |stacks| stacks.counts().map(drop))
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let mut summary = self.builder.summary(report.duration_ns, &self.names);
        if let Some(stacks) = &mut self.stacks {
            let counts = stacks.counts()?;
            self.builder.add_stacks(&mut summary, counts, stacks, &self.names);
        }
        self.builder.start_window();
        // The groups of the report are the first that came, those of the summary the largest.
        let mut report = report.clone();
        report.coverage.groups_merged = summary.groups_merged;
        if self.json {
            return why::sink::json(&summary, &report, out);
        }
        out.write_all(why::sink::text(&summary, &report, &self.style).as_bytes())
    }
}
