//! Makes a recording of events from a measurement, with the stacks that it takes.

use std::io;

use crate::{collect::Collector, session::stack_symbolizer::StackSymbolizer};
use wakelat_core::{
    aggregate::key::Names,
    recording::{FrameSink, Recorder},
    report::Report,
    timeline::event::{Event, EventKind},
};

/// Makes a recording of events from a measurement, with the stacks that it takes.
#[derive(Default)]
pub struct EventRecorder {
    /// Makes the frames.
    pub frames: Recorder,
    /// The symbolizer, once the programs are loaded, if stacks are requested.
    stacks: Option<StackSymbolizer>,
}

impl EventRecorder {
    /// Takes the stacks of a measurement whose programs are loaded. What is recorded names their functions at once.
    pub fn loaded(&mut self, collector: &mut Collector) {
        self.stacks = collector.take_stacks().map(StackSymbolizer::new);
        self.stacks.iter().for_each(StackSymbolizer::read_kernel_symbols);
    }

    /// Writes an event, with what may be unknown later.
    ///
    /// # Errors
    /// Errors of `out`, as for all methods.
    pub fn event(
        &mut self,
        event: &Event,
        unix_offset_ns: i64,
        names: &dyn Names,
        out: &mut dyn FrameSink,
    ) -> io::Result<()> {
        self.frames.set_unix_offset(unix_offset_ns, out)?;
        if let (EventKind::Stack(stack), Some(code)) = (&event.kind, &mut self.stacks) {
            let stack = code.numbered(stack);
            self.frames.stacks(&stack, &*code, out)?;
            let numbered = Event { cpu: event.cpu, seq: event.seq, kind: EventKind::Stack(stack) };
            return self.frames.event(&numbered, names, out);
        }
        self.frames.event(event, names, out)
    }

    /// Marks the end of the warm-up.
    pub fn warmed_up(&mut self, out: &mut dyn FrameSink) -> io::Result<()> {
        if let Some(stacks) = &mut self.stacks {
            stacks.counts()?;
        }
        self.frames.warmed_up(out)
    }

    /// Writes the report of the run so far, or of all of it. Makes room for further stacks.
    pub fn report(&mut self, report: &Report, is_last: bool, out: &mut dyn FrameSink) -> io::Result<()> {
        if let Some(stacks) = &mut self.stacks {
            let counts = stacks.counts()?;
            self.frames.stack_counts(&counts, out)?;
            // The recording has the names of all of them.
            stacks.remove_unused(|_| ());
        }
        if is_last { self.frames.end(report, out) } else { self.frames.reading(report, out) }
    }
}
