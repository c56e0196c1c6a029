use std::collections::BTreeMap;

use parquet::{
    file::{reader::FileReader as _, serialized_reader::SerializedFileReader},
    record::{Field, Row},
};
use wakelat_common::Class;

use super::*;
use crate::{
    files::{FileIds, FileName, Files},
    recording::RecordedMachine,
    render::testing::group,
    report::LatencyFrom,
    timeline::{Timeline, event::EventKind},
    why::testing::{TestNames, stories},
};

/// The rows of each table of `name`, one of the example timelines; also the latency of each wait.
fn tables(name: &str) -> (BTreeMap<&'static str, Vec<Row>>, Vec<u64>) {
    let header = header("db1", ("release", "42"));
    let mut tables = ParquetTables::new(&[("file.wakelat", &header)], |_| Ok(Vec::new())).unwrap();
    let (mut timeline, mut latencies) = (Timeline::new(LatencyFrom::Waking), Vec::new());
    for event in &stories()[name].events {
        let breakdown = timeline.push(event);
        latencies.extend(breakdown.map(|breakdown| breakdown.latency_ns));
        if let EventKind::Switch(switch) = &event.kind {
            tables.switch(event.cpu, switch, breakdown, 0, &TestNames).unwrap();
        }
    }
    (rows(tables), latencies)
}

fn header(host: &str, (key, value): (&str, &str)) -> Header {
    Header {
        machine: RecordedMachine { host: host.to_owned(), ..RecordedMachine::default() },
        labels: [(key.to_owned(), value.to_owned())].into(),
        ..Header::default()
    }
}

fn rows(tables: ParquetTables<Vec<u8>>) -> BTreeMap<&'static str, Vec<Row>> {
    let rows = |bytes: Vec<u8>| {
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file");
        file.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect()
    };
    TABLES.into_iter().zip(tables.finish().unwrap().map(rows)).collect()
}

fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
    row.get_column_iter().find(|(column, _)| *column == name).map(|(_, field)| field).expect("a column")
}

fn number(row: &Row, name: &str) -> u64 {
    match field(row, name) {
        Field::Long(number) => u64::try_from(*number).expect("not negative"),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn the_components_of_each_wait_add_up_to_its_latency() {
    for name in stories().keys() {
        let (tables, latencies) = tables(name);
        let waits = &tables["waits"];
        assert_eq!(waits.iter().map(|wait| number(wait, "latency_ns")).collect::<Vec<_>>(), latencies, "{name}");
        for wait in waits {
            let of = |table: &str, column: &str| -> u64 {
                let its = tables[table].iter().filter(|row| number(row, "wait") == number(wait, "wait"));
                its.map(|row| number(row, column)).sum()
            };
            let columns: u64 =
                Component::ALL.map(|component| number(wait, &format!("{}_ns", component.name()))).iter().sum();
            assert_eq!((of("components", "ns"), columns), (number(wait, "latency_ns"), number(wait, "latency_ns")));
            assert_eq!(*field(wait, "host"), Field::Str("db1".to_owned()));
            assert_eq!(*field(wait, "label_release"), Field::Str("42".to_owned()));
        }
        let switches = &tables["switches"];
        let ending = switches.iter().filter(|row| !matches!(field(row, "wait"), Field::Null)).count();
        assert_eq!(ending, waits.len(), "{name}");
    }
}

/// The same waits in both recordings, which differ in host, name and labels.
#[test]
fn rows_of_several_recordings_are_those_of_each() {
    let headers = [header("db1", ("release", "42")), header("db2", ("rack", "7"))];
    let names = ["a.wakelat", "b.wakelat"];
    let recordings: Vec<_> = names.into_iter().zip(&headers).collect();
    let mut several = ParquetTables::new(&recordings, |_| Ok(Vec::new())).unwrap();
    let paths = names.map(|name| FileName { file: format!("recordings/{name}"), host: String::new() });
    let mut timeline = Timeline::new(LatencyFrom::Waking);
    for event in stories().values().flat_map(|story| &story.events) {
        let breakdown = timeline.push(event);
        let EventKind::Switch(switch) = &event.kind else { continue };
        for ids in [0, 1].map(FileIds::new) {
            several.switch(ids.number(event.cpu), switch, breakdown, 0, &TestNames).unwrap();
        }
    }
    let group = |path: &FileName| {
        let key = [("cgroup", "/a"), ("comm", "nginx"), ("file", &path.file)];
        group(&key.map(|(name, text)| (name, KeyValue::Text(text.to_owned()))), Class::Wakeup, [7, 9])
    };
    let groups = paths.iter().map(group).collect();
    several.interval(&Report { groups, files: Files::new(paths.clone()), ..Report::default() }).unwrap();
    for (table, rows) in rows(several) {
        let own = |of: [&str; 4]| {
            let columns = ["host", "recording", "label_release", "label_rack"];
            let is_its = |row: &&Row| *field(row, "recording") == Field::Str(of[1].to_owned());
            let own = |row: &Row| {
                for (column, value) in columns.into_iter().zip(of) {
                    let expected = if value.is_empty() { Field::Null } else { Field::Str(value.to_owned()) };
                    assert_eq!(*field(row, column), expected, "{table}");
                }
                let others = row.get_column_iter().filter(|(column, _)| !columns.contains(&column.as_str()));
                others.map(|(column, value)| format!("{column}={value}")).collect::<Vec<_>>()
            };
            rows.iter().filter(is_its).map(own).collect::<Vec<_>>()
        };
        let [first, second] = [own(["db1", names[0], "42", ""]), own(["db2", names[1], "", "7"])];
        assert!(!first.is_empty() && first.len() * 2 == rows.len(), "{table}");
        assert_eq!(first, second, "{table}");
    }
}

#[test]
fn rows_of_several_groups_keep_their_order() {
    let mut table = ParquetTable::new("table", &[("n".to_owned(), ColumnKind::Number)], Vec::new()).unwrap();
    let count: u64 = (1 << 16) + 3;
    for n in 0..count {
        table.row([if n % 2 == 0 { Cell::from(n) } else { Cell::None }]).unwrap();
    }
    let file = SerializedFileReader::new(bytes::Bytes::from(table.finish().unwrap())).unwrap();
    assert_eq!(file.metadata().num_row_groups(), 2);
    let rows: Vec<Row> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len() as u64, count);
    assert!(rows.iter().zip(0..).all(|(row, n)| match field(row, "n") {
        Field::Long(number) => n % 2 == 0 && *number == n,
        other => n % 2 == 1 && *other == Field::Null,
    }));
}
