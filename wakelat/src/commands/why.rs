//! `why`: shows what caused the waits.

use std::io::{self, Write};

use anyhow::{Error, Result, anyhow};

use super::{beside_output::BesideOutput, html_report::HtmlReportOutput, measurement::Source, terminal_style::style};
use crate::{
    collect::{Collector, TimelineSettings},
    config::{Config, ConfigError, WhyConfig, WhyLayout},
    session::{StopReason, View, clock::monotonic_ns, output::Output, stack_symbolizer::StackSymbolizer},
};
use wakelat_core::{
    aggregate::key::Names,
    recording::{CollectedEvents, Frame, Header, MoreEvents, RecordedStacks},
    render::{OutputFormat, Style},
    report::Report,
    svg,
    timeline::{
        event::{Event, EventKind},
        stack_event::Role,
        stack_frames::{StackCounts, Symbolize},
    },
    why,
};

/// How often unused stacks make room for others: ns.
const ROOM_INTERVAL_NS: u64 = 500_000_000;

/// Why this machine cannot be shown at a glance, and a command that works here.
fn no_overview(error: &Error) -> Error {
    anyhow!("cannot measure: {error:#}; or try `wakelat demo`, which needs no privileges")
}

/// `why`: shows what caused the waits.
///
/// # Errors
/// Errors of [`crate::session::run`], or if the recording cannot be read or does not have what `config` requests, and if the file of folded stacks cannot be written.
pub fn why(config: &Config, why: &WhyConfig) -> Result<StopReason> {
    let (source, config) = Source::open(config).map_err(|error| match (why.layout, &config.input) {
        (WhyLayout::Overview, None) => no_overview(&error),
        _ => error,
    })?;
    let mut folded = why.stacks.folded.as_deref().map(|path| Output::open(Some(path))).transpose()?;
    let roles = [(why.stacks.waker, Role::Waker), (why.stacks.wakee, Role::Wakee)];
    let roles: Vec<Role> = roles.into_iter().filter(|(wanted, _)| *wanted).map(|(_, role)| role).collect();
    let flag = if why.stacks.folded.is_some() { "--folded" } else { "--stacks" };
    check_stacks(flag, &roles, &source.headers())?;
    let mut view = view(&config, why, &roles, &source);
    let page = |path: &std::path::PathBuf| HtmlReportOutput::create(path, &config, why.collect, &source.headers());
    view.page = why.report.as_ref().map(page).transpose()?;
    view.svg = why.svg.as_deref().map(BesideOutput::open).transpose()?;
    if folded.is_some() || (view.page.is_some() && !roles.is_empty()) {
        view.builder.enable_folding();
    }
    let stop = source.show(&config, &mut view)?;
    if let (Some(output), Some(folded), Some(stacks)) = (&mut folded, view.builder.folded(), &view.stacks) {
        output.write(|out| folded.write(&view.roles, stacks.code(), &view.names, out))?;
    }
    view.svg.map_or(Ok(()), BesideOutput::finish)?;
    view.page.map_or(Ok(()), HtmlReportOutput::finish)?;
    Ok(stop)
}

/// A view of the waits of `source`, with the stacks of `roles`.
fn view(config: &Config, why: &WhyConfig, roles: &[Role], source: &Source) -> WhyView {
    let (style, _) = style(&config.output);
    let headers = source.headers();
    let collected = headers.iter().map(|header| header.collected).reduce(CollectedEvents::both);
    let collected = collected.unwrap_or(why.collect);
    let options = why::SummaryOptions {
        from: config.from,
        by: config.by.clone(),
        merged: config.merged,
        max_groups: config.max_groups,
        worst: why.worst,
        not_collected: collected.not_collected(),
        stacks: roles.to_vec(),
        own_pids: source.own_pids(),
    };
    WhyView {
        timeline: TimelineSettings {
            stacks: roles.iter().fold(0, |roles, role| roles | role.bit()),
            ..TimelineSettings::of(collected)
        },
        builder: why::SummaryBuilder::new(options),
        names: why::NameCache::of(config.output.files.clone()),
        stacks: (!headers.is_empty() && !roles.is_empty()).then(|| StackSource::Recorded(RecordedStacks::default())),
        room_at_ns: 0,
        roles: roles.to_vec(),
        page: None,
        svg: None,
        json: config.output.format == OutputFormat::Json,
        layout: why.layout,
        is_demo: config.input.as_ref().is_some_and(|input| input.is_demo()),
        style,
    }
}

/// Checks that the recordings with these headers have the stacks of `roles`, which `flag` requests.
fn check_stacks(flag: &str, roles: &[Role], headers: &[&Header]) -> Result<(), ConfigError> {
    let Some(has) = headers.iter().map(|header| header.more).reduce(MoreEvents::both) else { return Ok(()) };
    let Some(missing) = roles.iter().find(|role| !has.stacks().any(|has| has == **role)) else { return Ok(()) };
    let what = if headers.iter().any(|header| header.text.is_some()) { "the trace" } else { "the recording" };
    let whose = match missing {
        Role::Waker => "wakers",
        Role::Wakee => "wakees",
    };
    let why = format!("{what} has no stacks of {whose}; leave it out, or record them with `wakelat record --stacks`");
    Err(ConfigError::usage(flag, why))
}

