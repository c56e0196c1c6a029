//! The events that a run of a tracer records, depending on what it shows.

use wakelat_core::osnoise_tracers::render::{NoiseView, TimerlatView};

/// The events that a run records besides the samples of its tracer.
///
/// A record takes time, and the tracers measure that time too: a run records what its result needs, and
/// no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracerEvents {
    /// Interferences: NMIs, interrupts, softirqs and threads.
    pub interferences: bool,
    /// Single noises of the osnoise workload. The workload itself runs the probes on them
    /// (`trace_sample_threshold` in `run_osnoise`, kernel/trace/trace_osnoise.c, 5.14 to 7.2), so the
    /// time that one record takes is part of the next sample, and a noise of its own if it is longer
    /// than the noise threshold.
    pub single_noises: bool,
}

/// The tracepoints of interferences (include/trace/events/osnoise.h, from 5.14 on).
const INTERFERENCES: [&str; 4] = ["irq_noise", "softirq_noise", "nmi_noise", "thread_noise"];
/// The tracepoint of single noises.
const SINGLE_NOISE: &str = "sample_threshold";

impl TracerEvents {
    /// The events that `view` of timerlat needs. A `saved` trace has everything that explains an
    /// activation.
    pub fn of_timerlat(view: TimerlatView, saved: bool) -> Self {
        Self { interferences: saved || matches!(view, TimerlatView::Why | TimerlatView::Trace), single_noises: false }
    }

    /// The events that `view` of osnoise needs. The periods contain everything that `top` shows, unless
    /// single noises are `wanted` by themselves. A `saved` trace has everything.
    pub fn of_osnoise(view: NoiseView, saved: bool, wanted: bool) -> Self {
        Self { interferences: saved, single_noises: saved || wanted || view == NoiseView::Hist }
    }

    /// Whether nothing but the samples is recorded.
    pub fn is_samples_only(self) -> bool {
        self == Self::default()
    }

    /// The names of the tracepoints below `events/osnoise`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let interferences = INTERFERENCES.into_iter().filter(move |_| self.interferences);
        interferences.chain(self.single_noises.then_some(SINGLE_NOISE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_records_what_it_shows_and_no_more() {
        let of = |view, saved| TracerEvents::of_timerlat(view, saved).names().count();
        assert_eq!(
            [TimerlatView::Hist, TimerlatView::Top, TimerlatView::Why, TimerlatView::Trace].map(|view| of(view, false)),
            [0, 0, 4, 4]
        );
        assert_eq!([TimerlatView::Hist, TimerlatView::Top].map(|view| of(view, true)), [4, 4]);
    }

    #[test]
    fn osnoise_top_does_not_record_single_noises() {
        let of = |view, saved, wanted| TracerEvents::of_osnoise(view, saved, wanted).names().collect::<Vec<_>>();
        assert!(TracerEvents::of_osnoise(NoiseView::Top, false, false).is_samples_only());
        assert_eq!(of(NoiseView::Top, false, true), [SINGLE_NOISE]);
        assert_eq!(of(NoiseView::Hist, false, false), [SINGLE_NOISE]);
        assert_eq!(of(NoiseView::Top, true, false).len(), 5);
    }
}
