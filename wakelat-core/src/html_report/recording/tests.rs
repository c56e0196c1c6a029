use serde_json::Value;

use super::*;
use crate::{
    aggregate::key::Key,
    report::LatencyFrom,
    timeline::{Timeline, event::Event, testing::EventStream},
    wait::Comm,
    why::testing,
};

/// The page of these events, and the figures in it.
fn page_of(events: &[Event]) -> (String, Value) {
    page_with(events, testing::summary(events, LatencyFrom::default(), &[Key::Cgroup, Key::Comm]))
}

/// The page of these events and of their summary, and the figures in it.
fn page_with(events: &[Event], summary: Summary) -> (String, Value) {
    let (mut page, mut timeline) = (HtmlReport::new(false), Timeline::default());
    for event in events {
        if let Some(breakdown) = timeline.push(event) {
            page.add(breakdown, 0);
        }
    }
    let report = testing::report(&summary);
    let mut html = Vec::new();
    page.write(summary, &report, &[], &testing::TestNames, &mut html).unwrap();
    let html = String::from_utf8(html).unwrap();
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    let data = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    (html, data)
}

fn sum(of: &Value, at: usize) -> u64 {
    of.as_array().unwrap().iter().map(|row| row[at].as_u64().unwrap()).sum()
}

#[test]
fn all_figures_of_a_page_are_of_the_same_waits() {
    for stream in [testing::one_hog(), testing::throttled(), testing::softirqs()] {
        let (_, data) = page_of(&stream.events);
        let classes = data["why"]["classes"].as_array().unwrap();
        let of_classes = |what: &str| classes.iter().map(|class| class[what].as_u64().unwrap()).sum::<u64>();
        let (count, sum_ns) = (of_classes("count"), of_classes("sum_ns"));
        assert!(count > 0);
        let groups = data["hist"]["groups"].as_array().unwrap();
        assert_eq!(groups.iter().map(|group| group["count"].as_u64().unwrap()).sum::<u64>(), count);
        let page = &data["page"];
        assert_eq!(sum(&page["cells"], 2), count);
        assert_eq!((sum(&page["waits"], 1), page["waits"].as_array().unwrap().len() as u64), (sum_ns, count));
        let components = page["components"].as_array().unwrap().iter();
        let ns = components.flat_map(|of| of["ns"].as_array().unwrap()).map(|ns| ns.as_u64().unwrap());
        assert_eq!(ns.sum::<u64>(), sum_ns);
    }
}

#[test]
fn a_hostile_name_stays_text() {
    let name = "</script><b>{x}";
    let mut stream = EventStream::default();
    stream.switch(0, 1_000, crate::timeline::testing::idle());
    let mut hostile = crate::timeline::testing::task(7, "x");
    hostile.comm = Comm::new(name.as_bytes());
    stream.end_wait(0, (2_000, 9_000), hostile);
    let (html, data) = page_of(&stream.events);
    assert_eq!(html.matches("</script>").count(), 2);
    assert!(!html.contains("<b>"));
    let shown = name[..15].to_owned();
    assert!(data["page"]["names"].as_array().unwrap().contains(&Value::String(shown)), "{data}");
}

#[test]
fn threads_of_wakelat_are_marked() {
    let events = testing::beside_wakelat().events;
    let (_, data) = page_with(&events, testing::summary_of_own(&events));
    let names = data["page"]["names"].as_array().unwrap();
    let number = |name: &str| names.iter().position(|one| one == name).map(|number| number as u64);
    let own = number("wakelat/8 (wakelat's own)");
    assert!(own.is_some() && number("wakelat/8").is_none(), "{names:?}");
    let waits = data["page"]["waits"].as_array().unwrap();
    assert!(waits.iter().all(|row| row[8].as_u64() == own), "{waits:?}");
    let shares = data["page"]["time_lines"][0]["shares"].as_array().unwrap();
    assert!(shares.iter().any(|share| share[1].as_u64() == own), "{shares:?}");
    // The script marks the task of this row.
    let script = include_str!("recording.js");
    assert!(script.contains("of.is_own ? \" (wakelat's own)\""));
    let interferers = data["why"]["interferers"].as_array().unwrap();
    assert!(interferers.iter().any(|one| one["name"] == "wakelat" && one["is_own"] == true), "{interferers:?}");
}

