//! Decodes records of the trace buffer by the `format` files of the running kernel. Pure, and never panics,
//! whatever the bytes.

use std::collections::HashMap;

use super::local_clock::LocalClock;
use wakelat_core::osnoise_tracers::record::{KernelFrame, OsnoisePeriod, TimerlatContext, TimerlatEvent, comm};
use wakelat_core::wait::Comm;
use wakelat_kernel::event_format::{EventFormat, FieldLocation};

/// The layouts of the records to decode, by event ID.
#[derive(Clone, Debug, Default)]
pub struct Layouts(HashMap<u16, (Kind, EventFormat)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Timerlat,
    Osnoise,
    Irq,
    Softirq,
    Nmi,
    Thread,
    Threshold,
    Stack,
}

/// The events to decode, as directories below `events`.
pub const EVENTS: [&str; 8] = [
    "ftrace/timerlat",
    "ftrace/osnoise",
    "osnoise/irq_noise",
    "osnoise/softirq_noise",
    "osnoise/nmi_noise",
    "osnoise/thread_noise",
    "osnoise/sample_threshold",
    "ftrace/kernel_stack",
];

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedRecord {
    /// The TID of the thread that was running.
    pub tid: u32,
    /// The event.
    pub event: TimerlatEvent,
}

impl Layouts {
    /// Adds a layout. Ignores the layouts of other events.
    pub fn add(&mut self, format: EventFormat) {
        let kind = match format.name.as_str() {
            "timerlat" => Kind::Timerlat,
            "osnoise" => Kind::Osnoise,
            "irq_noise" => Kind::Irq,
            "softirq_noise" => Kind::Softirq,
            "nmi_noise" => Kind::Nmi,
            "thread_noise" => Kind::Thread,
            "sample_threshold" => Kind::Threshold,
            "kernel_stack" => Kind::Stack,
            _ => return,
        };
        if let Ok(id) = u16::try_from(format.id) {
            self.0.insert(id, (kind, format));
        }
    }

    /// Decodes a record of `cpu` at `at_ns`. `None` if it is of another event, or too short for its layout.
    pub fn decode(&self, cpu: u32, at_ns: u64, record: &[u8], clock: &mut LocalClock) -> Option<DecodedRecord> {
        let id = u16::from_ne_bytes(record.get(..2)?.try_into().ok()?);
        let (kind, format) = self.0.get(&id)?;
        let fields = Fields { format, record };
        let mut interference = || {
            let (start_ns, duration_ns) = (fields.number("start")?, fields.number("duration")?);
            Some((clock.start(cpu, at_ns, start_ns, duration_ns), duration_ns))
        };
        let event = match kind {
            Kind::Timerlat => TimerlatEvent::Timerlat {
                seq: fields.number("seqnum")?,
                context: TimerlatContext::of(fields.number("context")?)?,
                latency_ns: fields.number("timer_latency")?,
            },
            Kind::Osnoise => TimerlatEvent::Osnoise(OsnoisePeriod {
                runtime_ns: nanoseconds(fields.number("runtime")?),
                noise_ns: nanoseconds(fields.number("noise")?),
                max_single_ns: nanoseconds(fields.number("max_sample")?),
                hw: fields.number("hw_count")?,
                nmi: fields.number("nmi_count")?,
                irq: fields.number("irq_count")?,
                softirq: fields.number("softirq_count")?,
                thread: fields.number("thread_count")?,
            }),
            Kind::Irq => {
                let (start_ns, duration_ns) = interference()?;
                let (vector, desc) = (fields.signed("vector")?, fields.text("desc")?);
                TimerlatEvent::IrqNoise { vector, desc, start_ns, duration_ns }
            }
            Kind::Softirq => {
                let (start_ns, duration_ns) = interference()?;
                TimerlatEvent::SoftirqNoise { vector: fields.signed("vector")?, start_ns, duration_ns }
            }
            Kind::Nmi => {
                let (start_ns, duration_ns) = interference()?;
                TimerlatEvent::NmiNoise { start_ns, duration_ns }
            }
            Kind::Thread => {
                let (start_ns, duration_ns) = interference()?;
                let (tid, comm) = (fields.signed("pid")?.cast_unsigned(), fields.comm("comm")?);
                TimerlatEvent::ThreadNoise { tid, comm, start_ns, duration_ns }
            }
            Kind::Threshold => {
                let (start_ns, duration_ns) = interference()?;
                TimerlatEvent::SampleThreshold { start_ns, duration_ns, interference: fields.number("interference")? }
            }
            Kind::Stack => TimerlatEvent::Stack { seq: None, frames: fields.frames()? },
        };
        Some(DecodedRecord { tid: fields.signed("common_pid")?.cast_unsigned(), event })
    }
}

