use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::{
    aggregate::key::Key,
    report::From,
    sink::{Style, style::NARROWEST, text::width},
    timeline::part::Part,
    why::fixtures::{self, report, stories, summary},
};

fn unicode(width: usize) -> Style {
    Style { unicode: true, width, ..Style::default() }
}

#[test]
fn every_story_is_told() {
    for (name, stream) in stories() {
        let summary = summary(&stream.events, From::Wakeup, &[]);
        assert_snapshot!(name, text(&summary, &report(&summary), &unicode(100)));
    }
}

#[test]
fn groups_have_a_line_each() {
    let mut events = fixtures::two_hogs().events;
    events.extend(fixtures::fifo_thread().events);
    let summary = summary(&events, From::Waking, &[Key::Comm]);
    assert_snapshot!("by_comm", text(&summary, &report(&summary), &unicode(100)));
    assert_snapshot!("by_comm_60", text(&summary, &report(&summary), &unicode(60)));
    assert_snapshot!(
        "by_comm_ascii_narrow",
        text(&summary, &report(&summary), &Style { width: NARROWEST, ..Style::default() })
    );
}

#[test]
fn losses_are_shown() {
    let mut stream = fixtures::one_hog();
    // In the midst of a wait, and some more.
    stream.events.drain(11..21);
    stream.events.drain(2..3);
    stream.events.drain(31..32);
    let summary = summary(&stream.events, From::Wakeup, &[]);
    assert!(summary.told.lost > 0);
    assert_snapshot!("losses", text(&summary, &report(&summary), &unicode(80)));
}

#[test]
fn nothing_stands_out_where_waits_are_short() {
    let mut stream = crate::timeline::fixtures::Stream::default();
    let (a, b) = (crate::timeline::fixtures::task(1, "a"), crate::timeline::fixtures::task(2, "b"));
    for round in 0..1_000u64 {
        stream.ends(0, (round * 10_000 + 8_000, round * 10_000 + 10_000), if round % 2 == 0 { a } else { b });
    }
    assert!(summary(&stream.events, From::Wakeup, &[]).findings.is_empty());
}

#[test]
fn each_story_finds_its_cause_first() {
    for (name, part) in [
        ("one_hog", Part::Same),
        ("two_hogs", Part::Same),
        ("fifo_thread", Part::Higher),
        ("idle_cpu", Part::Idle),
        ("throttled", Part::Throttled),
        ("migrated", Part::Same),
        ("softirqs", Part::Softirq),
        ("storm", Part::Same),
        ("worker", Part::Same),
        ("stacks", Part::Same),
    ] {
        let summary = summary(&stories()[name].events, From::Wakeup, &[]);
        assert_eq!(summary.findings.first().map(|finding| finding.cause.part), Some(part), "{name}");
    }
}

proptest! {
    #[test]
    fn no_line_is_too_long(columns in 40..200usize, ascii: bool) {
        let style = Style { width: columns, unicode: !ascii, ..Style::default() };
        for (name, stream) in stories() {
            let summary = summary(&stream.events, From::Waking, &[Key::Comm, Key::Cgroup]);
            for line in text(&summary, &report(&summary), &style).lines() {
                prop_assert!(width(line) <= columns, "{name}, {columns}: {line}");
            }
        }
    }
}
