//! `record`: writes all events to a file.

use anyhow::{Result, bail};

use super::{
    flight_recorder::FlightRecorder,
    measurement::measure,
    record_view::{RecordView, header},
    terminal_style::style,
};
use crate::{
    config::{Config, OutputConfig, RecordConfig},
    session::StopReason,
};

/// `record`: writes all events to a file.
///
/// # Errors
/// Errors of [`crate::session::run`], and if the reader of a pipe closes it before the end.
pub fn record(config: &Config, record: &RecordConfig) -> Result<StopReason> {
    let header = header(config, record);
    if let Some(settings) = &record.flight_recorder {
        let mut view = FlightRecorder::new(config, settings.clone(), header)?;
        let output = OutputConfig { path: Some("/dev/null".into()), ..config.output.clone() };
        let stop = measure(&Config { output, ..config.clone() }, &mut view)?;
        return view.finish().map(|()| stop);
    }
    let mut view = RecordView::new(header);
    view.stderr_style = (!config.output.quiet).then(|| style(&config.output).0);
    match measure(config, &mut view)? {
        StopReason::NoReader => bail!("the recording is incomplete: its reader closed the pipe before the end"),
        stop => Ok(stop),
    }
}
