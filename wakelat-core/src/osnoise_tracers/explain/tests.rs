use proptest::prelude::*;

use super::*;
use crate::osnoise_tracers::{
    assemble::{Assembler, TimerLatency},
    fixtures,
    record::KernelFrame,
    text::{self, TraceItem, TraceReader},
};
use crate::wait::Comm;

fn explained(text: &str) -> Vec<ExplainedActivation> {
    let mut trace = TraceReader::new(text.as_bytes());
    let mut assembler = Assembler::default();
    let mut all = Vec::new();
    while let Some(item) = trace.next().unwrap() {
        if let Ok(TraceItem::Record(record)) = item {
            all.extend(assembler.push(record));
        }
    }
    all.extend(assembler.end());
    all.into_iter().filter_map(|activation| ExplainedActivation::new(activation, text::RESOLUTION_NS)).collect()
}

fn task(comm: &str, tid: u32) -> TracedTask {
    TracedTask { tid, comm: Comm::new(comm.as_bytes()) }
}

fn shares(explained: &ExplainedActivation) -> Vec<(LatencyCause, u64)> {
    explained.shares.iter().map(|share| (share.cause.clone(), share.ns)).collect()
}

#[test]
fn the_latencies_of_the_documentations_first_example() {
    let all = explained(fixtures::DOCUMENTATION[0]);
    let latencies: Vec<_> = all.iter().map(|one| (one.activation.cpu, one.activation.seq, one.latency_ns)).collect();
    assert_eq!(latencies, [(0, 1, 11_700), (1, 1, 9_820), (0, 2, 3_070), (1, 2, 4_351)]);
    // Without the noise tracepoints, only the delay of the interrupt is known.
    assert_eq!(shares(&all[0]), [(LatencyCause::IdleExit, 932), (LatencyCause::Unexplained, 11_700 - 932)]);
}

#[test]
fn the_shares_of_the_documentations_second_example() {
    let all = explained(fixtures::DOCUMENTATION[1]);
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].latency_ns, all[0].due_at_ns), (39_960, 548_771_064_658));
    let expected = [
        (LatencyCause::IrqDelay, 12_784),
        (LatencyCause::TimerIrq("local_timer".to_owned(), 236), 7_597),
        (LatencyCause::Irq("qxl".to_owned(), 21), 7_139),
        (LatencyCause::Blocking(task("cc1", 87882)), 9_909),
        (LatencyCause::Scheduling, 2_531),
    ];
    assert_eq!(shares(&all[0]), expected);
}

#[test]
fn the_shares_and_the_stack_of_the_documentations_third_example() {
    let all = explained(fixtures::DOCUMENTATION[2]);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].latency_ns, 859_978);
    let expected = [
        (LatencyCause::IrqDelay, 845),
        (LatencyCause::TimerIrq("local_timer".to_owned(), 236), 11_855),
        (LatencyCause::Blocking(task("insmod", 1026)), 838_681),
        (LatencyCause::Irq("local_timer".to_owned(), 236), 7_318),
        (LatencyCause::Scheduling, 1_279),
    ];
    let mut got = shares(&all[0]);
    got.sort();
    let mut sorted = expected.to_vec();
    sorted.sort();
    assert_eq!(got, sorted);
    assert!(all[0].activation.stack.contains(&KernelFrame::Symbol("dummy_load_1ms_pd_init".to_owned())));
}

#[test]
fn the_shares_of_every_captured_activation_add_up() {
    for (name, text) in fixtures::CAPTURES {
        let all = explained(text);
        // From 6.15 on, a tracepoint reports every latency a second time.
        let count = |what: &str| text.matches(what).count();
        assert_eq!(all.len(), count(" irq timer_latency").max(count("context=0")), "{name}");
        for one in &all {
            let sum: u64 = one.shares.iter().map(|share| share.ns).sum();
            assert_eq!(sum, one.latency_ns, "{name}: {one:?}");
        }
        // The tracer starts to record noise with the second activation of a CPU.
        let recorded = |one: &&ExplainedActivation| {
            let has = |is: fn(&Noise) -> bool| one.activation.noise.iter().any(is);
            has(|noise| matches!(noise.source, NoiseSource::Irq(..))) && one.activation.thread.is_some()
        };
        let whole: Vec<_> = all.iter().filter(recorded).collect();
        assert!(whole.len() >= 3, "{name}: {}", whole.len());
        for one in whole {
            let is = [
                |cause: &LatencyCause| matches!(cause, LatencyCause::TimerIrq(name, _) if name == "local_timer"),
                |cause: &LatencyCause| matches!(cause, LatencyCause::Blocking(_)),
                |cause: &LatencyCause| *cause == LatencyCause::Scheduling,
            ];
            assert!(is.iter().all(|is| one.sum_ns(is) > 0), "{name}: {one:?}");
        }
    }
}