/// Where the stacks of the waits come from.
enum StackSource {
    Live(Box<StackSymbolizer>),
    Recorded(RecordedStacks),
}

impl StackSource {
    fn code(&self) -> &dyn Symbolize {
        match self {
            Self::Live(stacks) => stacks.as_ref(),
            Self::Recorded(stacks) => stacks,
        }
    }

    /// What became of the stacks since the last call.
    fn counts(&mut self) -> io::Result<StackCounts> {
        match self {
            Self::Live(stacks) => stacks.counts(),
            Self::Recorded(stacks) => Ok(stacks.counts()),
        }
    }
}

/// Adds up the waits from events, and shows the summary.
struct WhyView {
    timeline: TimelineSettings,
    builder: why::SummaryBuilder,
    names: why::NameCache,
    /// Where stacks come from, if they are requested, and once the programs are loaded.
    stacks: Option<StackSource>,
    /// When unused stacks make room next: ns of CLOCK_MONOTONIC.
    room_at_ns: u64,
    /// Whose stacks are requested.
    roles: Vec<Role>,
    /// The result as HTML, if it is requested.
    page: Option<HtmlReportOutput>,
    /// The causes as a picture, if it is requested.
    svg: Option<BesideOutput>,
    json: bool,
    layout: WhyLayout,
    /// The waits are those of the demo recording.
    is_demo: bool,
    style: Style,
}

impl View for WhyView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(self.timeline)
    }

    fn loaded(&mut self, collector: &mut Collector) {
        self.stacks = collector.take_stacks().map(StackSymbolizer::new).map(Box::new).map(StackSource::Live);
    }

    fn recorded_stacks(&mut self, frame: &Frame<'_>) {
        if let Some(StackSource::Recorded(stacks)) = &mut self.stacks {
            stacks.learn(frame);
        }
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        if let Some(page) = &mut self.page {
            page.event(event, unix_offset_ns, names)?;
        }
        let numbered = match (&event.kind, &mut self.stacks) {
            (EventKind::Stack(stack), Some(StackSource::Live(stacks))) => {
                Some(Event { cpu: event.cpu, seq: event.seq, kind: EventKind::Stack(stacks.numbered(stack)) })
            }
            _ => None,
        };
        let event = numbered.as_ref().unwrap_or(event);
        self.names.learn(event, names);
        let longest = self.builder.push(event, &self.names);
        if longest.is_some() {
            self.names.learn_namespace(event, names);
        }
        if let (Some(pair), Some(StackSource::Live(stacks))) = (longest, &mut self.stacks) {
            stacks.record_locations(&pair);
        }
        Ok(())
    }

    /// Makes room for further stacks.
    fn caught_up(&mut self) {
        if let Some(StackSource::Live(stacks)) = &mut self.stacks {
            let now_ns = monotonic_ns();
            if now_ns >= self.room_at_ns {
                self.room_at_ns = now_ns + ROOM_INTERVAL_NS;
                stacks.remove_unused(|visit| self.builder.visit_stacks(visit));
            }
        }
    }

    fn warmed_up(&mut self, _: &mut dyn Write) -> io::Result<()> {
        self.builder.start_window();
        self.page.as_mut().map_or(Ok(()), |page| page.warmed_up())?;
        self.stacks.as_mut().map_or(Ok(()), |stacks| stacks.counts().map(drop))
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        if let Some(page) = &mut self.page {
            if let (Some(folded), Some(stacks)) = (self.builder.folded(), &self.stacks) {
                page.set_stacks(folded.lines(&self.roles, stacks.code(), &self.names));
            }
            page.report(report)?;
        }
        let mut summary = self.builder.summary(report.duration_ns, &self.names);
        if let Some(stacks) = &mut self.stacks {
            let counts = stacks.counts()?;
            self.builder.add_stacks(&mut summary, counts, stacks.code(), &self.names);
        }
        self.builder.start_window();
        if let Some(file) = &mut self.svg {
            file.bytes = svg::causes(&summary)?.into_bytes();
        }
        // The report has the groups that came first, the summary the largest ones.
        let mut report = report.clone();
        report.coverage.groups_merged = summary.groups_merged;
        if self.json {
            return why::render::json(&summary, &report, out);
        }
        let text = match self.layout {
            WhyLayout::Overview => {
                let view = if self.is_demo { "wakelat demo" } else { "wakelat" };
                why::render::overview(&summary, &report, view, &self.style)
            }
            layout => why::render::text(&summary, &report, layout == WhyLayout::Details, &self.style),
        };
        out.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_comes_before_the_demo() {
        let error = no_overview(&anyhow!("the capability `cap_bpf` is missing; run wakelat with `sudo`"));
        let cause =
            "cannot measure: the capability `cap_bpf` is missing; run wakelat with `sudo`; or try `wakelat demo`";
        assert!(error.to_string().starts_with(cause), "{error}");
    }
}
