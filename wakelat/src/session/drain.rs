//! Takes records from the ring buffers, as waits and events.

use anyhow::Result;

use super::{Run, clock::monotonic_ns, stop_reason::StopReason};
use crate::collect::{Collector, DrainExtent};
use wakelat_common::Class;
use wakelat_core::{
    decode::decode,
    timeline::event::{Event, EventKind},
    wait::Wait,
};

impl Run<'_> {
    /// Takes the records that have settled; later ones wait for the next call.
    pub(super) fn drain(&mut self, collector: &mut Collector) -> Result<()> {
        self.drain_to(DrainExtent::Settled { now_ns: monotonic_ns() }, collector).map(|_| ())
    }

    /// Takes the records of `extent` from the ring buffers. Returns how many it took.
    pub(super) fn drain_to(&mut self, extent: DrainExtent, collector: &mut Collector) -> Result<usize> {
        let only_views = self.only_views_take_events();
        let drained = collector.drain(extent, |record| match &mut self.decoder {
            Some(decoder) => {
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
            None => self.take_wait(&decode(record)?).map(|_| ()),
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
