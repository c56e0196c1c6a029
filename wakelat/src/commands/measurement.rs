//! Runs a measurement, or reads one that is saved: checks the settings, prepares the machine, and starts the session.

use anyhow::{Context as _, Result};

use super::record_view;
use crate::{
    config::{Config, OutputConfig, Resources},
    session::{
        self, Environment, StopReason, View, open_input,
        replay::{self, SavedInput},
    },
    status::status,
};
use wakelat_core::{
    recording::{Header, TextSource},
    report::Mode,
};
use wakelat_kernel::{Features, Roots, privilege};

/// Where waits come from.
pub enum Source {
    /// The machine, ready to measure.
    Live(Environment),
    /// The machine, and the header of the recording that is made of the measurement.
    LiveRecorded(Environment, Box<Header>),
    /// Saved input: recordings, or the text of a trace.
    Saved(SavedInput),
}

impl Source {
    /// Prepares the machine for a measurement, or opens the saved input of `config`. Also returns the configuration of its
    /// views: the input determines a part of it.
    ///
    /// # Errors
    /// Errors of [`prepare`]; if the input cannot be read, or does not have what `config` requests.
    pub fn open(config: &Config) -> Result<(Self, Config)> {
        let Some(input) = &config.input else { return Ok((Self::Live(prepare(config)?), config.clone())) };
        if let Some(measured) = &input.measured {
            let environment = prepare(&measured.config)?;
            let header = record_view::header(&measured.config, &measured.record);
            let config = replay::config_of(&[&header], config, input)?;
            return Ok((Self::LiveRecorded(environment, Box::new(header)), config));
        }
        let saved = SavedInput::open(input)?;
        let headers = saved.headers();
        let config = replay::config_of(&headers, config, input)?;
        if !config.output.quiet {
            for (path, header) in input.paths.iter().zip(headers) {
                let file = if input.paths.len() > 1 { format!("{}: ", open_input::name(path)) } else { String::new() };
                recorded_by(header).iter().for_each(|line| status(format_args!("{file}{line}")));
            }
        }
        Ok((Self::Saved(saved), config))
    }

    /// Whether the waits are measured now.
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::Saved(_))
    }

    /// The headers of the saved input, or that of the recording that is made.
    pub fn headers(&self) -> Vec<&Header> {
        match self {
            Self::Live(_) => Vec::new(),
            Self::LiveRecorded(_, header) => vec![header],
            Self::Saved(saved) => saved.headers(),
        }
    }

    /// The processes of wakelat itself: this one, or those that made the recordings.
    pub fn own_pids(&self) -> Vec<u32> {
        match self {
            Self::Live(_) | Self::LiveRecorded(..) => privilege::own_pid(&Roots::default()).into_iter().collect(),
            Self::Saved(saved) => replay::own_pids(&saved.headers()),
        }
    }

    /// Passes the waits to `view`, as `config`, which [`Self::open`] returned, requests.
    ///
    /// # Errors
    /// Errors of [`session::run`], [`record_view::record_and_show`] and [`replay::replay`].
    pub fn show(self, config: &Config, view: &mut dyn View) -> Result<StopReason> {
        match self {
            Self::Live(environment) => session::run(config, &environment, view),
            Self::LiveRecorded(environment, header) => {
                let input = config.input.as_ref().context("no recording is made")?;
                let measured = input.measured.as_ref().context("no recording is made")?;
                record_view::record_and_show((&environment, measured, *header), (config, input), view)
            }
            Self::Saved(saved) => replay::replay(saved, config, view),
        }
    }
}

/// What was recorded where and with which command.
fn recorded_by(header: &Header) -> Vec<String> {
    let command = header.command_line.join(" ");
    let labels = header.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
    let trigger = header.trigger.clone().unwrap_or_default();
    let text = header.text.as_ref().map(|text| {
        let TextSource { kind, resolution_ns, .. } = text;
        let precision = if *resolution_ns == 1 { "1 ns" } else { "1 us" };
        format!("the text of `{}`; its times have a precision of {precision}", kind.name())
    });
    let lines = [
        ("reading", text.unwrap_or_default()),
        ("recorded on", header.machine.to_string()),
        ("recorded with", command),
        ("labels:", labels),
        ("trigger:", trigger),
    ];
    let lines = lines.into_iter().filter(|(_, text)| !text.is_empty());
    // A recording may come from anywhere: its text must not control the terminal.
    lines.map(|(what, text)| format!("{what} {}", text.escape_debug())).collect()
}

/// Measures as `config` says, and passes the results to `view`.
///
/// # Errors
/// Errors of [`prepare`] and [`session::run`].
pub fn measure(config: &Config, view: &mut dyn View) -> Result<StopReason> {
    session::run(config, &prepare(config)?, view)
}

/// Prepares the machine for a run, and checks that it can measure.
///
/// # Errors
/// Errors of [`prepare_machine`], or if the filter or a key needs more than classic tracepoints record.
pub fn prepare(config: &Config) -> Result<Environment> {
    let features = prepare_machine(&config.resources, config.mode, &config.output, &config.notes)?;
    if features.uses_classic_tracepoints(config.resources.attach) {
        config.check_classic_tracepoints()?;
    }
    Ok(Environment::new(features))
}

/// Checks that this kernel and this user can measure in `mode`, prints the notes on the settings, and raises the limit
/// of locked memory. Returns what the kernel offers.
///
/// # Errors
/// If they cannot measure, or the limit cannot be raised.
pub fn prepare_machine(resources: &Resources, mode: Mode, output: &OutputConfig, notes: &[String]) -> Result<Features> {
    let features = Features::detect(resources.btf.as_deref());
    features.check_can_measure(resources.attach, resources.rt_priority, mode)?;
    if !output.quiet {
        notes.iter().for_each(status);
    }
    privilege::raise_memory_limit(&features.release)?;
    Ok(features)
}