/// Converts µs to ns. Samples of osnoise are in whole microseconds (`time_to_us`,
/// kernel/trace/trace_osnoise.c).
pub fn nanoseconds(us: u64) -> u64 {
    us.saturating_mul(1000)
}

struct Fields<'a> {
    format: &'a EventFormat,
    record: &'a [u8],
}

impl Fields<'_> {
    fn bytes(&self, name: &str) -> Option<&[u8]> {
        let field = self.format.field(name)?;
        let at = field.offset as usize;
        let inline = self.record.get(at..at + field.size as usize)?;
        if field.location == FieldLocation::Inline {
            return Some(inline);
        }
        let word = u32::from_ne_bytes(inline.try_into().ok()?) as usize;
        let base = if field.location == FieldLocation::RelLoc { at + inline.len() } else { 0 };
        let begin = base + (word & 0xffff);
        self.record.get(begin..begin + (word >> 16))
    }

    fn number(&self, name: &str) -> Option<u64> {
        let bytes = self.bytes(name)?;
        match bytes.len() {
            4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
            8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    fn signed(&self, name: &str) -> Option<i32> {
        Some(i32::from_ne_bytes(self.bytes(name)?.try_into().ok()?))
    }

    fn text(&self, name: &str) -> Option<String> {
        let text = self.bytes(name)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    fn comm(&self, name: &str) -> Option<Comm> {
        Some(comm(self.bytes(name)?))
    }

    /// Decodes a stack. `size` is the number of addresses that follow; the field `caller` has their offset,
    /// but not their number.
    fn frames(&self) -> Option<Vec<KernelFrame>> {
        const WORD: usize = size_of::<usize>();
        let count = usize::try_from(self.signed("size")?).ok()?;
        let begin = self.format.field("caller")?.offset as usize;
        let words = self.record.get(begin..)?.chunks_exact(WORD).take(count);
        let addresses = words.map(|word| usize::from_ne_bytes(word.try_into().unwrap_or_default()));
        // The kernel may end the list with all bits set (`ULONG_MAX`, kernel/trace/trace_output.c).
        Some(addresses.take_while(|address| *address != usize::MAX).map(|at| KernelFrame::Address(at as u64)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osnoise_tracers::fixtures;
    use crate::osnoise_tracers::page::PageLayout;
    use wakelat_core::osnoise_tracers::{
        record::TimerlatRecord,
        text::{TraceItem, TraceReader},
    };

    /// Removes what the text reports differently from the record: the clock of a start, and the names in a
    /// stack.
    fn comparable(event: TimerlatEvent) -> TimerlatEvent {
        match event {
            TimerlatEvent::IrqNoise { vector, desc, duration_ns, .. } => {
                TimerlatEvent::IrqNoise { vector, desc, start_ns: 0, duration_ns }
            }
            TimerlatEvent::SoftirqNoise { vector, duration_ns, .. } => {
                TimerlatEvent::SoftirqNoise { vector, start_ns: 0, duration_ns }
            }
            TimerlatEvent::NmiNoise { duration_ns, .. } => TimerlatEvent::NmiNoise { start_ns: 0, duration_ns },
            TimerlatEvent::ThreadNoise { tid, comm, duration_ns, .. } => {
                TimerlatEvent::ThreadNoise { tid, comm, start_ns: 0, duration_ns }
            }
            TimerlatEvent::Stack { frames, .. } => {
                TimerlatEvent::Stack { seq: None, frames: vec![KernelFrame::Address(0); frames.len()] }
            }
            other => other,
        }
    }

    #[test]
    fn pages_of_real_kernels_decode_to_the_records_in_the_kernels_text() {
        for (name, file, text) in fixtures::PAGES {
            let (header, formats, pages) = fixtures::pages(file);
            let form = PageLayout::parse(header).unwrap();
            let mut layouts = Layouts::default();
            formats.into_iter().for_each(|format| layouts.add(EventFormat::parse(format).unwrap()));
            let mut clock = LocalClock::default();
            let mut read = Vec::new();
            for page in pages.chunks(form.size) {
                for (at_ns, record) in form.read(page).unwrap().records {
                    let decoded = layouts.decode(0, at_ns, record, &mut clock).unwrap();
                    // The text has whole microseconds, rounded (`ns2usecs`, kernel/trace/trace.c).
                    read.push(((at_ns + 500) / 1000, decoded.tid, comparable(decoded.event)));
                }
            }
            let mut expected = Vec::new();
            let mut trace = TraceReader::new(text.as_bytes());
            while let Some(one) = trace.next().unwrap() {
                if let Ok(TraceItem::Record(TimerlatRecord { at_ns, task, event, .. })) = one {
                    expected.push((at_ns / 1000, task.map_or(0, |task| task.tid), comparable(event)));
                }
            }
            // The pages have the oldest records; the text has more.
            expected.truncate(read.len());
            assert!(read.len() > 20, "{name}");
            assert_eq!(read, expected, "{name}");
        }
    }
}
