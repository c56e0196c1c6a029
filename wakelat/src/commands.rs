//! The commands, and the views with which they show their results.

mod doctor;
mod events;
mod hist_trigger;
mod osnoise_tracers;
mod record;
mod stack_symbolizer;
mod top;
mod trace_all;
mod trace_breakdown;
mod verify;
mod why;

use std::io::{self, IsTerminal as _, Write};

use anyhow::{Result, bail};
use jiff::tz::TimeZone;
use wakelat_common::filter::part;

use crate::{
    collect::TimelineSettings,
    config::{Colour, Config, EventsConfig, HistTriggerConfig, OutputConfig, Resources, VerifyConfig},
    session::{self, Environment, StopReason, View, output::Output},
    status::status,
};
use wakelat_core::{
    aggregate::key::{Key, Names},
    render::{self, ReportRenderer, Style, WaitRenderer},
    report::{Mode, Report},
    wait::Wait,
};
use wakelat_kernel::{Features, btf::KernelBtf, privilege, tracefs_access::TracefsAccess};

pub use osnoise_tracers::{osnoise, timerlat, timerlat_thread};
pub use record::record;
pub use top::top;
pub use trace_all::trace_all;
pub use trace_breakdown::trace_breakdown;
pub use verify::Verdict;
pub use why::{why, why_recorded};

/// `hist`: shows the distribution, once or per interval.
///
/// # Errors
/// Errors of [`session::run`].
pub fn hist(config: &Config) -> Result<StopReason> {
    let (style, _) = style(&config.output);
    let reports = config.output.format.reports(render::ReportView::Chart, &keys(config), style);
    run(config, &mut HistView { reports, timeline: timeline_for_grouping(config) })
}

/// `trace`: prints a line per wait.
///
/// # Errors
/// Errors of [`session::run`].
pub fn trace(config: &Config) -> Result<StopReason> {
    let (style, _) = style(&config.output);
    run(config, &mut TraceView { stderr_style: stderr_style(config, &style), waits: config.output.format.waits(style) })
}

/// Runs a command that measures nothing: prints the output of `write`, even the part before an error. A
/// reader that has gone is not an error.
///
/// # Errors
/// If `write` fails, or the output cannot be written.
fn print(output: &OutputConfig, write: impl FnOnce(&Style, &mut dyn Write) -> Result<()>) -> Result<()> {
    let (style, _) = style(output);
    let mut text = Vec::new();
    let result = write(&style, &mut text);
    if result.is_ok() || !text.is_empty() {
        Output::open(output.path.as_deref())?.write(|out| out.write_all(&text))?;
    }
    result
}

/// `hist-trigger`: renders the output of hist triggers, or prints the commands that place them.
///
/// # Errors
/// If the input cannot be read or is not the output of hist triggers, a flag does not fit it, or the output cannot be
/// written.
pub fn hist_trigger(config: &HistTriggerConfig) -> Result<()> {
    print(&config.output, |style, out| hist_trigger::run(&config.action, style, out))
}

/// `events`: lists the tracepoints of this kernel.
///
/// # Errors
/// If tracefs cannot be read, no tracepoint matches, or the output cannot be written.
pub fn events(config: &EventsConfig) -> Result<()> {
    print(&config.output, |style, out| events::run(config, style, out))
}

/// `doctor`: checks this kernel and this user. Returns whether wakelat can measure.
///
/// # Errors
/// If the output cannot be written.
pub fn doctor(output: &OutputConfig) -> Result<bool> {
    let mut can_measure = false;
    print(output, |style, out| {
        can_measure = doctor::run(output.format == render::OutputFormat::Json, style, out)?;
        Ok(())
    })?;
    Ok(can_measure)
}

fn run(config: &Config, view: &mut dyn View) -> Result<StopReason> {
    session::run(config, &prepare(config)?, view)
}

/// Prepares the machine for a run, and checks that it can measure.
fn prepare(config: &Config) -> Result<Environment> {
    let features = Features::detect(config.resources.btf.as_deref());
    let Resources { attach, rt_priority, .. } = config.resources;
    features.check_can_measure(attach, rt_priority, config.mode)?;
    if !config.output.quiet {
        config.notes.iter().for_each(status);
    }
    privilege::raise_memory_limit(&features.release)?;
    if features.uses_classic_tracepoints(attach) {
        check_classic_tracepoints(config)?;
    }
    Ok(environment(features))
}

