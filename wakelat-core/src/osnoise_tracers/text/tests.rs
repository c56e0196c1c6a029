use std::io::{self, BufReader, Read};

use super::*;
use crate::osnoise_tracers::{
    fixtures,
    record::{OsnoisePeriod, TimerlatContext},
};
use crate::wait::Comm;

fn items(text: &str) -> Vec<Result<TraceItem, TraceParseError>> {
    let mut trace = TraceReader::new(text.as_bytes());
    let mut all = Vec::new();
    while let Some(item) = trace.next().unwrap() {
        all.push(item);
    }
    all
}

fn event(line: &str) -> TimerlatEvent {
    match &items(line)[..] {
        [Ok(TraceItem::Record(record))] => record.event.clone(),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn every_line_of_the_documentation_is_read() {
    let counts = fixtures::DOCUMENTATION.map(|text| {
        let all = items(text);
        assert!(all.iter().all(|item| matches!(item, Ok(TraceItem::Record(_)))), "{all:?}");
        all.len()
    });
    assert_eq!(counts, [8, 5, 7]);
}

#[test]
fn every_event_of_every_capture_is_read() {
    for (name, text) in fixtures::CAPTURES {
        let expected = text.lines().filter(|line| {
            line.contains("] ") && line.contains("-") && {
                let fields: Vec<&str> = line.split_whitespace().collect();
                fields.iter().any(|field| field.starts_with('[') && field.len() == 5) && !line.starts_with('[')
            }
        });
        let all = items(text);
        let records = all.iter().filter(|item| matches!(item, Ok(TraceItem::Record(_)))).count();
        assert_eq!(records, expected.count(), "{name}");
        let broken =
            all.iter().filter_map(|item| item.as_ref().err()).filter(|error| error.kind != TraceErrorKind::Foreign);
        assert_eq!(broken.count(), 0, "{name}");
    }
}

#[test]
fn a_name_may_contain_anything() {
    let line = "  a-1 [0] x: y-42      (     40) [001] d.h1.  54.029328: irq_noise: my disk: 2:19 start 54.000000001 duration 5 ns";
    let [Ok(TraceItem::Record(record))] = &items(line)[..] else { panic!() };
    assert_eq!(
        record.task.unwrap(),
        crate::osnoise_tracers::record::TracedTask { tid: 42, comm: Comm::new(b"a-1 [0] x: y") }
    );
    assert_eq!((record.cpu, record.at_ns), (1, 54_029_328_000));
    let expected =
        TimerlatEvent::IrqNoise { vector: 19, desc: "my disk: 2".to_owned(), start_ns: 54_000_000_001, duration_ns: 5 };
    assert_eq!(record.event, expected);
}

#[test]
fn every_event_is_read() {
    let head = "          <idle>-0       [000] d.h1    54.029328:";
    let span = "start 1.000000002 duration 3 ns";
    let (start_ns, duration_ns) = (1_000_000_002, 3);
    let timerlat = |context| TimerlatEvent::Timerlat { seq: 12, context, latency_ns: 932 };
    let osnoise = OsnoisePeriod {
        runtime_ns: 1_000_000_000,
        noise_ns: 250_000_000,
        max_single_ns: 9_000,
        hw: 1,
        nmi: 2,
        irq: 3,
        softirq: 4,
        thread: 5,
    };
    let cases = [
        ("#12    context    irq timer_latency       932 ns".to_owned(), timerlat(TimerlatContext::Irq)),
        ("#12    context thread timer_latency       932 ns".to_owned(), timerlat(TimerlatContext::Thread)),
        ("#12    context user-ret timer_latency       932 ns".to_owned(), timerlat(TimerlatContext::User)),
        ("timerlat_sample: timer_latency=932 seqnum=12 context=2".to_owned(), timerlat(TimerlatContext::User)),
        (format!("softirq_noise:   NET_RX:3 {span}"), TimerlatEvent::SoftirqNoise { vector: 3, start_ns, duration_ns }),
        (format!("nmi_noise: {span}"), TimerlatEvent::NmiNoise { start_ns, duration_ns }),
        (
            format!("thread_noise: kworker/u9:0:87 {span}"),
            TimerlatEvent::ThreadNoise { tid: 87, comm: Comm::new(b"kworker/u9:0"), start_ns, duration_ns },
        ),
        (
            format!("sample_threshold: {span} interference 7"),
            TimerlatEvent::SampleThreshold { start_ns, duration_ns, interference: 7 },
        ),
        (
            "1000000     250000  75.00000       9      1      2      3      4      5".to_owned(),
            TimerlatEvent::Osnoise(osnoise),
        ),
        (
            "osnoise_sample: runtime=1000000 noise=250000 max_sample=9 hw_count=1 irq_count=3 nmi_count=2 \
             softirq_count=4 thread_count=5"
                .to_owned(),
            TimerlatEvent::Osnoise(osnoise),
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(event(&format!("{head} {body}")), expected);
    }
}

#[test]
fn losses_are_parsed() {
    let all = items("CPU:3 [LOST 12 EVENTS]\nCPU:1 [LOST EVENTS]\n# entries-in-buffer/entries-written: 10/34   #P:8\n");
    let expected = [
        TraceItem::Lost { cpu: 3, events: Some(12) },
        TraceItem::Lost { cpu: 1, events: None },
        TraceItem::Overwritten(24),
    ];
    assert_eq!(all.into_iter().map(Result::unwrap).collect::<Vec<_>>(), expected);
}

#[test]
fn a_malformed_line_is_an_error_and_the_next_line_is_parsed() {
    let good = "          <idle>-0       [000] d.h1    54.029328: #1     context    irq timer_latency       932 ns";
    let text = format!("hello\n{good}\n{}\n{good}\n<idle>-0 [000] d.h1", &good[..good.len() - 6]);
    let all = items(&text);
    let errors: Vec<_> = all.iter().filter_map(|item| item.as_ref().err()).map(ToString::to_string).collect();
    assert_eq!(all.len(), 5);
    assert_eq!(
        errors,
        [
            "line 1: `hello` is not an event; expected `TASK-PID [CPU] FLAGS TIMESTAMP: EVENT`",
            "line 3: `<idle>-0       [000] d.h1    54.029328: #1     context    ir…` is truncated or malformed; expected \
             `#ID context irq|thread|user-ret timer_latency NS ns`",
            "line 5: `<idle>-0 [000] d.h1` is not an event; expected `TASK-PID [CPU] FLAGS TIMESTAMP: EVENT`",
        ]
    );
}

#[test]
fn other_events_are_skipped_with_their_stacks() {
    let head = "          <idle>-0       [000] d.h1    54.029328:";
    let text = format!(
        "{head} sched_wakeup: comm=x pid=1 prio=120 target_cpu=000\n{head} <user stack trace>\n => <0x7f00>\n\
         {head} <stack trace>\n => delay_tsc\n => <0xffff1000>\n"
    );
    let all: Vec<_> = items(&text).into_iter().map(Result::unwrap).collect();
    assert_eq!(all[..2], [TraceItem::Other, TraceItem::Other]);
    let TraceItem::Record(TimerlatRecord { event: TimerlatEvent::Stack { frames, .. }, .. }) = &all[2] else {
        panic!("{all:?}")
    };
    assert_eq!(frames[..], [KernelFrame::Symbol("delay_tsc".to_owned()), KernelFrame::Address(0xffff_1000)]);
}

#[test]
fn a_number_that_is_too_large_is_an_error() {
    for stamp in ["99999999999999999999.000000", "18446744073.999999"] {
        let line = format!("<idle>-0 [000] d.h1 {stamp}: nmi_noise: start 1.000000001 duration 1 ns");
        assert!(items(&line)[0].is_err(), "{line}");
    }
}

/// Reads to the end, or to an error.
fn read_all(input: impl Read) -> io::Result<usize> {
    let (mut trace, mut records) = (TraceReader::new(BufReader::new(input)), 0);
    while let Some(item) = trace.next()? {
        records += usize::from(item.is_ok());
    }
    Ok(records)
}

#[test]
fn endless_input_without_a_trace_is_an_error() {
    const LINE: &[u8] =
        b"timerlat/5-1035 [005] .......   548.771104: #402268 context thread timer_latency     39960 ns\n";
    // Like `/dev/zero`, one line without an end; and like `/dev/urandom`, arbitrary lines, here after a
    // trace.
    let noise = [&[0xa5; 4_095][..], b"\n"].concat().repeat(5_000);
    for error in [read_all(io::repeat(0)), read_all(LINE.chain(&noise[..]))].map(|read| read.unwrap_err()) {
        assert!(error.to_string().contains("no trace event in 16 MiB"), "{error}");
    }
    // Long logs between the lines of a trace are not an error.
    let log = &noise[..noise.len() / 2];
    assert_eq!(read_all(LINE.chain(log).chain(LINE).chain(log).chain(LINE)).unwrap(), 3);
}
