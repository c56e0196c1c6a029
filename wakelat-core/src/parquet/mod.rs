//! A recording as tables in the format of Apache Parquet, for engines such as DuckDB, ClickHouse and Spark: its waits,
//! their components, the switches, and histograms per interval. Pure, except for the writers that the caller passes.
//!
//! Each table has the host, the recording and its labels in columns of their own, so that the files of many recordings
//! are one table.

mod table;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use wakelat_common::pending_wait::PrevState;

use crate::{
    aggregate::{
        container_id::Container,
        key::{Key, Names},
    },
    files::{number_of_cpu, own_number, own_tid},
    recording::Header,
    render::timestamps,
    report::{Group, KeyValue, Report},
    timeline::{
        Breakdown,
        breakdown::Share,
        component::{Actor, Component},
        event::SwitchEvent,
    },
    wait::{Wait, policy_name},
    why::render::labels,
};

use self::table::{Cell, ColumnKind, ParquetTable};

/// The names of the tables, each of which is a file.
pub const TABLES: [&str; 4] = ["waits", "components", "switches", "intervals"];

/// The tables of one recording or several.
pub struct ParquetTables<W: Write + Send> {
    /// Each recording, by the number of its file.
    recordings: Vec<RecordingRows>,
    waits: ParquetTable<W>,
    components: ParquetTable<W>,
    switches: ParquetTable<W>,
    intervals: ParquetTable<W>,
}

/// What the rows of a recording have in common.
#[derive(Debug)]
struct RecordingRows {
    /// The values of the columns that all tables have.
    common: Vec<Cell>,
    /// Number of its waits so far.
    waits: u64,
}

fn columns(labels: &BTreeSet<&str>, own: &[(&str, ColumnKind)]) -> Vec<(String, ColumnKind)> {
    let common = ["host", "recording"].map(|name| (name.to_owned(), ColumnKind::Text));
    let labels = labels.iter().map(|key| (format!("label_{key}"), ColumnKind::Text));
    let own = own.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
    common.into_iter().chain(labels).chain(own).collect()
}

fn wait_columns() -> Vec<(String, ColumnKind)> {
    use ColumnKind::{Number, Text, Time};
    let columns = [
        ("wait", Number),
        ("time", Time),
        ("at_ns", Number),
        ("class", Text),
        ("latency_ns", Number),
        ("delivery_ns", Number),
        ("tid", Number),
        ("pid", Number),
        ("comm", Text),
        ("cgroup", Text),
        ("container", Text),
        ("pod", Text),
        ("prio", Number),
        ("policy", Text),
        ("cpu", Number),
        ("prev_cpu", Number),
        ("waker_tid", Number),
        ("waker_comm", Text),
        ("prev_tid", Number),
        ("prev_comm", Text),
    ];
    let components = Component::ALL.map(|component| (format!("{}_ns", component.name()), Number));
    columns.into_iter().map(|(name, kind)| (name.to_owned(), kind)).chain(components).collect()
}

