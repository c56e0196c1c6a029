//! The file of `--trace`: the records of a run in the text format of the tracer.

use std::path::Path;

use anyhow::Result;

use crate::session::output::Output;
use wakelat_core::{
    osnoise_tracers::record::TimerlatRecord,
    render::units::{counted, thousands},
};
use wakelat_tracefs::osnoise_tracers::trace_text_writer;

/// The file of `--trace`. Losses are in it where the tracer's own text has them.
pub struct TraceFile {
    output: Output,
    /// Records that were lost so far.
    lost: u64,
}

impl TraceFile {
    /// Opens the file at `path`, which the first write truncates.
    ///
    /// # Errors
    /// If it cannot be opened or created.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { output: Output::open(Some(path))?, lost: 0 })
    }

    /// Writes that `events` records of `cpu` were lost, before the records that follow them.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn lost(&mut self, cpu: u32, events: u64) -> Result<()> {
        self.lost = self.lost.saturating_add(events);
        self.output.write(|out| trace_text_writer::write_loss(cpu, events, out)).map(drop)
    }

    /// Writes records.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&mut self, records: &[TimerlatRecord]) -> Result<()> {
        self.output.write(|out| records.iter().try_for_each(|record| trace_text_writer::write(record, out))).map(drop)
    }

    /// How many records the file lacks, if any: those that were lost, and the events that the kernel `missed`, for
    /// which the text of the tracer has no line.
    pub fn lacking(&self, missed: u64) -> Option<String> {
        let lacking = self.lost.saturating_add(missed);
        (lacking > 0).then(|| {
            let (records, lost, missed) = (counted(lacking, "record"), thousands(self.lost), thousands(missed));
            format!("{} lacks {records}: {lost} lost, {missed} missed", self.output.name())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelat_core::osnoise_tracers::record::TimerlatEvent;

    #[test]
    fn losses_are_in_the_file_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.txt");
        let mut file = TraceFile::open(&path).unwrap();
        let event = TimerlatEvent::NmiNoise { start_ns: 1, duration_ns: 2 };
        let record = TimerlatRecord { at_ns: 3, cpu: 1, task: None, event };
        file.write(std::slice::from_ref(&record)).unwrap();
        assert_eq!(file.lacking(0), None);
        file.lost(1, 12).unwrap();
        file.write(&[record]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[1]), (3, "CPU:1 [LOST 12 EVENTS]"), "{text}");
        let lacking = file.lacking(3).unwrap();
        assert!(lacking.contains("trace.txt` lacks 15 records: 12 lost, 3 missed"), "{lacking}");
    }
}
