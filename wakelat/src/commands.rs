//! What each command that measures shows of its run.

mod record;
mod stacks;
mod top;
mod trace_all;
mod trace_parts;
mod why;

use std::io::{self, IsTerminal as _, Write};

use anyhow::{Result, bail};
use jiff::tz::TimeZone;
use wakelat_common::filter::part;

use crate::{
    aggregate::key::{Key, Names},
    cli::{OutputFlags, PaperFlags},
    collect::TimelineSettings,
    config::{Colour, Config, Live, Origin, OsnoiseConfig, OutputConfig, TimerlatConfig, VerifyConfig},
    kernel::{Features, btf::KernelBtf, privilege, tracefs::Tracefs},
    report::{Mode, Report},
    say::status,
    session::{self, Environment, StopReason, View, output::Output},
    sink::{self, Reports, Style, Waits},
    timerlat, verify,
    wait::Wait,
};

pub use record::record;
pub use top::top;
pub use trace_all::trace_all;
pub use trace_parts::trace_parts;
pub use why::{why, why_recorded};

/// `hist`: the distribution, once or per interval.
///
/// # Errors
/// Those of [`session::run`].
pub fn hist(config: &Config) -> Result<StopReason> {
    let (style, _) = style(&config.output);
    let reports = config.output.format.reports(sink::View::Chart, &keys(config), style);
    run(config, &mut Hist { reports, timeline: of_parts(config) })
}

/// `trace`: a line a wait.
///
/// # Errors
/// Those of [`session::run`].
pub fn trace(config: &Config) -> Result<StopReason> {
    let (style, _) = style(&config.output);
    run(config, &mut Trace { aside: aside(config, &style), waits: config.output.format.waits(style) })
}

/// `timerlat`: what the tracer says, or a saved trace.
///
/// # Errors
/// Those of [`timerlat::run::timerlat`] and [`timerlat::live::run`].
pub fn timerlat(config: &TimerlatConfig) -> Result<StopReason> {
    match &config.origin {
        Origin::Saved(saved) => {
            let (style, _) = style(&saved.output);
            timerlat::run::timerlat(saved, config.shown, &style).map(|()| StopReason::Done)
        }
        Origin::Live(live) => {
            let (style, _) = style(&live.output);
            let redrawn = style.cursor && live.output.format == sink::Format::Human && !live.output.quiet;
            let period_ns = live.tracer.timer_period_ns();
            let mut listener = timerlat::live::Activations::new(
                config.shown,
                period_ns,
                live.tracer.user.is_some(),
                live.output.format,
                style,
            );
            live_run(live, redrawn && config.shown.view == timerlat::sink::View::Top, &mut listener)
        }
    }
}

/// `osnoise`: what the tracer says, or a saved trace.
///
/// # Errors
/// Those of [`timerlat::run::osnoise`] and [`timerlat::live::run`].
pub fn osnoise(config: &OsnoiseConfig) -> Result<StopReason> {
    match &config.origin {
        Origin::Saved(saved) => {
            let (style, _) = style(&saved.output);
            timerlat::run::osnoise(saved, config.shown, &style).map(|()| StopReason::Done)
        }
        Origin::Live(live) => {
            let (style, _) = style(&live.output);
            let redrawn = style.cursor && live.output.format == sink::Format::Human && !live.output.quiet;
            let mut listener = timerlat::live::Noises::new(config.shown, live.output.format, style);
            live_run(live, redrawn && config.shown.view == timerlat::sink::NoiseView::Top, &mut listener)
        }
    }
}

fn live_run(live: &Live, redrawn: bool, listener: &mut dyn timerlat::live::Listener) -> Result<StopReason> {
    const REDRAWN_EVERY_NS: u64 = 1_000_000_000;
    let mut window = live.window;
    if redrawn {
        window.interval_ns = Some(REDRAWN_EVERY_NS);
    }
    timerlat::live::run(&live.tracer, &window, &live.output, listener)
}

/// A command that measures nothing: writes what `write` writes, also what it wrote before an error. A reader that has gone is no
/// error.
///
/// # Errors
/// Those of `write`, and if the output cannot be written.
pub fn print(paper: &PaperFlags, write: impl FnOnce(&Style, &mut dyn Write) -> Result<()>) -> Result<()> {
    let config = OutputConfig::new(&OutputFlags { paper: paper.clone(), ..OutputFlags::default() })?;
    let (style, _) = style(&config);
    let mut text = Vec::new();
    let result = write(&style, &mut text);
    if result.is_ok() || !text.is_empty() {
        Output::open(config.path.as_deref())?.write(|out| out.write_all(&text))?;
    }
    result
}

