//! A recording as tables in the format of Apache Parquet.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::kept_histograms;
use crate::{
    collect::TimelineSettings,
    config::{Config, RecordedInput},
    session::{View, open_input, replay},
};
use wakelat_core::{
    aggregate::key::Names,
    parquet::ParquetTables,
    recording::Header,
    render::{self, Style},
    report::Report,
    timeline::{
        Timeline,
        event::{Event, EventKind},
    },
};

/// Writes a file for each table.
pub struct ParquetView {
    /// The tables, until the end.
    tables: Option<ParquetTables<File>>,
    timeline: Timeline,
    /// The recording has histograms instead of events.
    has_histograms: bool,
    /// The window has ended: the next report is the last.
    has_ended: bool,
    /// The report of all intervals so far, without groups.
    whole: Option<Report>,
    stderr_style: Option<Style>,
}

impl ParquetView {
    /// Creates the files, whose names begin with `prefix`.
    ///
    /// # Errors
    /// If a file cannot be created, or the recordings have neither events nor histograms.
    pub fn create(
        (prefix, input): (&Path, &RecordedInput),
        headers: &[&Header],
        config: &Config,
        stderr_style: Option<Style>,
    ) -> Result<Self> {
        let has_histograms = kept_histograms(headers);
        if !has_histograms {
            replay::check_has_events(headers)?;
        }
        let names = open_input::short_names(&input.paths);
        let recordings: Vec<_> = names.iter().map(|name| &**name).zip(headers.iter().copied()).collect();
        let open = |table: &str| File::create(file_of(prefix, table));
        let cannot_write = || format!("cannot write `{}`", file_of(prefix, "*").display());
        let tables = ParquetTables::new(&recordings, open).with_context(cannot_write)?;
        let timeline = Timeline::new(config.from);
        Ok(Self { tables: Some(tables), timeline, has_histograms, has_ended: false, whole: None, stderr_style })
    }
}

/// The file of a table: `out-waits.parquet` for `out` and for `out.parquet`.
fn file_of(prefix: &Path, table: &str) -> PathBuf {
    let mut path = prefix.to_owned().into_os_string();
    if prefix.extension().is_some_and(|extension| extension == "parquet") {
        path = prefix.with_extension("").into_os_string();
    }
    path.push(format!("-{table}.parquet"));
    path.into()
}

impl View for ParquetView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        (!self.has_histograms).then_some(TimelineSettings::OF_WAITS)
    }

    fn event(&mut self, event: &Event, unix_offset_ns: i64, names: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        let breakdown = self.timeline.push(event);
        match (&event.kind, &mut self.tables) {
            (EventKind::Switch(switch), Some(tables)) => {
                tables.switch(event.cpu, switch, breakdown, unix_offset_ns, names)
            }
            _ => Ok(()),
        }
    }

    fn ended(&mut self) {
        self.has_ended = true;
    }

    fn report(&mut self, report: &Report, _: &mut dyn Write) -> io::Result<()> {
        let Some(tables) = &mut self.tables else { return Ok(()) };
        tables.interval(report)?;
        let whole = match self.whole.take() {
            Some(before) => before.followed_by(report),
            None => report.clone(),
        };
        if !self.has_ended {
            self.whole = Some(whole);
            return Ok(());
        }
        self.tables.take().map_or(Ok(()), |tables| tables.finish().map(drop))?;
        self.stderr_style.as_ref().map_or(Ok(()), |style| render::coverage::write(&whole, style, &mut io::stderr()))
    }
}
