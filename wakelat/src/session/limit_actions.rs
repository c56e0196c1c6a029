//! Carries out what the overhead limit requires.

use anyhow::Result;

use super::{Run, clock::monotonic_ns, overhead::monitor::OverheadAction};
use crate::collect::Collector;

impl Run<'_> {
    /// Pauses, detaches the programs, or lets them measure again.
    pub(super) fn apply(&mut self, step: OverheadAction, collector: &mut Collector) -> Result<()> {
        match step {
            OverheadAction::Nothing => {}
            OverheadAction::NewPeriod(period) => {
                // What was measured until now belongs to the previous period.
                let at_ns = monotonic_ns();
                self.take_all(at_ns, collector)?;
                self.windows.end_period(at_ns);
                self.windows.begin_period(period, at_ns);
            }
            OverheadAction::Pause(pause) => {
                let pausing = |collector: &Collector| self.overhead.pause(collector, pause);
                let paused_at_ns = collector.pause_and(monotonic_ns(), pause.detach, pausing)?;
                self.take_all(monotonic_ns(), collector)?;
                self.windows.end_period(paused_at_ns);
                self.windows.count_paused(&collector.take_pending()?);
                self.overhead.paused(collector)?;
            }
            OverheadAction::Detach => {
                collector.detach_for_pause()?;
                self.overhead.paused(collector)?;
            }
            OverheadAction::Resume => {
                let period = self.overhead.resume(collector)?;
                period.into_iter().for_each(|period| self.windows.begin_period(period, monotonic_ns()));
            }
        }
        Ok(())
    }
}
