//! Parses the part of a line that follows its head.
//!
//! The formats are those of `trace_timerlat_print` and `trace_osnoise_print` (kernel/trace/trace_output.c)
//! and of the `TP_printk` in include/trace/events/osnoise.h, Linux 5.17 to 7.2.

use super::super::record::{KernelFrame, OsnoisePeriod, TimerlatContext, TimerlatEvent};
use crate::{
    trace_line::{number, seconds},
    wait::Comm,
};

/// The parsed part of a line that follows its head.
pub(super) enum EventBody {
    Event(TimerlatEvent),
    /// A kernel stack. Its functions are on the lines that follow.
    Stack,
    Other,
    /// A malformed event, with the expected format.
    Broken(&'static str),
}

const TIMERLAT: &str = "#ID context irq|thread|user-ret timer_latency NS ns";
const TIMERLAT_SAMPLE: &str = "timerlat_sample: timer_latency=NS seqnum=ID context=0|1|2";
const OSNOISE: &str = "RUNTIME NOISE PERCENT MAX HW NMI IRQ SIRQ THREAD";
const OSNOISE_SAMPLE: &str = "osnoise_sample: runtime=US noise=US max_sample=US hw_count=N irq_count=N nmi_count=N \
                              softirq_count=N thread_count=N";
const IRQ: &str = "irq_noise: NAME:VECTOR start S.NS duration NS ns";
const SOFTIRQ: &str = "softirq_noise: NAME:VECTOR start S.NS duration NS ns";
const NMI: &str = "nmi_noise: start S.NS duration NS ns";
const THREAD: &str = "thread_noise: NAME:PID start S.NS duration NS ns";
const SAMPLE: &str = "sample_threshold: start S.NS duration NS ns interference N";

pub(super) fn read(body: &[u8]) -> EventBody {
    let or = |event: Option<TimerlatEvent>, expected| event.map_or(EventBody::Broken(expected), EventBody::Event);
    if body == b"<stack trace>" {
        return EventBody::Stack;
    }
    if body.starts_with(b"#") {
        return or(timerlat(body), TIMERLAT);
    }
    if body.first().is_some_and(u8::is_ascii_digit) {
        return or(osnoise(body), OSNOISE);
    }
    if body.windows(STOPPED.len()).any(|window| window == STOPPED) {
        return EventBody::Event(TimerlatEvent::Stopped { reason: String::from_utf8_lossy(body).into_owned() });
    }
    let Some(colon) = body.iter().position(|byte| *byte == b':') else { return EventBody::Other };
    let (name, text) = (&body[..colon], body[colon + 1..].trim_ascii());
    match name {
        b"irq_noise" => or(irq(text), IRQ),
        b"softirq_noise" => or(softirq(text), SOFTIRQ),
        b"nmi_noise" => or(nmi(text), NMI),
        b"thread_noise" => or(thread(text), THREAD),
        b"sample_threshold" => or(sample(text), SAMPLE),
        b"timerlat_sample" => or(timerlat_sample(text), TIMERLAT_SAMPLE),
        b"osnoise_sample" => or(osnoise_sample(text), OSNOISE_SAMPLE),
        _ => EventBody::Other,
    }
}

/// The text that `osnoise_stop_tracing` prints.
const STOPPED: &[u8] = b"stop tracing hit on cpu";

/// Parses ` => FUNCTION`, or ` => <ADDRESS>` if the function has no name.
pub(super) fn frame(line: &[u8]) -> Option<KernelFrame> {
    let name = line.trim_ascii().strip_prefix(b"=>")?.trim_ascii();
    let name = String::from_utf8_lossy(name);
    let address = name.trim_start_matches('<').trim_end_matches('>').strip_prefix("0x").unwrap_or("");
    Some(match u64::from_str_radix(address, 16) {
        Ok(address) => KernelFrame::Address(address),
        Err(_) => KernelFrame::Symbol(name.into_owned()),
    })
}

/// Splits a text into exactly `N` words. `None` if it has more or fewer.
fn words<const N: usize>(text: &[u8]) -> Option<[&[u8]; N]> {
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).take(N + 1).collect();
    words.try_into().ok()
}