fn noise(source: NoiseSource, start_ns: u64, duration_ns: u64) -> Noise {
    Noise { source, start_ns, duration_ns, at_ns: start_ns + duration_ns }
}

fn measured(at_ns: u64, latency_ns: u64, task: Option<TracedTask>) -> Option<TimerLatency> {
    Some(TimerLatency { at_ns, latency_ns, task })
}

fn timer(start_ns: u64, duration_ns: u64) -> Noise {
    noise(NoiseSource::Irq("local_timer".to_owned(), 236), start_ns, duration_ns)
}

#[test]
fn t29_a_negative_delay_counts_as_zero() {
    // On its own clock, the timer's interrupt starts before the timer is due.
    let activation = Activation {
        irq: measured(1_000, 100, Some(task("cc1", 7))),
        thread: measured(1_500, 700, None),
        noise: vec![timer(850, 200)],
        ..Activation::default()
    };
    let one = ExplainedActivation::new(activation, 1).unwrap();
    assert_eq!(
        shares(&one),
        [(LatencyCause::TimerIrq("local_timer".to_owned(), 236), 200), (LatencyCause::Unexplained, 500)]
    );
}

#[test]
fn t29_the_noise_of_a_thread_excludes_its_interrupts() {
    // A thread runs for 900 ns, 300 ns of which an interrupt of a disk takes.
    let thread = Noise { at_ns: 2_000, ..noise(NoiseSource::Thread(task("cc1", 7)), 1_100, 600) };
    let activation = Activation {
        irq: measured(1_010, 10, Some(task("cc1", 7))),
        thread: measured(2_050, 1_050, None),
        noise: vec![timer(1_000, 100), noise(NoiseSource::Irq("disk".to_owned(), 9), 1_500, 300), thread],
        ..Activation::default()
    };
    let one = ExplainedActivation::new(activation, 1).unwrap();
    assert_eq!(one.sum_ns(|cause| matches!(cause, LatencyCause::Blocking(_))), 600);
    assert_eq!(one.sum_ns(|cause| matches!(cause, LatencyCause::Irq(..))), 300);
    assert_eq!(one.sum_ns(|cause| *cause == LatencyCause::Scheduling), 50);
    assert_eq!(one.sum_ns(|cause| *cause == LatencyCause::Unexplained), 0);
}

#[test]
fn an_interrupt_before_that_of_the_timer_has_a_share_of_the_delay() {
    // Due at 1000. A disk's interrupt runs from 900 to 1200, and the timer's interrupt from 1250.
    let activation = Activation {
        irq: measured(1_260, 260, Some(task("cc1", 7))),
        before: vec![
            noise(NoiseSource::Irq("old".to_owned(), 8), 100, 50),
            noise(NoiseSource::Irq("disk".to_owned(), 9), 900, 300),
        ],
        noise: vec![timer(1_250, 100)],
        ..Activation::default()
    };
    let one = ExplainedActivation::new(activation, 1).unwrap();
    let expected = [
        (LatencyCause::IrqDelay, 50),
        (LatencyCause::Irq("disk".to_owned(), 9), 200),
        (LatencyCause::TimerIrq("local_timer".to_owned(), 236), 10),
    ];
    assert_eq!(shares(&one), expected);
}

