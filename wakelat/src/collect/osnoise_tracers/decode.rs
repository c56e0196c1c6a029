//! Decodes the records of the tracers' programs in the ring buffer. Pure, and never panics, whatever the bytes.

use wakelat_common::{
    osnoise_tracers::{TracerRecord, kind},
    record_bytes,
};
use wakelat_core::osnoise_tracers::record::{
    OsnoisePeriod, TimerlatContext, TimerlatEvent, TimerlatRecord, TracedTask, comm,
};
use wakelat_tracefs::osnoise_tracers::{comm_cache::ThreadNames, local_clock::LocalClock, record_decoder::nanoseconds};

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The length is not that of a record.
    Length(usize),
    /// The kind of the record is not known.
    Kind(u32),
    /// The context of the latency is not known.
    Context(i32),
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length(length) => {
                write!(f, "a record of `{length}` bytes in the ring buffer, expected {}", size_of::<TracerRecord>())
            }
            Self::Kind(kind) => write!(f, "a record of kind `{kind}` in the ring buffer, expected 16 to 22"),
            Self::Context(context) => write!(f, "a latency of context `{context}` in the ring buffer, expected 0 to 2"),
        }
    }
}

impl std::error::Error for RecordError {}

/// Decodes one record, which is a [`TracerRecord`].
pub fn decode(bytes: &[u8], clock: &mut LocalClock, threads: &mut ThreadNames) -> Result<TimerlatRecord, RecordError> {
    let record: TracerRecord = record_bytes::read(bytes).ok_or(RecordError::Length(bytes.len()))?;
    let TracerRecord { kind, cpu, at_ns, start_ns, duration_ns, extra, max_us, pid: tid, number, counts, .. } = record;
    let (ran, name) = (comm(&record.comm), &record.name);
    threads.learn(tid, ran);
    let mut start = || clock.start(cpu, at_ns, start_ns, duration_ns);
    let event = match kind {
        kind::IRQ => TimerlatEvent::IrqNoise { vector: number, desc: text(name), start_ns: start(), duration_ns },
        kind::SOFTIRQ => TimerlatEvent::SoftirqNoise { vector: number, start_ns: start(), duration_ns },
        kind::NMI => TimerlatEvent::NmiNoise { start_ns: start(), duration_ns },
        kind::THREAD => {
            TimerlatEvent::ThreadNoise { tid: number.cast_unsigned(), comm: comm(name), start_ns: start(), duration_ns }
        }
        kind::THRESHOLD => TimerlatEvent::SampleThreshold { start_ns: start(), duration_ns, interference: extra },
        kind::TIMERLAT => TimerlatEvent::Timerlat {
            seq: counts[0].into(),
            context: u64::try_from(number).ok().and_then(TimerlatContext::of).ok_or(RecordError::Context(number))?,
            latency_ns: duration_ns,
        },
        kind::OSNOISE => {
            let [hw, nmi, irq, softirq, thread] = counts.map(u64::from);
            let [runtime_ns, noise_ns, max_single_ns] = [extra, duration_ns, max_us].map(nanoseconds);
            TimerlatEvent::Osnoise(OsnoisePeriod { runtime_ns, noise_ns, max_single_ns, hw, nmi, irq, softirq, thread })
        }
        kind => return Err(RecordError::Kind(kind)),
    };
    Ok(TimerlatRecord { at_ns, cpu, task: Some(TracedTask { tid, comm: ran }), event })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use wakelat_core::osnoise_tracers::record::TimerlatContext;

    fn read(raw: &TracerRecord) -> Result<TimerlatRecord, RecordError> {
        decode(record_bytes::bytes(raw), &mut LocalClock::default(), &mut ThreadNames::default())
    }

    #[test]
    fn a_latency_is_read() {
        let mut raw = TracerRecord {
            kind: kind::TIMERLAT,
            cpu: 3,
            at_ns: 9,
            duration_ns: 39_960,
            number: 1,
            ..TracerRecord::default()
        };
        raw.counts[0] = 402_268;
        raw.comm[..10].copy_from_slice(b"timerlat/3");
        let record = read(&raw).unwrap();
        assert_eq!(
            record.event,
            TimerlatEvent::Timerlat { seq: 402_268, context: TimerlatContext::Thread, latency_ns: 39_960 }
        );
        assert_eq!(record.task, Some(TracedTask { tid: 0, comm: comm(b"timerlat/3") }));
    }

    #[test]
    fn an_interrupt_is_read_with_its_name() {
        let mut raw =
            TracerRecord { kind: kind::IRQ, at_ns: 900, start_ns: 500, duration_ns: 100, ..TracerRecord::default() };
        raw.name[..11].copy_from_slice(b"local_timer");
        let desc = "local_timer".to_owned();
        assert_eq!(
            read(&raw).unwrap().event,
            TimerlatEvent::IrqNoise { vector: 0, desc, start_ns: 800, duration_ns: 100 }
        );
    }

    #[test]
    fn bytes_that_are_not_a_record_are_rejected() {
        assert_eq!(read(&TracerRecord::default()), Err(RecordError::Kind(0)));
        assert_eq!(
            read(&TracerRecord { kind: kind::TIMERLAT, number: 3, ..TracerRecord::default() }),
            Err(RecordError::Context(3))
        );
        let short = decode(&[0; 127], &mut LocalClock::default(), &mut ThreadNames::default());
        assert_eq!(short, Err(RecordError::Length(127)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes, &mut LocalClock::default(), &mut ThreadNames::default());
        }
    }
}
