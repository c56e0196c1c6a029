//! Takes records from the ring buffers, as waits and events.

use anyhow::Result;

use super::{Run, clock::monotonic_ns, program_settings, stop_reason::StopReason};
use crate::{
    collect::{Collector, DrainExtent},
    config::Priority,
};
use wakelat_common::Class;
use wakelat_core::{
    decode::decode,
    timeline::event::{Event, EventKind},
    wait::Wait,
};

/// Records between two looks at what else is due. To take them is about a millisecond's work, which is one turn of a task
/// on an overloaded machine.
const AT_ONCE: usize = 1_024;

impl Run<'_> {
    /// Takes the records that have settled; later ones wait for the next call.
    pub(super) fn drain(&mut self, collector: &mut Collector) -> Result<()> {
        let extent = DrainExtent::Settled { now_ns: monotonic_ns(), limit: usize::MAX };
        self.drain_to(extent, collector).map(|_| ())
    }

    /// Takes so few of the records that have settled that the run soon notices what else is due. Returns whether there
    /// may be more.
    pub(super) fn drain_some(&mut self, collector: &mut Collector) -> Result<bool> {
        let extent = DrainExtent::Settled { now_ns: monotonic_ns(), limit: AT_ONCE };
        Ok(self.drain_to(extent, collector)? >= AT_ONCE)
    }

    /// Takes the records of `extent` from the ring buffers. Returns how many it took.
    pub(super) fn drain_to(&mut self, extent: DrainExtent, collector: &mut Collector) -> Result<usize> {
        let only_views = self.only_views_take_events();
        let mut taken = 0;
        let drained = collector.drain(extent, |record| {
            taken += 1;
            if taken % AT_ONCE == 0 && self.schedule.is_over(monotonic_ns()) {
                self.raise_priority()?;
            }
            self.take_record(record, only_views)
        });
        // Only an I/O error comes from the output.
        let (records, written) = match drained.map_err(|error| error.downcast::<std::io::Error>()) {
            Ok(records) => (records, self.output.send()),
            Err(Ok(error)) => (0, self.output.classify_error(error)),
            Err(Err(other)) => return Err(other),
        };
        self.names.resolve_new_cgroups();
        self.check_written(written)?;
        Ok(records)
    }

    /// Takes a record. `only_views`: nothing but the view needs the events ([`Self::only_views_take_events`]).
    fn take_record(&mut self, record: &[u8], only_views: bool) -> Result<()> {
        let Some(decoder) = &mut self.decoder else { return self.take_wait(&decode(record)?).map(|_| ()) };
        let unix_offset_ns = self.windows.unix_offset_ns();
        let mut class = None;
        let is_taken = only_views
            && !self.output.is_full()
            && decoder.offer_switch(record, |known| {
                class = Class::from_u8(known.record.class);
                self.view.known_switch(known, unix_offset_ns)
            });
        if is_taken {
            class.into_iter().for_each(|class| self.windows.count_received(class));
            return Ok(());
        }
        let mut event = decoder.decode(record)?;
        self.take_event(&mut event)?;
        if let Some(decoder) = &mut self.decoder {
            decoder.reuse(event);
        }
        Ok(())
    }

    /// Gives the reader a real-time priority, once the window has ended: the reader can no longer delay a measured task,
    /// and takes what is left soon, however many tasks want its CPU. Returns the priority in force, if there is one.
    pub(super) fn raise_priority(&self) -> Result<Option<Priority>> {
        program_settings::raise_priority(self.rt_priority, true)
    }

    /// Whether nothing but the view needs the next events: neither groups, nor components, nor a threshold.
    fn only_views_take_events(&self) -> bool {
        self.windows.only_counts_waits() && self.timeline.is_none() && self.threshold_ns.is_none()
    }

    /// Records a wait. Returns whether it is in the report: waits of the warm-up are not.
    fn take_wait(&mut self, wait: &Wait) -> Result<bool> {
        if !self.windows.record(wait) {
            return Ok(false);
        }
        self.names.learn_from(wait, self.by);
        if self.view.shows_waits() {
            self.names.learn(wait.tid, wait.comm);
            self.names.learn(wait.prev_tid, wait.prev_comm);
            wait.waker_tid.into_iter().for_each(|tid| self.names.refresh(tid));
            if self.output.is_full() {
                self.windows.count_unwritten();
            } else {
                self.view.wait(wait, self.windows.unix_offset_ns(), &self.names, &mut self.output)?;
            }
        }
        if self.threshold_ns.is_some_and(|threshold_ns| wait.latency_ns >= threshold_ns) {
            self.windows.count_over();
            if let Some(trigger) = &mut self.trigger
                && trigger.fire(wait, self.windows.unix_offset_ns())
            {
                self.stop = Some(StopReason::Threshold);
            }
        }
        Ok(true)
    }

    fn take_event(&mut self, event: &mut Event) -> Result<()> {
        if let EventKind::Switch(switch) = &mut event.kind {
            for task in [&switch.prev, &switch.next] {
                self.names.learn(task.tid, task.comm);
            }
            if let Some(ended) = &switch.ended_wait
                && !self.take_wait(&ended.wait)?
            {
                switch.ended_wait = None;
            }
        }
        if let Some(breakdown) = self.timeline.as_mut().and_then(|timeline| timeline.push(event)) {
            self.windows.record_breakdown(breakdown);
        }
        if self.output.is_full() || self.view.is_full() {
            // The view does not see it, like an event that found no room in the ring buffer.
            self.windows.count_unwritten();
            return Ok(());
        }
        Ok(self.view.event(event, self.windows.unix_offset_ns(), &self.names, &mut self.output)?)
    }
}