/// `verify`: measures the same window with hist triggers.
///
/// # Errors
/// Errors of a measurement ([`session::run`]), or if hist triggers are required and cannot be placed.
pub fn verify(config: &VerifyConfig) -> Result<Verdict> {
    let features = Features::detect(config.resources.btf.as_deref());
    let Resources { attach, rt_priority, .. } = config.resources;
    features.check_can_measure(attach, rt_priority, Mode::Samples)?;
    if !config.output.quiet {
        config.notes.iter().for_each(status);
    }
    privilege::raise_memory_limit(&features.release)?;
    let (style, _) = style(&config.output);
    let release = features.release.clone();
    verify::run(config, &environment(features), &release, &style)
}

fn environment(features: Features) -> Environment {
    Environment {
        kernel: features.release.to_string(),
        cgroup_mount: features.cgroup_v2,
        btf: matches!(features.btf, KernelBtf::Present { .. }).then_some(features.btf_path),
        tracefs: match features.tracefs {
            TracefsAccess::Open { path, .. } => Some(path),
            TracefsAccess::Denied(_) | TracefsAccess::NotMounted => None,
        },
    }
}

/// Refuses filters and keys that classic tracepoints cannot provide: they know only the TID, name and
/// priority of a thread.
fn check_classic_tracepoints(config: &Config) -> Result<()> {
    let unknown = [
        (part::TGID, Key::Pid, "process"),
        (part::POLICY, Key::Policy, "policy"),
        (part::CGROUP, Key::Cgroup, "cgroup"),
        (part::CGROUP, Key::Container, "cgroup"),
    ];
    for (part, key, what) in unknown {
        if config.filter.parts & part != 0 || config.by.contains(&key) {
            bail!(
                "records of classic tracepoints do not contain the `{what}` of a task; use a kernel with BTF, give its BTF \
                 with `--btf FILE`, or select and group only by TID, name, priority and CPU"
            );
        }
    }
    Ok(())
}

/// The style of the coverage on standard error, if rows of waits or events leave no place for it in the
/// output.
fn stderr_style(config: &Config, style: &Style) -> Option<Style> {
    (config.output.format == render::OutputFormat::Csv && !config.output.quiet)
        .then(|| Style { colour: style.colour && io::stderr().is_terminal(), ..style.clone() })
}

fn keys(config: &Config) -> Vec<&'static str> {
    config.by.iter().map(|key| key.name()).collect()
}

/// The style of text, and the number of rows if there is a terminal.
fn style(output: &OutputConfig) -> (Style, Option<usize>) {
    let (mut style, rows) = terminal(output.path.is_some());
    style.unicode &= !output.ascii;
    style.timestamps = output.timestamps;
    style.colour = match output.colour {
        Colour::Auto => style.colour,
        Colour::Always => true,
        Colour::Never => false,
    };
    (style, rows)
}

/// The default style for standard output or a file, and the number of rows of the terminal.
fn terminal(file: bool) -> (Style, Option<usize>) {
    let terminal = !file && io::stdout().is_terminal();
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    let rows = size.map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0);
    (Style::detect(|name| std::env::var(name).ok(), terminal, columns, TimeZone::system()), rows)
}

/// The events that are needed if waits are grouped by component.
fn timeline_for_grouping(config: &Config) -> Option<TimelineSettings> {
    config.by.contains(&Key::Component).then_some(TimelineSettings::OF_WAITS)
}

struct HistView {
    reports: Box<dyn ReportRenderer>,
    timeline: Option<TimelineSettings>,
}

impl View for HistView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        self.timeline
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.reports.head(out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.reports.report(report, out)
    }
}

struct TraceView {
    waits: Box<dyn WaitRenderer>,
    /// The style of the coverage on standard error, if the output cannot contain it.
    stderr_style: Option<Style>,
}

impl View for TraceView {
    fn shows_waits(&self) -> bool {
        true
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.waits.head(out)
    }

    fn wait(&mut self, wait: &Wait, unix_offset_ns: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        self.waits.wait(wait, &render::RenderContext { unix_offset_ns, names }, out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.waits.end(report, out)?;
        if let Some(style) = &self.stderr_style {
            render::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}
