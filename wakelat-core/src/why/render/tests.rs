use crate::aggregate::space_saving::Evicted;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::{
    aggregate::key::Key,
    render::{Style, style::MIN_WIDTH, text_line::width},
    report::LatencyFrom,
    timeline::component::Component,
    why::testing::{self, report, stories, summary},
};

fn unicode(width: usize) -> Style {
    Style { unicode: true, width, ..Style::default() }
}

#[test]
fn every_scenario_is_rendered() {
    for (name, stream) in stories() {
        let summary = summary(&stream.events, LatencyFrom::Wakeup, &[]);
        assert_snapshot!(name, text(&summary, &report(&summary), true, &unicode(100)));
    }
}

#[test]
fn every_group_has_a_line() {
    let mut events = testing::two_hogs().events;
    events.extend(testing::fifo_thread().events);
    let summary = summary(&events, LatencyFrom::Waking, &[Key::Comm]);
    assert_snapshot!("by_comm", text(&summary, &report(&summary), true, &unicode(100)));
    assert_snapshot!("by_comm_60", text(&summary, &report(&summary), true, &unicode(60)));
    assert_snapshot!(
        "by_comm_ascii_narrow",
        text(&summary, &report(&summary), true, &Style { width: MIN_WIDTH, ..Style::default() })
    );
}

#[test]
fn an_overview_has_the_causes_of_the_longest_waits() {
    for width in [100, 60, MIN_WIDTH] {
        let mut events = testing::two_hogs().events;
        events.extend(testing::fifo_thread().events);
        let summary = summary(&events, LatencyFrom::Waking, &[]);
        let text = overview(&summary, &report(&summary), "wakelat demo", &unicode(width));
        assert!(text.lines().all(|line| crate::render::text_line::width(line) <= width), "{text}");
        assert_snapshot!(format!("overview_{width}"), text);
    }
}

#[test]
fn threads_of_wakelat_are_marked_everywhere() {
    let summary = testing::summary_of_own(&testing::beside_wakelat().events);
    let text = text(&summary, &report(&summary), true, &unicode(200));
    // The components, the timeline and the interferers.
    assert_eq!(text.matches("wakelat/8 (wakelat's own)").count(), 3, "{text}");
    assert!(text.contains("==> wakelat (wakelat's own)"), "{text}");
    assert!(text.contains("wakelat's own reader (the cost of measuring)"), "{text}");
    assert!(text.contains("remedy: record fewer events"), "{text}");
}

#[test]
fn losses_are_shown() {
    let mut stream = testing::one_hog();
    // Drops events in the middle of a wait, and some others.
    stream.events.drain(11..21);
    stream.events.drain(2..3);
    stream.events.drain(31..32);
    let summary = summary(&stream.events, LatencyFrom::Wakeup, &[]);
    assert!(summary.events.lost > 0);
    assert_snapshot!("losses", text(&summary, &report(&summary), true, &unicode(80)));
}

#[test]
fn short_waits_have_no_findings() {
    let mut stream = crate::timeline::testing::EventStream::default();
    let (a, b) = (crate::timeline::testing::task(1, "a"), crate::timeline::testing::task(2, "b"));
    for round in 0..1_000u64 {
        stream.end_wait(0, (round * 10_000 + 8_000, round * 10_000 + 10_000), if round % 2 == 0 { a } else { b });
    }
    assert!(summary(&stream.events, LatencyFrom::Wakeup, &[]).findings.is_empty());
}

#[test]
fn the_first_finding_of_each_scenario_is_its_cause() {
    for (name, component) in [
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
        assert_eq!(summary.findings.first().map(|finding| finding.cause.component), Some(component), "{name}");
    }
}

#[test]
fn without_details_a_report_begins_with_its_findings_and_fits_one_screen() {
    let summary = summary(&testing::one_hog().events, LatencyFrom::Waking, &[]);
    let text = text(&summary, &report(&summary), false, &unicode(100));
    assert!(text.starts_with("▸ "), "{text}");
    assert!(text.lines().count() <= 30, "{text}");
    assert_snapshot!("without_details", text);
}

#[test]
fn instants_are_times_of_day_with_timestamps() {
    let summary = summary(&testing::one_hog().events, LatencyFrom::Wakeup, &[Key::Comm]);
    let instants = |timestamps| {
        let text = text(&summary, &report(&summary), true, &Style { timestamps, ..unicode(100) });
        let instants = text.split("ended at ").skip(1).map(|rest| rest[..12].to_owned());
        instants.collect::<Vec<_>>()
    };
    // The first instant is in the table of groups, the second in the title of the longest wait.
    assert_eq!(instants(false), ["123456.00400", "123456.00400"]);
    assert_eq!(instants(true), ["22:13:20.004", "22:13:20.004"]);
}

#[test]
fn evicted_entries_are_shown_with_their_sum() {
    let mut summary = summary(&testing::one_hog().events, LatencyFrom::Wakeup, &[]);
    let whole = text(&summary, &report(&summary), true, &unicode(100));
    assert!(!whole.contains("others:"), "{whole}");
    summary.classes[0].sums.keep_largest(1);
    let evicted = |count| Evicted { sum: 1_200_000, count, error: 30_000 };
    (summary.interferers_evicted, summary.causes_evicted) = (evicted(2), evicted(3));
    (summary.work_items_evicted, summary.fork_bursts_evicted) = (evicted(4), evicted(5));
    let text = text(&summary, &report(&summary), true, &unicode(100));
    for line in [
        "  2 others: 420.0 µs; times above are at most 240.0 µs too low",
        "  2 others: 1.2 ms; times above are at most 30.0 µs too low",
        "note: work functions of kworkers: 4 others: 1.2 ms; times above are at most 30.0 µs too low",
        "note: names of tasks that forked: 5 others: 1.2 ms; times above are at most 30.0 µs too low",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_terminal(columns in 40..200usize, ascii: bool) {
        let style = Style { width: columns, unicode: !ascii, ..Style::default() };
        for (name, stream) in stories() {
            let summary = summary(&stream.events, LatencyFrom::Waking, &[Key::Comm, Key::Cgroup]);
            for line in text(&summary, &report(&summary), true, &style).lines() {
                prop_assert!(width(line) <= columns, "{name}, {columns}: {line}");
            }
        }
    }
}
