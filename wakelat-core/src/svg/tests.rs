use std::collections::BTreeMap;

use quick_xml::{Reader, events::Event};
use wakelat_common::Class;

use super::{picture::STYLE, *};
use crate::{
    aggregate::{Groups, key::Key},
    report::{LatencyFrom, Report},
    timeline::{
        Breakdown, Timeline, event,
        testing::{EventStream, idle, task},
    },
    wait::Comm,
    why::testing::{self, TestNames},
};

/// The name and the attributes of an element.
type Element = (String, BTreeMap<String, String>);

/// The elements of a picture by name and attributes, and its texts. Fails if it is not well-formed.
fn parsed(svg: &str) -> (Vec<Element>, Vec<String>) {
    let mut reader = Reader::from_str(svg);
    let (mut elements, mut texts, mut open) = (Vec::new(), vec![String::new()], 0);
    loop {
        match reader.read_event().unwrap() {
            event @ (Event::Start(_) | Event::Empty(_)) => {
                open += i32::from(matches!(event, Event::Start(_)));
                let (Event::Start(start) | Event::Empty(start)) = event else { unreachable!() };
                let attribute = |attribute: quick_xml::events::attributes::Attribute| {
                    let name = String::from_utf8(attribute.key.as_ref().to_vec()).unwrap();
                    (name, attribute.unescape_value().unwrap().into_owned())
                };
                let attributes = start.attributes().map(|each| attribute(each.unwrap())).collect();
                elements.push((String::from_utf8(start.name().as_ref().to_vec()).unwrap(), attributes));
                texts.push(String::new());
            }
            Event::End(_) => open -= 1,
            Event::Text(text) => texts.last_mut().unwrap().push_str(&text.decode().unwrap()),
            Event::GeneralRef(name) => {
                let character = match &*name.decode().unwrap() {
                    "lt" => '<',
                    "gt" => '>',
                    "amp" => '&',
                    "quot" => '"',
                    "apos" => '\'',
                    other => panic!("{other}"),
                };
                texts.last_mut().unwrap().push(character);
            }
            Event::Eof => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(open, 0, "{svg}");
    (elements, texts)
}

/// The sums of an attribute of the bars by another one.
fn sums(svg: &str, of: &str, by: &[&str]) -> BTreeMap<Vec<String>, u128> {
    let mut sums = BTreeMap::new();
    for (_, attributes) in parsed(svg).0 {
        if let Some(value) = attributes.get(of) {
            let key = by.iter().map(|name| attributes[*name].clone()).collect();
            *sums.entry(key).or_default() += value.parse::<u128>().unwrap();
        }
    }
    sums
}

/// The waits of these events, and their report.
fn waits(events: &[event::Event], by: &[Key]) -> (Vec<Breakdown>, Report) {
    let (mut timeline, mut groups) = (Timeline::default(), Groups::new(by.to_vec(), false, 100));
    let mut breakdowns = Vec::new();
    for event in events {
        if let Some(breakdown) = timeline.push(event) {
            groups.record(&breakdown.ended_wait.wait);
            breakdowns.push(breakdown.clone());
        }
    }
    (breakdowns, Report { groups: groups.report(&TestNames, None), ..Report::default() })
}

#[test]
fn the_bars_of_a_distribution_have_all_waits() {
    for (name, stream) in testing::stories() {
        let (breakdowns, report) = waits(&stream.events, &[]);
        let drawn: u128 = sums(&distribution(&report).unwrap(), "data-waits", &[]).into_values().sum();
        assert_eq!(drawn, breakdowns.len() as u128, "{name}");
    }
}

#[test]
fn the_bars_of_causes_have_all_time_of_each_class_and_component() {
    for (name, stream) in testing::stories() {
        let summary = testing::summary(&stream.events, LatencyFrom::default(), &[Key::Comm]);
        let svg = causes(&summary).unwrap();
        let drawn = sums(&svg, "data-ns", &["data-of", "data-class", "data-component"]);
        for (of, groups) in [("class", &summary.classes), ("group", &summary.groups)] {
            let mut expected = BTreeMap::new();
            for group in groups {
                for (component, sum) in group.sums.components().into_iter().filter(|(_, sum)| sum.ns > 0) {
                    let key = [of, group.class.name(), component.name()].map(str::to_owned).to_vec();
                    *expected.entry(key).or_default() += sum.ns;
                }
            }
            let drawn: BTreeMap<_, _> = drawn.clone().into_iter().filter(|(key, _)| key[0] == of).collect();
            assert_eq!(drawn, expected, "{name}");
        }
    }
}

#[test]
fn the_parts_of_a_time_line_add_up_to_the_latency() {
    for (name, stream) in testing::stories() {
        for breakdown in waits(&stream.events, &[]).0 {
            let svg = time_line(&breakdown, LatencyFrom::default(), &[], &TestNames).unwrap();
            let drawn: u128 = sums(&svg, "data-ns", &[]).into_values().sum();
            assert_eq!(drawn, u128::from(breakdown.latency_ns), "{name}");
        }
    }
}

#[test]
fn threads_of_wakelat_are_marked() {
    let (breakdowns, _) = waits(&testing::beside_wakelat().events, &[]);
    let marked = |own_pids: &[u32]| {
        breakdowns.iter().any(|breakdown| {
            let svg = time_line(breakdown, LatencyFrom::default(), own_pids, &TestNames).unwrap();
            svg.contains("wakelat/8 (wakelat&apos;s own)")
        })
    };
    assert_eq!([marked(&[8]), marked(&[9])], [true, false]);
}

#[test]
fn pictures_of_one_hog() {
    let stream = testing::one_hog();
    let (breakdowns, report) = waits(&stream.events, &[]);
    let longest = breakdowns.iter().max_by_key(|breakdown| breakdown.latency_ns).unwrap();
    let summary = testing::summary(&stream.events, LatencyFrom::default(), &[Key::Comm]);
    insta::assert_snapshot!("distribution", distribution(&report).unwrap());
    insta::assert_snapshot!("causes", causes(&summary).unwrap());
    insta::assert_snapshot!("time_line", time_line(longest, LatencyFrom::default(), &[], &TestNames).unwrap());
}

#[test]
fn a_hostile_name_stays_text() {
    for name in ["</svg><x a=\"", "&lt;\u{1}'\u{fffe}\u{7f}"] {
        let mut stream = EventStream::default();
        let mut hostile = task(7, "x");
        hostile.comm = Comm::new(name.as_bytes());
        stream.switch(0, 1_000, hostile);
        stream.end_wait(0, (2_000, 9_000), hostile);
        stream.switch(0, 10_000, idle());
        let (breakdowns, report) = waits(&stream.events, &[Key::Comm]);
        let summary = testing::summary(&stream.events, LatencyFrom::default(), &[Key::Comm]);
        let shown = name.chars().next().unwrap();
        for svg in [
            distribution(&report).unwrap(),
            causes(&summary).unwrap(),
            time_line(&breakdowns[0], LatencyFrom::default(), &[], &TestNames).unwrap(),
        ] {
            let (elements, texts) = parsed(&svg);
            assert!(elements.iter().all(|(name, _)| name != "x"), "{svg}");
            assert!(texts.iter().any(|text| text.contains(shown)), "{svg}");
            assert!(svg.chars().all(|c| c == '\n' || (c >= ' ' && c != '\u{fffe}')), "{svg}");
        }
    }
}

#[test]
fn a_picture_without_waits_says_so() {
    let summary = testing::summary(&[], LatencyFrom::default(), &[]);
    for svg in [distribution(&Report::default()).unwrap(), causes(&summary).unwrap(), no_time_line().unwrap()] {
        let (elements, texts) = parsed(&svg);
        assert!(texts.iter().any(|text| text.contains("No wait was measured")), "{svg}");
        assert_eq!((&*elements[0].0, &*elements[0].1["role"]), ("svg", "img"));
        assert_eq!((&*elements[1].0, &*elements[2].0), ("title", "desc"));
    }
}

#[test]
fn each_class_of_waits_has_bars_of_its_own() {
    let mut stream = EventStream::default();
    stream.switch(0, 1_000, task(1, "a"));
    stream.end_wait(0, (2_000, 9_000), task(2, "b"));
    stream.end_wait(0, (9_500, 20_000), task(3, "c")).wait.class = Class::Preempted;
    let (_, report) = waits(&stream.events, &[]);
    let heads = parsed(&distribution(&report).unwrap()).1;
    for head in ["wakeup latency · 1 wait", "preempted-task latency · 1 wait"] {
        assert!(heads.iter().any(|text| text.contains(head)), "{head}: {heads:?}");
    }
}

#[test]
fn the_colours_are_those_of_the_page() {
    let page = include_str!("../html_report/page.css");
    let colours = STYLE.split('#').skip(1).map(|rest| &rest[..6]);
    for colour in colours {
        assert!(page.contains(colour), "{colour}");
    }
}
