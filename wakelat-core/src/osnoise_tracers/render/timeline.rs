//! The timeline of an activation: a row for each cause, above an axis from the due time of the timer to
//! the last measurement, as in the diagram of Documentation/trace/timerlat-tracer.rst.

use super::{
    super::{
        explain::{CauseShare, ExplainedActivation, LatencyCause, ShareSpan},
        record::TimerlatContext,
    },
    labels,
};
use crate::render::{style::Style, timeline, units};

/// Appends the rows and the axis to `out`. The figures of the rows are unrounded, so that they add up to
/// the latency.
pub fn draw(one: &ExplainedActivation, style: &Style, out: &mut String) {
    let rows: Vec<timeline::TimelineRow> = one.shares.iter().map(|share| row(one, share, style)).collect();
    let mut marks = vec![(0, "due".to_owned())];
    for context in TimerlatContext::ALL {
        if let Some(measured) = one.activation.measured(context) {
            let latency = units::duration(measured.latency_ns, style.unicode);
            marks.push((measured.latency_ns, format!("{} {latency}", context.name())));
        }
    }
    timeline::draw(&rows, one.latency_ns, marks, style, out);
}

fn row(one: &ExplainedActivation, share: &CauseShare, style: &Style) -> timeline::TimelineRow {
    let spans = match share.cause {
        LatencyCause::Unexplained => gaps(one),
        _ => share.spans.clone(),
    };
    timeline::TimelineRow {
        name: labels::cause(&share.cause, style),
        ns: share.ns,
        spans: spans.iter().map(|span| timeline::TimelineSpan { from_ns: span.from_ns, to_ns: span.to_ns }).collect(),
        rank: rank(&share.cause),
    }
}

/// The interrupt level of a cause: a higher one interrupts a lower one.
fn rank(cause: &LatencyCause) -> u8 {
    match cause {
        LatencyCause::Nmi => 4,
        LatencyCause::TimerIrq(..) | LatencyCause::Irq(..) => 3,
        LatencyCause::Softirq(_) => 2,
        LatencyCause::Unexplained => 0,
        _ => 1,
    }
}

/// The spans that no cause covers.
fn gaps(one: &ExplainedActivation) -> Vec<ShareSpan> {
    let mut spans: Vec<ShareSpan> = one.shares.iter().flat_map(|share| share.spans.iter().copied()).collect();
    spans.sort_by_key(|span| span.from_ns);
    let mut gaps = Vec::new();
    let mut end = 0;
    for span in spans.into_iter().chain([ShareSpan { from_ns: one.latency_ns, to_ns: one.latency_ns }]) {
        if span.from_ns > end {
            gaps.push(ShareSpan { from_ns: end, to_ns: span.from_ns });
        }
        end = end.max(span.to_ns);
    }
    gaps
}
