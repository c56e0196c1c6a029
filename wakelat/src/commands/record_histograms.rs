//! A measurement as a recording of histograms.

use std::io::{self, Write};

use crate::session::View;
use wakelat_core::{
    aggregate::{Groups, key::Names},
    recording::{Encoder, Header, HistogramRecorder, start_run},
    render::{self, Style},
    report::Report,
};

/// Writes the groups of each interval as a recording.
pub struct HistogramView {
    /// The header, until it is written.
    header: Option<Header>,
    recorder: HistogramRecorder,
    file: Encoder,
    /// The window has ended: the next report is the last.
    has_ended: bool,
    /// The style of the coverage on standard error, if it is printed.
    stderr_style: Option<Style>,
}

impl HistogramView {
    /// A view of a measurement with this header.
    pub fn new(header: Header, stderr_style: Option<Style>) -> Self {
        Self {
            header: Some(header),
            recorder: HistogramRecorder::default(),
            file: Encoder::default(),
            has_ended: false,
            stderr_style,
        }
    }

    /// Writes what is encoded to `out`.
    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self.file.bytes())?;
        self.file.clear();
        Ok(())
    }
}

impl View for HistogramView {
    fn takes_groups(&self) -> bool {
        true
    }

    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(header) = self.header.take() {
            self.recorder.begin(header, &mut self.file)?;
        }
        self.write(out)
    }

    fn started(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        start_run(report, &mut self.file)?;
        self.write(out)
    }

    /// Each reading covers everything since the start: if it is the last one in the file, it replaces the end.
    fn is_cumulative(&self) -> bool {
        true
    }

    fn makes_recording(&self) -> bool {
        true
    }

    fn ended(&mut self) {
        self.has_ended = true;
    }

    fn warmed_up(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.recorder.warmed_up(&mut self.file)?;
        self.write(out)
    }

    fn groups(&mut self, groups: &Groups, unix_offset_ns: i64, names: &dyn Names) -> io::Result<()> {
        self.recorder.interval(groups, unix_offset_ns, names, &mut self.file)
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        if !self.has_ended {
            self.recorder.reading(report, &mut self.file)?;
            return self.write(out);
        }
        self.recorder.end(report, &mut self.file)?;
        self.write(out)?;
        self.stderr_style.as_ref().map_or(Ok(()), |style| render::coverage::write(report, style, &mut io::stderr()))
    }
}