fn run(config: &Config, view: &mut dyn View) -> Result<StopReason> {
    session::run(config, &ready(config)?, view)
}

/// Where the run takes place, if it can.
fn ready(config: &Config) -> Result<Environment> {
    let features = Features::detect(config.resources.btf.as_deref());
    features.check_can_measure(&config.resources, config.mode)?;
    if !config.output.quiet {
        config.notes.iter().for_each(status);
    }
    privilege::raise_memory_limit(&features.release)?;
    if features.only_records(config.resources.attach) {
        refuse_what_no_record_tells(config)?;
    }
    Ok(place(features))
}

/// `verify`: the same window by hist triggers.
///
/// # Errors
/// Those of [`verify::run`].
pub fn verify(config: &VerifyConfig) -> Result<verify::Verdict> {
    let features = Features::detect(config.resources.btf.as_deref());
    features.check_can_measure(&config.resources, Mode::Samples)?;
    if !config.output.quiet {
        config.notes.iter().for_each(status);
    }
    privilege::raise_memory_limit(&features.release)?;
    let (style, _) = style(&config.output);
    let release = features.release.clone();
    verify::run(config, &place(features), &release, &style)
}

fn place(features: Features) -> Environment {
    Environment {
        kernel: features.release.to_string(),
        cgroup_mount: features.cgroup_v2,
        btf: matches!(features.btf, KernelBtf::Present { .. }).then_some(features.btf_path),
        tracefs: match features.tracefs {
            Tracefs::Open { path, .. } => Some(path),
            Tracefs::Closed(_) | Tracefs::NotMounted => None,
        },
    }
}

/// Classic tracepoints name a thread, its name and its priority, and nothing more of it.
fn refuse_what_no_record_tells(config: &Config) -> Result<()> {
    let unknown = [
        (part::TGID, Key::Pid, "process"),
        (part::POLICY, Key::Policy, "policy"),
        (part::CGROUP, Key::Cgroup, "cgroup"),
        (part::CGROUP, Key::Container, "cgroup"),
    ];
    for (part, key, what) in unknown {
        if config.filter.parts & part != 0 || config.by.contains(&key) {
            bail!(
                "the `{what}` of a task is not in the records of classic tracepoints; use a kernel with BTF, give its \
                 BTF with `--btf FILE`, or select and group by `--tid`, `--comm`, `--prio` and `--cpus`"
            );
        }
    }
    Ok(())
}

/// How the coverage is to look on standard error, where rows of waits or events have no place for it.
fn aside(config: &Config, style: &Style) -> Option<Style> {
    (config.output.format == sink::Format::Csv && !config.output.quiet)
        .then(|| Style { colour: style.colour && io::stderr().is_terminal(), ..style.clone() })
}

fn keys(config: &Config) -> Vec<&'static str> {
    config.by.iter().map(|key| key.name()).collect()
}

/// How text is to look, and the rows of the terminal where there is one.
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

/// What suits standard output, or a file.
fn terminal(file: bool) -> (Style, Option<usize>) {
    let terminal = !file && io::stdout().is_terminal();
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    let rows = size.map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0);
    (Style::detect(|name| std::env::var(name).ok(), terminal, columns, TimeZone::system()), rows)
}

/// What has to be known where waits are grouped by part.
fn of_parts(config: &Config) -> Option<TimelineSettings> {
    config.by.contains(&Key::Component).then_some(TimelineSettings::OF_WAITS)
}

struct Hist {
    reports: Box<dyn Reports>,
    timeline: Option<TimelineSettings>,
}

impl View for Hist {
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

struct Trace {
    waits: Box<dyn Waits>,
    /// How the coverage is to look on standard error, where the output cannot hold it.
    aside: Option<Style>,
}

impl View for Trace {
    fn shows_waits(&self) -> bool {
        true
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.waits.head(out)
    }

    fn wait(&mut self, wait: &Wait, unix_offset_ns: i64, names: &dyn Names, out: &mut dyn Write) -> io::Result<()> {
        let name_of = |tid| names.comm(tid);
        self.waits.wait(wait, &sink::Context { unix_offset_ns, name_of: &name_of }, out)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        self.waits.end(report, out)?;
        if let Some(style) = &self.aside {
            sink::coverage::write(report, style, &mut io::stderr())?;
        }
        Ok(())
    }
}
