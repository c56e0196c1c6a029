//! `export`: converts a recording for another tool.

mod folded;
mod interval_log;
#[cfg(feature = "parquet")]
mod parquet;
mod perfetto;

use anyhow::{Context as _, Result, bail};

use self::{folded::FoldedView, interval_log::IntervalLogView, perfetto::PerfettoView};
use super::{measurement::Source, terminal_style::style};
use crate::{
    config::{Config, ExportConfig, ExportFormat},
    session::{StopReason, View},
};
use wakelat_core::recording::{Header, Kept};

/// Whether the recordings with these headers have histograms.
fn kept_histograms(headers: &[&Header]) -> bool {
    headers.iter().any(|header| matches!(header.kept, Kept::Histograms { .. }))
}

/// `export`: converts a recording for another tool.
///
/// # Errors
/// If the recording cannot be read or does not have what `config` requests, or if the output cannot be written or its
/// reader closes it before the end.
pub fn export(config: &Config, export: &ExportConfig) -> Result<StopReason> {
    let (source, config) = Source::open(config)?;
    let headers = source.headers();
    // Of the coverage on standard error, without `--quiet`.
    let stderr_style = (!config.output.quiet).then(|| style(&config.output).0);
    let mut view: Box<dyn View> = match &export.format {
        ExportFormat::Perfetto => Box::new(PerfettoView::new(&headers, &config, export.threshold_ns, stderr_style)?),
        ExportFormat::Folded => Box::new(FoldedView::new(&config, stderr_style)),
        ExportFormat::IntervalLog => Box::new(IntervalLogView::new(kept_histograms(&headers), stderr_style)),
        #[cfg(feature = "parquet")]
        ExportFormat::Parquet { prefix } => {
            let input = config.input.as_ref().context("only a recording can be exported")?;
            Box::new(parquet::ParquetView::create((prefix, input), &headers, &config, stderr_style)?)
        }
    };
    match source.show(&config, view.as_mut())? {
        StopReason::NoReader => bail!("the export is incomplete: its reader closed the pipe before the end"),
        stop => Ok(stop),
    }
}
