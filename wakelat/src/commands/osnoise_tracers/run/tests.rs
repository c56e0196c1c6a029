use std::{
    io::{self, Write},
    path::Path,
};

use super::{super::held_records::MAX_HELD, *};
use crate::config::ThresholdAction;
use wakelat_core::osnoise_tracers::record::TimerlatContext;
use wakelat_tracefs::osnoise_tracers::Tracer;

/// Counts what a run passes to it.
#[derive(Default)]
struct Counting {
    records: usize,
    lost: LostByCpu,
}

impl Listener for Counting {
    fn record(&mut self, _: TimerlatRecord, _: &mut dyn Write) -> io::Result<()> {
        self.records += 1;
        Ok(())
    }

    fn lost(&mut self, cpu: u32, events: u64) {
        *self.lost.entry(cpu).or_default() += events;
    }

    fn interval(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _: &TracerRunInfo, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// The configuration of a run of timerlat that stops at a thread latency of 10 us, if `action` is to stop.
fn config(action: ThresholdAction) -> TracerConfig {
    let mut config = TracerConfig::new(Tracer::Timerlat);
    config.setup.stop_total_us = Some(10);
    config.setup.stops_in_kernel = action == ThresholdAction::Stop;
    config.action = action;
    config
}

/// A run on CPU 0.
fn run<'a>(config: &TracerConfig, listener: &'a mut dyn Listener) -> Run<'a> {
    let threshold = StopThresholds::of(&config.setup);
    Run {
        users: None,
        source: RecordSource::empty(),
        cutoff: ThresholdCutoff::at(threshold),
        threshold,
        trigger: (!config.stops_in_kernel()).then(|| ActionRunner::new(config.action.clone())),
        info: TracerRunInfo::default(),
        lost: LostByCpu::new(),
        is_lossy: false,
        failures: Vec::new(),
        saved: None,
        listener,
        stop: None,
        window_start: Some(WindowStart { at_ns: 0, missed: 0 }),
        held: HeldRecords::new(config.records_what_stops().then_some(0), threshold),
    }
}

fn latency(at_ns: u64, latency_ns: u64) -> TimerlatRecord {
    let event = TimerlatEvent::Timerlat { seq: 1, context: TimerlatContext::Thread, latency_ns };
    TimerlatRecord { at_ns, cpu: 0, task: None, event }
}

fn noise(at_ns: u64) -> TimerlatRecord {
    let event = TimerlatEvent::NmiNoise { start_ns: at_ns, duration_ns: 1 };
    TimerlatRecord { at_ns, cpu: 0, task: None, event }
}

#[test]
fn records_held_until_the_first_sample_are_bounded_and_those_dropped_are_lost() {
    let config = config(ThresholdAction::Stop);
    let mut listener = Counting::default();
    let mut output = Output::open(Some(Path::new("/dev/null"))).unwrap();
    let mut run = run(&config, &mut listener);
    let (full, last_ns) = (MAX_HELD as u64, MAX_HELD as u64 + 5);
    run.handle_records((1..=full).map(noise).collect(), None, &mut output).unwrap();
    run.handle_records((full + 1..=last_ns).map(noise).collect(), None, &mut output).unwrap();
    run.handle_records(vec![latency(last_ns + 1, 1)], None, &mut output).unwrap();
    run.handle_records(vec![latency(last_ns + 2, 1)], None, &mut output).unwrap();
    drop(run);
    assert_eq!((listener.records, listener.lost), (MAX_HELD + 2, LostByCpu::from([(0, 5)])));
}

#[test]
fn a_redraw_before_the_first_sample_lets_the_window_begin_anew() {
    let config = config(ThresholdAction::Stop);
    let mut listener = Counting::default();
    let mut output = Output::open(Some(Path::new("/dev/null"))).unwrap();
    let mut run = run(&config, &mut listener);
    run.handle_records(vec![noise(1)], None, &mut output).unwrap();
    run.interval(&mut output).unwrap();
    assert!(run.may_be_stopped_from_before(&[]).unwrap() && run.held.can_begin_anew());
    run.handle_records(vec![latency(2, 1)], None, &mut output).unwrap();
    run.interval(&mut output).unwrap();
    assert!(!run.may_be_stopped_from_before(&[]).unwrap() && !run.held.can_begin_anew());
    drop(run);
    assert_eq!(listener.records, 2);
}

