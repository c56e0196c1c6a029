//! Writes records in the text format of the tracer, for `--trace FILE`, as `cat trace` would show them, so
//! that `--from FILE` can explain them later. Pure.

use std::io::{self, Write};
use wakelat_core::softirq::softirq_name;

use wakelat_core::osnoise_tracers::record::{OsnoisePeriod, TimerlatContext, TimerlatEvent, TimerlatRecord};

/// Writes `record` as one or more lines. The flags of a line are dots, because the sources do not all
/// report them.
pub fn write(record: &TimerlatRecord, out: &mut dyn Write) -> io::Result<()> {
    let TimerlatRecord { at_ns, cpu, task, event } = record;
    let task = match task {
        Some(task) if task.tid == 0 => "<idle>-0".to_owned(),
        Some(task) => format!("{}-{}", task.comm, task.tid),
        None => "<...>-0".to_owned(),
    };
    let (seconds, microseconds) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000 / 1000);
    write!(out, "{task:>23} [{cpu:03}] ..... {seconds:>5}.{microseconds:06}: ")?;
    let span = |start_ns: &u64, duration_ns: &u64| {
        format!("start {}.{:09} duration {duration_ns} ns", start_ns / 1_000_000_000, start_ns % 1_000_000_000)
    };
    match event {
        TimerlatEvent::Timerlat { seq, context, latency_ns } => {
            let context = match context {
                TimerlatContext::Irq => "irq",
                TimerlatContext::Thread => "thread",
                TimerlatContext::User => "user-ret",
            };
            writeln!(out, "#{seq:<5} context {context:>6} timer_latency {latency_ns:>9} ns")
        }
        TimerlatEvent::Osnoise(OsnoisePeriod {
            runtime_ns,
            noise_ns,
            max_single_ns,
            hw,
            nmi,
            irq,
            softirq,
            thread,
        }) => {
            // The columns of the tracer: µs, the share left to the workload, counts (`trace_osnoise_print`,
            // trace_output.c).
            let (runtime, noise, max) = (runtime_ns / 1000, noise_ns / 1000, max_single_ns / 1000);
            // In a corrupt buffer, the runtime may be centuries, which would overflow 64 bits.
            let left = u128::from(runtime.saturating_sub(noise)) * 10_000_000;
            let share = left.checked_div(u128::from(runtime)).unwrap_or(0);
            let share = format!("{:3}.{:05}", share / 100_000, share % 100_000);
            writeln!(
                out,
                "{runtime:<10} {noise:>10} {share} {max:>7} {hw:>6} {nmi:>6} {irq:>6} {softirq:>6} {thread:>6}"
            )
        }
        TimerlatEvent::IrqNoise { vector, desc, start_ns, duration_ns } => {
            writeln!(out, "irq_noise: {desc}:{vector} {}", span(start_ns, duration_ns))
        }
        TimerlatEvent::SoftirqNoise { vector, start_ns, duration_ns } => {
            let name = softirq_name(*vector).map_or_else(|| format!("{vector:#x}"), str::to_owned);
            writeln!(out, "softirq_noise: {name:>8}:{vector} {}", span(start_ns, duration_ns))
        }
        TimerlatEvent::NmiNoise { start_ns, duration_ns } => {
            writeln!(out, "nmi_noise: {}", span(start_ns, duration_ns))
        }
        TimerlatEvent::ThreadNoise { tid, comm, start_ns, duration_ns } => {
            writeln!(out, "thread_noise: {:>8}:{tid} {}", comm.to_string(), span(start_ns, duration_ns))
        }
        TimerlatEvent::SampleThreshold { start_ns, duration_ns, interference } => {
            writeln!(out, "sample_threshold: {} interference {interference}", span(start_ns, duration_ns))
        }
        TimerlatEvent::Stack { frames, .. } => {
            writeln!(out, "<stack trace>")?;
            frames.iter().try_for_each(|frame| writeln!(out, " => {frame}"))
        }
        TimerlatEvent::Stopped { reason } => writeln!(out, "stop tracing hit on cpu {cpu}: {reason}"),
    }
}

