//! `record`: writes events, waits or histograms to a file.

use anyhow::{Result, bail};

use super::{
    flight_recorder::FlightRecorder,
    measurement::measure,
    record_histograms::HistogramView,
    record_view::{RecordView, header},
    terminal_style::style,
};
use crate::{
    config::{Config, OutputConfig, RecordConfig},
    session::{StopReason, View},
};
use wakelat_core::recording::Kept;

/// `record`: writes events, waits or histograms to a file.
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
    let stderr_style = (!config.output.quiet).then(|| style(&config.output).0);
    let mut view: Box<dyn View> = match header.kept {
        Kept::Histograms { .. } => Box::new(HistogramView::new(header, stderr_style)),
        Kept::Events | Kept::Waits => {
            let mut view = RecordView::new(header);
            view.stderr_style = stderr_style;
            Box::new(view)
        }
    };
    match measure(config, view.as_mut())? {
        StopReason::NoReader => bail!("the recording is incomplete: its reader closed the pipe before the end"),
        stop => Ok(stop),
    }
}
