//! The last seconds of a measurement, as a recording in memory.

use std::{collections::BTreeMap, io};

use crate::{
    commands::record_view::header,
    config::{Config, RecordConfig, TableConfig},
};
use wakelat_core::{
    aggregate::key::Names,
    recording::{Header, LastPart, LastSegments, Recorder},
    report::Report,
    timeline::event::Event,
};

/// How much is kept: ns.
pub const LENGTH_NS: u64 = 30_000_000_000;

/// The most memory that it takes: bytes. A busy machine fills it in less than [`LENGTH_NS`].
const MAX_BYTES: usize = 64 << 20;

/// Keeps the last seconds.
pub struct LastSeconds {
    header: Header,
    recorder: Recorder,
    last: LastSegments,
}

impl LastSeconds {
    /// Keeps the last seconds of a measurement with these settings.
    pub fn new(config: &Config, table: TableConfig) -> io::Result<Self> {
        let record = RecordConfig::of_events(table.collect, BTreeMap::new());
        let mut header = header(config, &record);
        header.trigger = Some("a key in `wakelat top`".to_owned());
        let mut last = LastSegments::new(LENGTH_NS, MAX_BYTES);
        let mut recorder = Recorder::default();
        recorder.begin(header.clone(), &mut last)?;
        Ok(Self { header, recorder, last })
    }

    /// The header of a recording of it.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Adds an event. Events that have no room are missing in the recording, which counts them as lost.
    pub fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names) -> io::Result<()> {
        if self.last.is_full() {
            return Ok(());
        }
        self.recorder.set_unix_offset(unix_offset_ns, &mut self.last)?;
        self.recorder.event(event, names, &mut self.last)
    }

    /// The warm-up has ended.
    pub fn warmed_up(&mut self) -> io::Result<()> {
        self.recorder.warmed_up(&mut self.last)
    }

    /// Ends a segment: `report` covers everything since the start.
    pub fn report(&mut self, report: &Report) -> io::Result<()> {
        self.recorder.reading(report, &mut self.last)
    }

    /// What is kept until the last report; `None` before the first.
    pub fn part(&self) -> Option<LastPart> {
        self.last.part()
    }
}
