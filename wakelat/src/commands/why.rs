//! `why`: shows what caused the waits.

use std::io::{self, Write};

use anyhow::{Context as _, Result};

use super::{measurement::prepare, terminal_style::style};
use crate::{
    collect::{Collector, TimelineSettings},
    config::{self, Config, OutputConfig},
    session::{
        self, StopReason, View, open_input,
        output::{Output, WriteResult},
        stack_symbolizer::StackSymbolizer,
    },
    status::status,
};
use wakelat_core::{
    aggregate::key::{Key, Names},
    recording::{CollectedEvents, Frame, Header, RecordedNames, Recording},
    render::{OutputFormat, Style},
    report::{LatencyFrom, Report},
    timeline::{event::Event, stack_event::Role},
    why,
};

/// `why`: shows what caused the waits.
///
/// # Errors
/// Errors of [`crate::session::run`], and if the file of folded stacks cannot be written.
pub fn why(config: &Config, why: &config::WhyConfig) -> Result<StopReason> {
    let environment = prepare(config)?;
    let mut folded = why.stacks.folded.as_deref().map(|path| Output::open(Some(path))).transpose()?;
    let roles = [(why.stacks.waker, Role::Waker), (why.stacks.wakee, Role::Wakee)];
    let roles: Vec<Role> = roles.into_iter().filter(|(wanted, _)| *wanted).map(|(_, role)| role).collect();
    let shown = WhyOptions {
        by: &config.by,
        max_groups: config.max_groups,
        worst: why.worst,
        details: why.details,
        output: &config.output,
        is_live: true,
    };
    let mut view = shown.view(why.collect, config.from, config.merged, &roles);
    if folded.is_some() {
        view.builder.enable_folding();
    }
    let stop = session::run(config, &environment, &mut view)?;
    if let (Some(output), Some(folded), Some(stacks)) = (&mut folded, view.builder.folded(), &view.stacks) {
        output.write(|out| folded.write(&roles, stacks, &view.names, out))?;
    }
    Ok(stop)
}

/// `why -i`: shows what caused the waits of a recording.
///
/// # Errors
/// If the file cannot be read or is not a complete recording, or the result cannot be written.
pub fn why_recorded(config: &config::WhyRecordedConfig) -> Result<StopReason> {
    let config::WhyRecordedConfig { input, is_strict, by, max_groups, worst, details, output } = config;
    let unreadable = || format!("cannot read {}", open_input::name(input));
    let recording = Recording::open(open_input::open(input).with_context(unreadable)?).with_context(unreadable)?;
    let mut recording = recording.strict(*is_strict);
    let header = recording.header();
    if !output.quiet {
        recorded_by(header).iter().for_each(status);
    }
    let shown = WhyOptions { by, max_groups: *max_groups, worst: *worst, details: *details, output, is_live: false };
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

/// What was recorded where and when, for the reader of the result.
fn recorded_by(header: &Header) -> Vec<String> {
    let command = header.command_line.join(" ");
    let labels = header.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
    let lines = [("recorded on", header.machine.to_string()), ("recorded with", command), ("labels:", labels)];
    let lines = lines.into_iter().filter(|(_, text)| !text.is_empty());
    // A recording may come from anywhere: its text must not control the terminal.
    lines.map(|(what, text)| format!("{what} {}", text.escape_debug())).collect()
}

/// The options of `why` for live waits and recordings.
struct WhyOptions<'a> {
    by: &'a [Key],
    max_groups: usize,
    worst: usize,
    details: bool,
    output: &'a OutputConfig,
    /// The waits are live, not recorded.
    is_live: bool,
}

impl WhyOptions<'_> {
    /// A view of waits for which `collected` events are available, with the stacks of `roles`.
    fn view(&self, collected: CollectedEvents, from: LatencyFrom, merged: bool, roles: &[Role]) -> WhyView {
        let (style, _) = style(self.output);
        let causes = [
            (collected.irq, "IRQs and softirqs"),
            (collected.idle, "C-states"),
            (collected.throttling, "throttling and steal time"),
        ];
        let options = why::SummaryOptions {
            from,
            by: self.by.to_vec(),
            merged,
            max_groups: self.max_groups,
            worst: self.worst,
            not_collected: causes.into_iter().filter(|(collected, _)| !collected).map(|(_, cause)| cause).collect(),
            stacks: roles.to_vec(),
            own_pid: self.is_live.then(std::process::id),
        };
        WhyView {
            timeline: TimelineSettings {
                stacks: roles.iter().fold(0, |roles, role| roles | role.bit()),
                ..timeline(collected)
            },
            builder: why::SummaryBuilder::new(options),
            names: why::NameCache::default(),
            stacks: None,
            json: self.output.format == OutputFormat::Json,
            details: self.details,
            style,
        }
    }
}

/// The events to record for `collected`.
pub(super) fn timeline(collected: CollectedEvents) -> TimelineSettings {
    let CollectedEvents { irq, idle, throttling, workqueue, fork } = collected;
    TimelineSettings {
        interrupts: irq,
        idle,
        clocks: throttling,
        work_items: workqueue,
        forks: fork,
        cgroups: true,
        ..TimelineSettings::OF_WAITS
    }
}

/// Adds up the waits from events, and shows the summary.
struct WhyView {
    timeline: TimelineSettings,
    builder: why::SummaryBuilder,
    names: why::NameCache,
    /// The symbolizer, once the programs are loaded, if stacks are requested.
    stacks: Option<StackSymbolizer>,
    json: bool,
    details: bool,
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
        // The report has the groups that came first, the summary the largest ones.
        let mut report = report.clone();
        report.coverage.groups_merged = summary.groups_merged;
        if self.json {
            return why::render::json(&summary, &report, out);
        }
        out.write_all(why::render::text(&summary, &report, self.details, &self.style).as_bytes())
    }
}