#[test]
fn a_page_loads_nothing() {
    let (html, _) = page_of(&testing::one_hog().events);
    let addresses: Vec<_> = html.match_indices("://").map(|(at, _)| &html[at - 4..at + 20]).collect();
    // The name of a namespace, which is not loaded.
    assert_eq!(addresses, ["http://www.w3.org/2000/s"]);
}

#[test]
fn a_long_time_has_longer_intervals_and_the_same_sums() {
    let (mut over_time, mut timeline) = (OverTime::default(), Timeline::default());
    let mut added = 0;
    for event in &testing::one_hog().events {
        if let Some(breakdown) = timeline.push(event) {
            for hour in 0..24 {
                over_time.add(breakdown, breakdown.ended_wait.wait.at_ns + hour * 3_600_000_000_000);
                added += 1;
            }
        }
    }
    let cells = over_time.cells(0);
    assert_eq!(cells.iter().map(|(_, _, waits)| waits).sum::<u64>(), added);
    let intervals =
        cells.iter().map(|(index, ..)| *index).max().unwrap() - cells.iter().map(|(index, ..)| *index).min().unwrap();
    assert!((80..=160).contains(&intervals), "{intervals}");
}

#[test]
fn one_wait_far_from_the_start_or_the_end_leaves_few_intervals() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let one_wait_at = |at_ns| {
        let (mut over_time, mut timeline) = (OverTime::default(), Timeline::default());
        let stream = testing::one_hog();
        let waits = stream.events.iter().filter_map(|event| timeline.push(event).cloned()).take(1);
        waits.for_each(|wait| over_time.add(&wait, at_ns));
        let intervals = over_time.cover(0, HOUR_NS);
        (intervals, over_time.cells(0)[0].0, over_time.components(0)[0].ns.len())
    };
    let (intervals, index, length) = one_wait_at(HOUR_NS - 1);
    assert!((80..=160).contains(&intervals), "{intervals}");
    assert_eq!((index as u64, length as u64), (intervals - 1, intervals));
    assert_eq!(one_wait_at(1), (intervals, 0, 1));
}

#[test]
fn of_many_waits_the_longest_are_listed() {
    let (mut longest, mut timeline) = (ListedWaits::default(), Timeline::default());
    let stream = testing::one_hog();
    let mut breakdowns: Vec<Breakdown> = Vec::new();
    for event in &stream.events {
        breakdowns.extend(timeline.push(event).cloned());
    }
    for latency_ns in 1..=6_000 {
        let mut breakdown = breakdowns[0].clone();
        breakdown.latency_ns = latency_ns;
        longest.add(&breakdown, 0);
    }
    let mut latencies: Vec<u64> = longest.keys().map(|(latency_ns, ..)| *latency_ns).collect();
    assert_eq!((latencies.len(), latencies[0], latencies[4_999]), (5_000, 6_000, 1_001));
    assert_eq!(longest.left_out(), 1_000);
    // The longest wait of its group, although it is short.
    let mut short = breakdowns[0].clone();
    short.latency_ns = 5;
    (0..2).for_each(|_| longest.include(&short, 0));
    latencies = longest.keys().map(|(latency_ns, ..)| *latency_ns).collect();
    assert_eq!((latencies.len(), latencies[5_000], longest.left_out()), (5_001, 5, 999));
}

#[test]
fn a_time_line_has_all_of_a_wait_in_few_pieces() {
    let mut stream = EventStream::default();
    let (one, other) = (crate::timeline::testing::task(1, "one"), crate::timeline::testing::task(2, "other"));
    let slice_ns = 1_000;
    for slice in 0..20_000 {
        stream.switch(0, 1_000_000 + slice * slice_ns, if slice % 2 == 0 { one } else { other });
    }
    stream.end_wait(0, (1_500_000, 1_000_000 + 20_000 * slice_ns), crate::timeline::testing::task(3, "waiter"));
    let (html, data) = page_of(&stream.events);
    let lines = data["page"]["time_lines"].as_array().unwrap();
    let shares = lines[0]["shares"].as_array().unwrap();
    assert_eq!((lines.len(), shares.iter().map(|share| share[2].as_u64().unwrap()).sum::<u64>()), (1, 19_500_000));
    assert!(shares.iter().all(|share| share[3].as_array().unwrap().len() == 1), "{shares:?}");
    assert!(html.len() < 60_000, "{}", html.len());
}
