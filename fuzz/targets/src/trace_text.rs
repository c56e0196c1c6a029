//! The text of another tool's trace.

use wakelat_core::{recording::Frame, report::LatencyFrom, timeline::Timeline, trace_text::TraceText};

/// Translates any bytes as the text of a trace: nothing may panic, every wakeup and preemption is accounted for in every
/// report, and the components of every wait add up. Returns the number of events.
pub fn check(bytes: &[u8]) -> usize {
    let Ok(mut text) = TraceText::open(bytes) else { return 0 };
    assert_ne!(text.header().from, LatencyFrom::Queued);
    let mut timeline = Timeline::new(text.header().from);
    let mut events = 0;
    while let Some(frame) = text.frame().expect("reading from memory does not fail") {
        match frame {
            Frame::Event(event) => {
                events += 1;
                if let Some(breakdown) = timeline.push(&event) {
                    let sum: u64 = breakdown.shares.iter().map(|share| share.ns).sum();
                    assert_eq!(sum, breakdown.latency_ns);
                }
            }
            Frame::Reading(report) | Frame::End(report) => {
                let coverage = &report.coverage;
                assert_eq!(coverage.wakeups.unaccounted(), 0);
                assert_eq!(coverage.preemptions.map(|terms| terms.unaccounted()), Some(0));
                let skipped = coverage.text.as_ref().and_then(|text| text.first_skipped.as_deref());
                assert!(!skipped.is_some_and(|line| line.contains('\n')));
            }
            Frame::UnixOffset(0) | Frame::Task { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    events
}