/// Writes that `events` records of `cpu` were lost, as `cat trace_pipe` does before the next record of the CPU.
pub fn write_loss(cpu: u32, events: u64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "CPU:{cpu} [LOST {events} EVENTS]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakelat_core::osnoise_tracers::{
        record::{KernelFrame, TracedTask, comm},
        text::{TraceItem, TraceReader},
    };

    #[test]
    fn records_have_the_text_format_of_the_tracer() {
        let task = Some(TracedTask { tid: 1035, comm: comm(b"timerlat/5") });
        let record = |event| TimerlatRecord { at_ns: 548_771_104_500, cpu: 5, task, event };
        let text = |event| {
            let mut out = Vec::new();
            write(&record(event), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let event = TimerlatEvent::Timerlat { seq: 402_268, context: TimerlatContext::Thread, latency_ns: 39_960 };
        assert_eq!(
            text(event),
            "        timerlat/5-1035 [005] .....   548.771104: #402268 context thread timer_latency     39960 ns\n"
        );
        let (start_ns, duration_ns) = (548_771_085_017, 7139);
        let noise = text(TimerlatEvent::IrqNoise { vector: 21, desc: "qxl".to_owned(), start_ns, duration_ns });
        assert!(noise.ends_with(": irq_noise: qxl:21 start 548.771085017 duration 7139 ns\n"), "{noise}");
        let noise = text(TimerlatEvent::SoftirqNoise { vector: 3, start_ns, duration_ns });
        assert!(noise.ends_with(": softirq_noise:   NET_RX:3 start 548.771085017 duration 7139 ns\n"), "{noise}");
        let period = |runtime_ns, noise_ns| {
            text(TimerlatEvent::Osnoise(OsnoisePeriod { runtime_ns, noise_ns, ..OsnoisePeriod::default() }))
        };
        let usual = period(1_000_000_000, 250_000_000);
        assert!(usual.contains(": 1000000        250000  75.00000       0"), "{usual}");
        assert!(period(u64::MAX, 0).contains(" 100.00000 ") && period(0, 7_000).contains("   0.00000 "));
    }

    #[test]
    fn a_loss_is_read_back() {
        let mut text = Vec::new();
        write_loss(3, 12, &mut text).unwrap();
        let read = TraceReader::new(&text[..]).next().unwrap().unwrap();
        assert_eq!(read, Ok(TraceItem::Lost { cpu: 3, events: Some(12) }));
    }

    /// Its reader is that of saved traces of any origin, which knows the formats of the kernel.
    #[test]
    fn every_record_is_read_back() {
        let (start_ns, duration_ns) = (548_771_085_017, 7_139);
        let period = OsnoisePeriod {
            runtime_ns: 1_000_000_000,
            noise_ns: 250_000_000,
            max_single_ns: 9_000,
            hw: 1,
            nmi: 2,
            irq: 3,
            softirq: 4,
            thread: 5,
        };
        let timerlat = |context| TimerlatEvent::Timerlat { seq: 12, context, latency_ns: 39_960 };
        let frames = vec![KernelFrame::Symbol("schedule".to_owned()), KernelFrame::Address(0xffff_ffff_8100_0000)];
        let events = [
            timerlat(TimerlatContext::Irq),
            timerlat(TimerlatContext::Thread),
            timerlat(TimerlatContext::User),
            TimerlatEvent::Osnoise(period),
            TimerlatEvent::IrqNoise { vector: 21, desc: "my disk: 2".to_owned(), start_ns, duration_ns },
            TimerlatEvent::SoftirqNoise { vector: 3, start_ns, duration_ns },
            TimerlatEvent::NmiNoise { start_ns, duration_ns },
            TimerlatEvent::ThreadNoise { tid: 87, comm: comm(b"kworker/u9:0"), start_ns, duration_ns },
            TimerlatEvent::SampleThreshold { start_ns, duration_ns, interference: 7 },
            TimerlatEvent::Stack { seq: None, frames },
        ];
        let mut text = Vec::new();
        let record = |event| {
            let task = Some(TracedTask { tid: 1035, comm: comm(b"timerlat/5") });
            TimerlatRecord { at_ns: 548_771_104_000, cpu: 5, task, event }
        };
        events.iter().for_each(|event| write(&record(event.clone()), &mut text).unwrap());
        let mut reader = TraceReader::new(&text[..]);
        let read = std::iter::from_fn(|| reader.next().unwrap()).map(|item| match item.unwrap() {
            TraceItem::Record(record) => record,
            other => panic!("{other:?}"),
        });
        assert_eq!(read.collect::<Vec<_>>(), events.map(record));
    }
}
