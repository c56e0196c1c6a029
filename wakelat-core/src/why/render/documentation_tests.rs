//! Compares docs/output.md with what is written, so that neither can change without the other.

use crate::{
    aggregate::key::Key,
    render::output_page::{all_paths, documented, example, parsed},
    report::LatencyFrom,
    why::testing::{one_round, report, summary},
};

const TITLE: &str = "Analysis: `wakelat.why/1`";

/// The run that docs/output.md shows.
fn written() -> String {
    let summary = summary(&one_round().events, LatencyFrom::Wakeup, &[Key::Comm]);
    let mut out = Vec::new();
    super::json(&summary, &report(&summary), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_example_is_what_is_written() {
    assert_eq!(example(TITLE), parsed(&written()), "written: {}", written());
}

#[test]
fn every_field_is_documented_and_every_documented_field_is_written() {
    assert_eq!(documented(TITLE), all_paths(&parsed(&written())));
}
