//! `timerlat` and `osnoise`: a run of the kernel's tracer, or its saved trace.

mod held_records;
mod listeners;
mod run;
mod run_listener;
mod saved_trace;
mod source;
mod trace_file;
mod user_threads;

use std::io::Write as _;

use anyhow::Result;

use super::terminal_style::{stderr_style, style};
use crate::{
    config::{LiveConfig, OsnoiseConfig, TimerlatConfig, TracerInput},
    session::StopReason,
    status::StatusWriter,
};
use wakelat_core::{
    osnoise_tracers::{
        render::{self, NoiseView, TimerlatView},
        summary::TimerlatCoverage,
    },
    render::{OutputFormat, Style},
};

pub use user_threads::measure as timerlat_thread;

/// `timerlat`: shows the results of the tracer or of a saved trace.
///
/// # Errors
/// If the kernel or the privileges of this user do not allow the tracer to run, the saved trace cannot be read, or
/// the output cannot be written.
pub fn timerlat(config: &TimerlatConfig) -> Result<StopReason> {
    match &config.origin {
        TracerInput::Saved(saved) => {
            let (style, _) = style(&saved.output);
            saved_trace::timerlat(saved, config.shown, &style).map(|()| StopReason::Done)
        }
        TracerInput::Live(live) => {
            let (style, _) = style(&live.output);
            let redrawn = style.cursor && live.output.format == OutputFormat::Human && !live.output.quiet;
            let stderr_style = stderr_style(&live.output, &style);
            let period_ns = live.tracer.setup.timer_period_ns();
            let mut listener = listeners::TimerlatListener::new(
                config.shown,
                period_ns,
                live.tracer.setup.user.is_some(),
                live.output.format,
                style,
            );
            listener.stderr_style = stderr_style;
            live_run(live, redrawn && config.shown.view == TimerlatView::Top, &mut listener)
        }
    }
}

/// `osnoise`: shows the results of the tracer or of a saved trace.
///
/// # Errors
/// As for [`timerlat`].
pub fn osnoise(config: &OsnoiseConfig) -> Result<StopReason> {
    match &config.origin {
        TracerInput::Saved(saved) => {
            let (style, _) = style(&saved.output);
            saved_trace::osnoise(saved, config.shown, &style).map(|()| StopReason::Done)
        }
        TracerInput::Live(live) => {
            let (style, _) = style(&live.output);
            let redrawn = style.cursor && live.output.format == OutputFormat::Human && !live.output.quiet;
            let stderr_style = stderr_style(&live.output, &style);
            let mut listener = listeners::OsnoiseListener::new(config.shown, live.output.format, style);
            listener.stderr_style = stderr_style;
            live_run(live, redrawn && config.shown.view == NoiseView::Top, &mut listener)
        }
    }
}

fn live_run(live: &LiveConfig, redrawn: bool, listener: &mut dyn run_listener::Listener) -> Result<StopReason> {
    const REDRAW_INTERVAL_NS: u64 = 1_000_000_000;
    let mut window = live.window;
    if redrawn {
        window.interval_ns = Some(REDRAW_INTERVAL_NS);
    }
    run::run(&live.tracer, &window, &live.output, listener)
}

/// Writes the coverage to standard error, if there is a style for it: rows of CSV have no place for it. A write error
/// is ignored, as of a status message.
fn write_coverage(coverage: &TimerlatCoverage, stderr_style: Option<&Style>) {
    let Some(style) = stderr_style else { return };
    let mut text = String::new();
    render::coverage(coverage, style, &mut text);
    _ = StatusWriter.write_all(text.as_bytes());
}
