use crate::aggregate::bounded::Evicted;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::{
    aggregate::key::Key,
    report::LatencyFrom,
    sink::{Style, style::MIN_WIDTH, text::width},
    timeline::part::Component,
    why::fixtures::{self, report, stories, summary},
};

fn unicode(width: usize) -> Style {
    Style { unicode: true, width, ..Style::default() }
}

#[test]
fn every_story_is_told() {
    for (name, stream) in stories() {
        let summary = summary(&stream.events, LatencyFrom::Wakeup, &[]);
        assert_snapshot!(name, text(&summary, &report(&summary), &unicode(100)));
    }
}

#[test]
fn groups_have_a_line_each() {
    let mut events = fixtures::two_hogs().events;
    events.extend(fixtures::fifo_thread().events);
    let summary = summary(&events, LatencyFrom::Waking, &[Key::Comm]);
    assert_snapshot!("by_comm", text(&summary, &report(&summary), &unicode(100)));
    assert_snapshot!("by_comm_60", text(&summary, &report(&summary), &unicode(60)));
    assert_snapshot!(
        "by_comm_ascii_narrow",
        text(&summary, &report(&summary), &Style { width: MIN_WIDTH, ..Style::default() })
    );
}

#[test]
fn losses_are_shown() {
    let mut stream = fixtures::one_hog();
    // In the midst of a wait, and some more.
    stream.events.drain(11..21);
    stream.events.drain(2..3);
    stream.events.drain(31..32);
    let summary = summary(&stream.events, LatencyFrom::Wakeup, &[]);
    assert!(summary.events.lost > 0);
    assert_snapshot!("losses", text(&summary, &report(&summary), &unicode(80)));
}

#[test]
fn nothing_stands_out_where_waits_are_short() {
    let mut stream = crate::timeline::fixtures::EventStream::default();
    let (a, b) = (crate::timeline::fixtures::task(1, "a"), crate::timeline::fixtures::task(2, "b"));
    for round in 0..1_000u64 {
        stream.end_wait(0, (round * 10_000 + 8_000, round * 10_000 + 10_000), if round % 2 == 0 { a } else { b });
    }
    assert!(summary(&stream.events, LatencyFrom::Wakeup, &[]).findings.is_empty());
}

#[test]
fn each_story_finds_its_cause_first() {
    for (name, part) in [
        ("one_hog", Component::Same),
        ("two_hogs", Component::Same),
        ("fifo_thread", Component::Higher),
        ("idle_cpu", Component::Idle),
        ("throttled", Component::Throttled),
        ("migrated", Component::Same),
        ("softirqs", Component::Softirq),
        ("storm", Component::Same),
        ("worker", Component::Same),
        ("stacks", Component::Same),
    ] {
        let summary = summary(&stories()[name].events, LatencyFrom::Wakeup, &[]);
        assert_eq!(summary.findings.first().map(|finding| finding.cause.component), Some(part), "{name}");
    }
}

#[test]
fn instants_are_times_of_day_where_timestamps_are_asked_for() {
    let summary = summary(&fixtures::one_hog().events, LatencyFrom::Wakeup, &[Key::Comm]);
    let instants = |timestamps| {
        let text = text(&summary, &report(&summary), &Style { timestamps, ..unicode(100) });
        let instants = text.split("until ").skip(1).map(|rest| rest[..12].to_owned());
        instants.collect::<Vec<_>>()
    };
    // That of the group, and that of all.
    assert_eq!(instants(false), ["123456.00400", "123456.00400"]);
    assert_eq!(instants(true), ["22:13:20.004", "22:13:20.004"]);
}

#[test]
fn what_is_not_told_apart_is_shown_with_all_that_it_had() {
    let mut summary = summary(&fixtures::one_hog().events, LatencyFrom::Wakeup, &[]);
    let whole = text(&summary, &report(&summary), &unicode(100));
    assert!(!whole.contains("others:"), "{whole}");
    summary.classes[0].sums.keep_largest(1);
    let rest = |count| Evicted { sum: 1_200_000, count, error: 30_000 };
    (summary.interferers_evicted, summary.causes_evicted) = (rest(2), rest(3));
    (summary.work_items_evicted, summary.fork_bursts_evicted) = (rest(4), rest(5));
    let text = text(&summary, &report(&summary), &unicode(100));
    for line in [
        "  2 others: 420.0 µs; times above are at most 240.0 µs too low",
        "  2 others: 1.2 ms; times above are at most 30.0 µs too low",
        "note: functions of kworkers: 4 others: 1.2 ms; times above are at most 30.0 µs too low",
        "note: names that made tasks: 5 others: 1.2 ms; times above are at most 30.0 µs too low",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
}

proptest! {
    #[test]
    fn no_line_is_too_long(columns in 40..200usize, ascii: bool) {
        let style = Style { width: columns, unicode: !ascii, ..Style::default() };
        for (name, stream) in stories() {
            let summary = summary(&stream.events, LatencyFrom::Waking, &[Key::Comm, Key::Cgroup]);
            for line in text(&summary, &report(&summary), &style).lines() {
                prop_assert!(width(line) <= columns, "{name}, {columns}: {line}");
            }
        }
    }
}