/// Parses a number that is the whole text.
fn whole(text: &[u8]) -> Option<u64> {
    number(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

fn timerlat(body: &[u8]) -> Option<TimerlatEvent> {
    let [seq, b"context", context, b"timer_latency", latency, b"ns"] = words::<6>(body)? else { return None };
    let context = match context {
        b"irq" => TimerlatContext::Irq,
        b"thread" => TimerlatContext::Thread,
        b"user-ret" => TimerlatContext::User,
        _ => return None,
    };
    Some(TimerlatEvent::Timerlat { seq: whole(seq.strip_prefix(b"#")?)?, context, latency_ns: whole(latency)? })
}

fn field(word: &[u8], name: &str) -> Option<u64> {
    whole(word.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?)
}

fn timerlat_sample(text: &[u8]) -> Option<TimerlatEvent> {
    let [latency, seq, context] = words(text)?;
    let context = TimerlatContext::of(field(context, "context")?)?;
    Some(TimerlatEvent::Timerlat { seq: field(seq, "seqnum")?, context, latency_ns: field(latency, "timer_latency")? })
}

fn us(number: u64) -> Option<u64> {
    number.checked_mul(1_000)
}

fn osnoise(body: &[u8]) -> Option<TimerlatEvent> {
    let [runtime, noise, percent, max, hw, nmi, irq, softirq, thread] = words(body)?;
    // The share follows from the other two. It only distinguishes such a line from others that begin with a
    // digit.
    let (_, rest) = number(percent)?;
    whole(rest.strip_prefix(b".")?)?;
    Some(TimerlatEvent::Osnoise(OsnoisePeriod {
        runtime_ns: us(whole(runtime)?)?,
        noise_ns: us(whole(noise)?)?,
        max_single_ns: us(whole(max)?)?,
        hw: whole(hw)?,
        nmi: whole(nmi)?,
        irq: whole(irq)?,
        softirq: whole(softirq)?,
        thread: whole(thread)?,
    }))
}

fn osnoise_sample(text: &[u8]) -> Option<TimerlatEvent> {
    let [runtime, noise, max, hw, irq, nmi, softirq, thread] = words(text)?;
    Some(TimerlatEvent::Osnoise(OsnoisePeriod {
        runtime_ns: us(field(runtime, "runtime")?)?,
        noise_ns: us(field(noise, "noise")?)?,
        max_single_ns: us(field(max, "max_sample")?)?,
        hw: field(hw, "hw_count")?,
        nmi: field(nmi, "nmi_count")?,
        irq: field(irq, "irq_count")?,
        softirq: field(softirq, "softirq_count")?,
        thread: field(thread, "thread_count")?,
    }))
}

/// Parses `NAME:NUMBER start S.NS duration NS ns` into the name, which may contain any bytes, the number,
/// the start and the duration.
fn named(text: &[u8]) -> Option<(&[u8], i32, u64, u64)> {
    const START: &[u8] = b" start ";
    let at = text.windows(START.len()).rposition(|window| window == START)?;
    let (start_ns, duration_ns) = span(&text[at + 1..], None)?;
    let colon = text[..at].iter().rposition(|byte| *byte == b':')?;
    let digits = &text[colon + 1..at];
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((text[..colon].trim_ascii_start(), number, start_ns, duration_ns))
}

/// Parses `start S.NS duration NS ns`, followed by the given name and its value, if any.
fn span(text: &[u8], last: Option<(&[u8], &mut u64)>) -> Option<(u64, u64)> {
    let (start, duration) = match last {
        None => match words::<5>(text)? {
            [b"start", start, b"duration", duration, b"ns"] => (start, duration),
            _ => return None,
        },
        Some((name, value)) => match words::<7>(text)? {
            [b"start", start, b"duration", duration, b"ns", is, number] if is == name => {
                *value = whole(number)?;
                (start, duration)
            }
            _ => return None,
        },
    };
    let (start_ns, []) = seconds(start)? else { return None };
    Some((start_ns, whole(duration)?))
}

fn irq(text: &[u8]) -> Option<TimerlatEvent> {
    let (name, vector, start_ns, duration_ns) = named(text)?;
    Some(TimerlatEvent::IrqNoise { vector, desc: String::from_utf8_lossy(name).into_owned(), start_ns, duration_ns })
}

fn softirq(text: &[u8]) -> Option<TimerlatEvent> {
    let (_, vector, start_ns, duration_ns) = named(text)?;
    Some(TimerlatEvent::SoftirqNoise { vector, start_ns, duration_ns })
}

fn nmi(text: &[u8]) -> Option<TimerlatEvent> {
    let (start_ns, duration_ns) = span(text, None)?;
    Some(TimerlatEvent::NmiNoise { start_ns, duration_ns })
}

fn thread(text: &[u8]) -> Option<TimerlatEvent> {
    let (name, tid, start_ns, duration_ns) = named(text)?;
    Some(TimerlatEvent::ThreadNoise { tid: u32::try_from(tid).ok()?, comm: Comm::new(name), start_ns, duration_ns })
}

fn sample(text: &[u8]) -> Option<TimerlatEvent> {
    let mut interference = 0;
    let (start_ns, duration_ns) = span(text, Some((b"interference", &mut interference)))?;
    Some(TimerlatEvent::SampleThreshold { start_ns, duration_ns, interference })
}