impl<W: Write + Send> ParquetTables<W> {
    /// The tables of recordings with these names and headers, in the order of their files; `open` opens the file of a
    /// table of [`TABLES`].
    ///
    /// # Errors
    /// If a file cannot be opened or written.
    pub fn new(recordings: &[(&str, &Header)], mut open: impl FnMut(&str) -> io::Result<W>) -> io::Result<Self> {
        use ColumnKind::{Number, Text, Time};
        let labels = recordings.iter().flat_map(|(_, header)| header.labels.keys().map(String::as_str));
        let labels = &labels.collect::<BTreeSet<_>>();
        let waits = wait_columns();
        let waits: Vec<_> = waits.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        let [of_waits, of_components, of_switches, of_intervals] = TABLES;
        let mut table = |name, own: &[_]| ParquetTable::new(name, &columns(labels, own), open(name)?);
        Ok(Self {
            waits: table(of_waits, &waits)?,
            components: table(
                of_components,
                &[
                    ("wait", Number),
                    ("component", Text),
                    ("culprit", Text),
                    ("culprit_tid", Number),
                    ("culprit_comm", Text),
                    ("culprit_cgroup", Text),
                    ("ns", Number),
                ],
            )?,
            switches: table(
                of_switches,
                &[
                    ("time", Time),
                    ("at_ns", Number),
                    ("cpu", Number),
                    ("prev_tid", Number),
                    ("prev_comm", Text),
                    ("prev_cgroup", Text),
                    ("prev_state", Text),
                    ("next_tid", Number),
                    ("next_comm", Text),
                    ("next_cgroup", Text),
                    ("wait", Number),
                ],
            )?,
            intervals: table(
                of_intervals,
                &[
                    ("start", Time),
                    ("duration_ns", Number),
                    ("class", Text),
                    ("cgroup", Text),
                    ("comm", Text),
                    ("from_ns", Number),
                    ("to_ns", Number),
                    ("count", Number),
                ],
            )?,
            recordings: recordings.iter().map(|(name, header)| RecordingRows::new(name, header, labels)).collect(),
        })
    }

    /// Adds a switch, and the wait that it ended.
    ///
    /// # Errors
    /// If a file cannot be written, as of all methods.
    pub fn switch(
        &mut self,
        cpu: u32,
        switch: &SwitchEvent,
        breakdown: Option<&Breakdown>,
        unix_offset_ns: i64,
        names: &dyn Names,
    ) -> io::Result<()> {
        let file = number_of_cpu(cpu) as usize;
        let wait = breakdown.map(|breakdown| self.wait(file, breakdown, unix_offset_ns, names)).transpose()?;
        let cgroup = |id: Option<u64>| Cell::from(id.map(|id| names.cgroup(id)));
        let (prev, next) = (&switch.prev, &switch.next);
        let values = [
            time(switch.at_ns, unix_offset_ns),
            switch.at_ns.into(),
            own_number(cpu).into(),
            own_tid(prev.tid).into(),
            prev.comm.to_string().into(),
            cgroup(prev.cgroup_id),
            prev_state(switch.prev_state).into(),
            own_tid(next.tid).into(),
            next.comm.to_string().into(),
            cgroup(next.cgroup_id),
            wait.into(),
        ];
        self.switches.row(common(&self.recordings, file).chain(values))
    }

    /// Adds a wait of a file with its components. Returns its number.
    fn wait(&mut self, file: usize, breakdown: &Breakdown, unix_offset_ns: i64, names: &dyn Names) -> io::Result<u64> {
        let number = self.recordings.get_mut(file).map_or(0, RecordingRows::next_wait);
        let mut components = [0; Component::ALL.len()];
        breakdown.components().for_each(|(component, ns)| components[component as usize] = ns);
        let values = wait_values(number, &breakdown.ended_wait.wait, breakdown.latency_ns, unix_offset_ns, names);
        let components = components.map(Cell::from);
        self.waits.row(common(&self.recordings, file).chain(values).chain(components))?;
        for share in &breakdown.shares {
            let values = share_values(number, share, names);
            self.components.row(common(&self.recordings, file).chain(values))?;
        }
        Ok(number)
    }

    /// Adds the histograms of an interval, whose groups are by cgroup and name, and by file if there are several.
    pub fn interval(&mut self, report: &Report) -> io::Result<()> {
        for group in &report.groups {
            // Each file has been given once.
            let file = key(group, Key::Recording);
            let file = file.and_then(|file| report.files.iter().position(|name| name.file == file)).unwrap_or(0);
            for bucket in group.distribution.buckets() {
                let values = [
                    Cell::from(report.start_unix_ns),
                    report.duration_ns.into(),
                    group.class.name().into(),
                    key(group, Key::Cgroup).into(),
                    key(group, Key::Comm).into(),
                    bucket.from_ns.into(),
                    bucket.to_ns.into(),
                    bucket.count.into(),
                ];
                self.intervals.row(common(&self.recordings, file).chain(values))?;
            }
        }
        Ok(())
    }

