//! A recording, or what is measured, as one HTML file.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
};

use anyhow::{Result, bail};

use super::{beside_output::BesideOutput, measurement::Source, record_view, terminal_style::style};
use crate::{
    collect::TimelineSettings,
    config::{Config, RecordConfig},
    session::{StopReason, View, open_input, replay},
};
use wakelat_core::{
    aggregate::key::{Key, Names},
    html_report::{
        HtmlSource,
        recording::{HtmlReport, TIME_LINES},
    },
    recording::{CollectedEvents, Frame, Header, MoreEvents, RecordedStacks},
    render::{self, Style},
    report::Report,
    timeline::{Breakdown, event::Event, stack_event::Role},
    why,
};

/// `report`: writes a recording as one HTML file.
///
/// # Errors
/// If the recording cannot be read or does not have what `config` requests, or if the output cannot be written or its
/// reader closes it before the end.
pub fn html_report(config: &Config) -> Result<StopReason> {
    // Causes are grouped; the distributions are of all waits.
    let by = config.by.clone();
    let (source, config) = Source::open(&Config { by: Vec::new(), ..config.clone() })?;
    let stderr_style = (!config.output.quiet).then(|| style(&config.output).0);
    let mut view = HtmlReportView::new(&config, by, &source.headers(), stderr_style);
    view.show_stacks();
    match source.show(&config, &mut view)? {
        StopReason::NoReader => bail!("the report is incomplete: its reader closed the pipe before the end"),
        stop => Ok(stop),
    }
}

/// The page as a file beside another view of the same waits.
pub struct HtmlReportOutput {
    view: HtmlReportView,
    file: BesideOutput,
}

impl HtmlReportOutput {
    /// Creates the file at `path`. `headers`: of the recordings, if the waits are not measured now; `collected`: what is
    /// collected if they are.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, config: &Config, collected: CollectedEvents, headers: &[&Header]) -> Result<Self> {
        let measured = record_view::header(config, &RecordConfig::of_events(collected, BTreeMap::new()));
        let headers = if headers.is_empty() { &[&measured][..] } else { headers };
        // The page shows the components of each group.
        let by = config.by.iter().copied().filter(|key| *key != Key::Component).collect();
        let view = HtmlReportView::new(config, by, headers, None);
        Ok(Self { view, file: BesideOutput::open(path)? })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// Errors of [`View::event`].
    pub fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names) -> io::Result<()> {
        self.view.event(event, unix_offset_ns, names, &mut io::sink())
    }

    /// Forgets the waits of the warm-up.
    ///
    /// # Errors
    /// Errors of [`View::warmed_up`].
    pub fn warmed_up(&mut self) -> io::Result<()> {
        self.view.warmed_up(&mut io::sink())
    }

    /// Sets the waiting time of each folded stack: ns.
    pub fn set_stacks(&mut self, folded: BTreeMap<String, u128>) {
        self.view.page.set_stacks(folded);
    }

    /// Ends the window with its report.
    ///
    /// # Errors
    /// Errors of [`View::report`].
    pub fn report(&mut self, report: &Report) -> io::Result<()> {
        self.view.report(report, &mut self.file.bytes)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

/// Writes the page at the end of the window.
pub struct HtmlReportView {
    sources: Vec<HtmlSource>,
    builder: why::SummaryBuilder,
    names: why::NameCache,
    page: HtmlReport,
    /// The tasks whose stacks are shown, and the stacks of the recording.
    roles: Vec<Role>,
    stacks: RecordedStacks,
    stderr_style: Option<Style>,
}

impl HtmlReportView {
    /// The page of waits as `config` selects them, in the groups of `by`, or by cgroup and name without keys. `headers`: of
    /// the recordings, or of the measurement.
    pub fn new(config: &Config, by: Vec<Key>, headers: &[&Header], stderr_style: Option<Style>) -> Self {
        let paths = config.input.as_ref().filter(|input| input.measured.is_none()).map(|input| &*input.paths);
        let file = |at: usize| paths.and_then(|paths| paths.get(at)).map(|path| open_input::name(path));
        let has_cgroups = headers.iter().all(|header| header.text.is_none());
        let by = match (by.is_empty(), has_cgroups) {
            (true, true) => vec![Key::Cgroup, Key::Comm],
            (true, false) => vec![Key::Comm],
            (false, _) => by,
        };
        let collected = headers.iter().map(|header| header.collected).reduce(CollectedEvents::both).unwrap_or_default();
        let more = headers.iter().map(|header| header.more).reduce(MoreEvents::both).unwrap_or_default();
        let roles: Vec<Role> = more.stacks().collect();
        let options = why::SummaryOptions {
            from: config.from,
            by,
            merged: config.merged,
            max_groups: config.max_groups,
            worst: TIME_LINES,
            not_collected: collected.not_collected(),
            stacks: roles.clone(),
            own_pids: replay::own_pids(headers),
        };
        Self {
            sources: headers.iter().enumerate().map(|(at, header)| HtmlSource::new(file(at), header)).collect(),
            builder: why::SummaryBuilder::new(options),
            names: why::NameCache::of(config.output.files.clone()),
            page: HtmlReport::new(config.merged),
            roles,
            stacks: RecordedStacks::default(),
            stderr_style,
        }
    }

    /// Shows the stacks that the recordings have, if they have any.
    fn show_stacks(&mut self) {
        if !self.roles.is_empty() {
            self.builder.enable_folding();
        }
    }
}

impl View for HtmlReportView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        Some(TimelineSettings::OF_WAITS)
    }

    fn recorded_stacks(&mut self, frame: &Frame<'_>) {
        self.stacks.learn(frame);
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        self.names.learn(event, names);
        let page = &mut self.page;
        let visit = |breakdown: &Breakdown| page.add(breakdown, unix_offset_ns);
        if self.builder.push_and(event, &self.names, visit).is_some() {
            self.names.learn_namespace(event, names);
        }
        Ok(())
    }

    fn warmed_up(&mut self, _: &mut dyn Write) -> io::Result<()> {
        self.builder.start_window();
        self.page.start_window();
        Ok(())
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let summary = self.builder.summary(report.duration_ns, &self.names);
        if let Some(folded) = self.builder.folded() {
            self.page.set_stacks(folded.lines(&self.roles, &self.stacks, &self.names));
        }
        let mut of_groups = report.clone();
        of_groups.coverage.groups_merged = summary.groups_merged;
        self.page.write(summary, &of_groups, &self.sources, &self.names, out)?;
        self.stderr_style.as_ref().map_or(Ok(()), |style| render::coverage::write(report, style, &mut io::stderr()))
    }
}