#[test]
fn only_the_thread_that_the_interrupt_found_blocks() {
    let thread = |comm, tid, start_ns| noise(NoiseSource::Thread(task(comm, tid)), start_ns, 100);
    let activation = Activation {
        irq: measured(1_010, 10, Some(task("cc1", 7))),
        thread: measured(1_400, 400, None),
        noise: vec![timer(1_000, 100), thread("cc1", 7, 1_100), thread("rcuc/0", 19, 1_200)],
        ..Activation::default()
    };
    let one = ExplainedActivation::new(activation.clone(), 1).unwrap();
    assert_eq!(one.sum_ns(|cause| *cause == LatencyCause::Blocking(task("cc1", 7))), 100);
    assert_eq!(one.sum_ns(|cause| *cause == LatencyCause::Thread(task("rcuc/0", 19))), 100);
    let other = Activation { irq: measured(1_010, 10, Some(task("make", 8))), ..activation };
    let one = ExplainedActivation::new(other, 1).unwrap();
    assert_eq!(one.sum_ns(|cause| *cause == LatencyCause::Thread(task("cc1", 7))), 100);
}

#[test]
fn time_after_the_thread_without_noise_is_the_users_own_code() {
    let activation = Activation {
        irq: measured(1_010, 10, Some(task("cc1", 7))),
        thread: measured(1_200, 200, None),
        user: measured(2_000, 1_000, None),
        noise: vec![timer(1_000, 100), noise(NoiseSource::Irq("disk".to_owned(), 9), 1_500, 300)],
        ..Activation::default()
    };
    let one = ExplainedActivation::new(activation, 1).unwrap();
    assert_eq!((one.context, one.latency_ns), (TimerlatContext::User, 1_000));
    assert_eq!(one.sum_ns(|cause| *cause == LatencyCause::UserSpace), 500);
    assert_eq!(one.sum_ns(|cause| *cause == LatencyCause::Irq("disk".to_owned(), 9)), 300);
    assert_eq!(one.sum_ns(|cause| *cause == LatencyCause::Unexplained), 100);
}

#[test]
fn without_noise_records_the_shares_are_the_delay_the_users_own_code_and_the_rest() {
    let activation = |interrupted| Activation {
        irq: measured(1_300, 300, Some(interrupted)),
        thread: measured(1_700, 700, None),
        user: measured(2_600, 1_600, None),
        ..Activation::default()
    };
    let shares = |activation| shares(&ExplainedActivation::new(activation, 1).unwrap());
    let [delay, unexplained] = [(LatencyCause::IrqDelay, 300), (LatencyCause::Unexplained, 400)];
    let user = (LatencyCause::UserSpace, 900);
    assert_eq!(shares(activation(task("cc1", 7))), [delay.clone(), user.clone(), unexplained.clone()]);
    let idle = (LatencyCause::IdleExit, 300);
    assert_eq!(shares(activation(task("swapper/0", 0))), [idle, user, unexplained.clone()]);
    let in_kernel = Activation { user: None, ..activation(task("cc1", 7)) };
    assert_eq!(shares(in_kernel), [delay, unexplained]);
}

prop_compose! {
    fn any_noise()(kind in 0..4, start_ns in any::<u64>().prop_map(|v| v >> (v % 64)), duration_ns: u64, at_ns: u64, tid in 0..3u32) -> Noise {
        let source = match kind {
            0 => NoiseSource::Irq("disk".to_owned(), 1),
            1 => NoiseSource::Softirq(3),
            2 => NoiseSource::Nmi,
            _ => NoiseSource::Thread(task("cc1", tid)),
        };
        Noise { source, start_ns, duration_ns: duration_ns >> (duration_ns % 64), at_ns }
    }
}

proptest! {
    #[test]
    fn shares_add_up_for_any_records(
        before in prop::collection::vec(any_noise(), 0..6),
        noise in prop::collection::vec(any_noise(), 0..6),
        latencies in prop::collection::vec(prop::option::of((any::<u64>(), any::<u64>())), 3),
    ) {
        let measured = |index: usize| latencies[index].map(|(at_ns, latency_ns)| TimerLatency { at_ns, latency_ns, task: None });
        let activation = Activation { irq: measured(0), thread: measured(1), user: measured(2), before, noise, ..Activation::default() };
        if let Some(one) = ExplainedActivation::new(activation, 1_000) {
            prop_assert_eq!(one.shares.iter().map(|share| u128::from(share.ns)).sum::<u128>(), u128::from(one.latency_ns));
            for span in one.shares.iter().flat_map(|share| &share.spans) {
                prop_assert!(span.from_ns < span.to_ns && span.to_ns <= one.latency_ns);
            }
        } else {
            prop_assert!(latencies.iter().all(Option::is_none));
        }
    }
}