    /// Writes the rest, and returns what the tables were written to.
    pub fn finish(self) -> io::Result<[W; TABLES.len()]> {
        Ok([self.waits.finish()?, self.components.finish()?, self.switches.finish()?, self.intervals.finish()?])
    }
}

impl RecordingRows {
    fn new(name: &str, header: &Header, labels: &BTreeSet<&str>) -> Self {
        let labels = labels.iter().map(|key| Cell::from(header.labels.get(*key).map(String::as_str)));
        let common = [&header.machine.host, name].map(Cell::from).into_iter().chain(labels).collect();
        Self { common, waits: 0 }
    }

    /// The number of its next wait.
    fn next_wait(&mut self) -> u64 {
        self.waits += 1;
        self.waits
    }
}

/// The values that all rows of a file begin with.
fn common(recordings: &[RecordingRows], file: usize) -> impl Iterator<Item = Cell> + use<> {
    recordings.get(file).map(|rows| rows.common.clone()).unwrap_or_default().into_iter()
}

/// The value of a key of a group.
fn key(group: &Group, key: Key) -> Option<String> {
    group.key.iter().find(|part| part.name == key.name()).map(|part| match &part.value {
        KeyValue::Text(text) => text.clone(),
        value => value.to_string(),
    })
}

/// What becomes of the task that is switched out, as in JSON.
fn prev_state(state: PrevState) -> &'static str {
    match state {
        PrevState::Runnable | PrevState::PreemptedSleeping => "runnable",
        PrevState::Sleeping => "sleeping",
        PrevState::Dead => "dead",
    }
}

fn time(at_ns: u64, unix_offset_ns: i64) -> Cell {
    timestamps::unix_ns(at_ns, unix_offset_ns).into()
}

/// The values of a wait; `latency_ns` is what its components add up to.
fn wait_values(
    number: u64,
    wait: &Wait,
    latency_ns: u64,
    unix_offset_ns: i64,
    names: &dyn Names,
) -> impl Iterator<Item = Cell> {
    let cgroup = wait.cgroup_id.map(|id| names.cgroup(id));
    let container = cgroup.as_deref().and_then(Container::of);
    let (container, pod) = container.map_or((None, None), |container| (container.id, container.pod));
    let waker = wait.waker_tid.and_then(|tid| names.comm(tid));
    let values = [
        number.into(),
        time(wait.at_ns, unix_offset_ns),
        wait.at_ns.into(),
        wait.class.name().into(),
        latency_ns.into(),
        wait.delivery_ns.into(),
        own_tid(wait.tid).into(),
        own_tid(wait.pid).into(),
        wait.comm.to_string().into(),
        cgroup.into(),
        container.into(),
        pod.into(),
        Cell::Number(wait.prio.into()),
        policy_name(wait.policy).into(),
        own_number(wait.cpu).into(),
        wait.prev_cpu.map(own_number).into(),
        wait.waker_tid.map(own_tid).into(),
        waker.map(|comm| comm.to_string()).into(),
        own_tid(wait.prev_tid).into(),
        wait.prev_comm.to_string().into(),
    ];
    values.into_iter()
}

/// The values of a share of the wait with this number.
fn share_values(number: u64, share: &Share, names: &dyn Names) -> impl Iterator<Item = Cell> + use<> {
    let culprit = &share.culprit;
    let (tid, comm) = match culprit.actor {
        Actor::Task(task) => (Some(own_tid(task.tid)), Some(task.comm.to_string())),
        _ => (None, None),
    };
    let cgroups = labels::cgroup_of(&culprit.actor, names);
    let name = labels::actor(&culprit.actor, &cgroups, &Default::default());
    let values: [Cell; 7] = [
        number.into(),
        culprit.component.name().into(),
        Some(name).filter(|name| !name.is_empty()).into(),
        tid.into(),
        comm.into(),
        cgroups.into_values().next().into(),
        share.ns.into(),
    ];
    values.into_iter()
}
