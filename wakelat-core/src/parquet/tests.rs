use std::collections::BTreeMap;

use parquet::{
    file::{reader::FileReader as _, serialized_reader::SerializedFileReader},
    record::{Field, Row},
};

use super::*;
use crate::{
    recording::RecordedMachine,
    report::LatencyFrom,
    timeline::{Timeline, event::EventKind},
    why::testing::{TestNames, stories},
};

/// The rows of each table of `name`, one of the example timelines; also the latency of each wait.
fn tables(name: &str) -> (BTreeMap<&'static str, Vec<Row>>, Vec<u64>) {
    let header = Header {
        machine: RecordedMachine { host: "db1".to_owned(), ..RecordedMachine::default() },
        labels: [("release".to_owned(), "42".to_owned())].into(),
        ..Header::default()
    };
    let mut tables = ParquetTables::new(&header, "file.wakelat", |_| Ok(Vec::new())).unwrap();
    let (mut timeline, mut latencies) = (Timeline::new(LatencyFrom::Waking), Vec::new());
    for event in &stories()[name].events {
        let breakdown = timeline.push(event);
        latencies.extend(breakdown.map(|breakdown| breakdown.latency_ns));
        if let EventKind::Switch(switch) = &event.kind {
            tables.switch(event.cpu, switch, breakdown, 0, &TestNames).unwrap();
        }
    }
    let rows = |bytes: Vec<u8>| {
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file");
        file.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect()
    };
    (TABLES.into_iter().zip(tables.finish().unwrap().map(rows)).collect(), latencies)
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