#[test]
fn a_stop_at_a_record_that_was_lost_before_the_first_sample_ends_the_run() {
    let config = config(ThresholdAction::Stop);
    let mut listener = Counting::default();
    let mut output = Output::open(Some(Path::new("/dev/null"))).unwrap();
    let mut run = run(&config, &mut listener);
    run.handle_records(vec![noise(1)], None, &mut output).unwrap();
    assert!(run.may_be_stopped_from_before(&[]).unwrap());
    // The samples that BPF programs record after the stop, and a latency from before the window, show nothing.
    run.window_start = Some(WindowStart { at_ns: 1, missed: 0 });
    assert!(run.may_be_stopped_from_before(&[latency(2, 1), latency(0, 20_000)]).unwrap());
    assert!(!run.may_be_stopped_from_before(&[latency(2, 20_000)]).unwrap());
    run.is_lossy = true;
    assert!(!run.may_be_stopped_from_before(&[]).unwrap());
    assert_eq!(run.stopped_without_a_record(&config, false).unwrap(), StopReason::Threshold);
    assert!(run.failures.is_empty(), "{:?}", run.failures);
}

#[test]
fn a_latency_from_before_the_window_is_named_if_the_window_can_no_longer_begin_anew() {
    let config = config(ThresholdAction::Stop);
    let mut listener = Counting::default();
    let mut run = run(&config, &mut listener);
    assert_eq!(run.stopped_without_a_record(&config, true).unwrap(), StopReason::Done);
    assert!(run.failures[0].contains("a latency from before the window"), "{:?}", run.failures);
}

#[test]
fn an_action_that_fails_ends_the_run_with_its_result() {
    let config = config(ThresholdAction::Signal { signal: 0, pid: u32::MAX });
    let mut listener = Counting::default();
    let mut output = Output::open(Some(Path::new("/dev/null"))).unwrap();
    let mut run = run(&config, &mut listener);
    run.handle_records(vec![latency(1, 10_000), latency(2, 20_000)], None, &mut output).unwrap();
    assert_eq!(run.stop, Some(StopReason::Threshold));
    let failure = run.trigger.as_mut().unwrap().finish().unwrap_err().to_string();
    assert!(failure.contains("PID"), "{failure}");
    drop(run);
    assert_eq!(listener.records, 2);
}

#[test]
fn only_a_threshold_ends_the_run_as_a_threshold_does() {
    let with_threshold = config(ThresholdAction::Stop);
    let without = TracerConfig::new(Tracer::Timerlat);
    for (config, is_lossy, expected) in [
        (&without, false, StopReason::Done),
        (&without, true, StopReason::Done),
        (&with_threshold, false, StopReason::Done),
        // The record that reached the threshold may be among those that were lost.
        (&with_threshold, true, StopReason::Threshold),
    ] {
        let mut listener = Counting::default();
        let mut run = run(config, &mut listener);
        run.is_lossy = is_lossy;
        assert_eq!(run.stopped_without_a_record(config, false).unwrap(), expected);
        let is_failure = run.failures.iter().any(|why| why.contains("another process"));
        assert_eq!(is_failure, expected == StopReason::Done, "{:?}", run.failures);
    }
}

#[test]
fn a_noise_that_is_not_recorded_may_have_stopped_the_run() {
    let mut config = TracerConfig::new(Tracer::Osnoise);
    config.setup.stop_us = Some(10);
    let mut listener = Counting::default();
    assert_eq!(run(&config, &mut listener).stopped_without_a_record(&config, false).unwrap(), StopReason::Threshold);
    config.events.single_noises = true;
    assert_eq!(run(&config, &mut listener).stopped_without_a_record(&config, false).unwrap(), StopReason::Done);
}
