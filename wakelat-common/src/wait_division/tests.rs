use std::collections::HashMap;

use proptest::prelude::*;

use super::{
    slice_ring::{OTHERS_WALKED_SLICES, SLICES, WALKED_SLICES},
    slice_times::SliceTimes,
    *,
};

const FAIR: u32 = rank(120, 0);
const A: GroupWords = [7, 0];
const B: GroupWords = [9, 0];

/// The parts of a wait, in the order of the calls, and what random numbers come from.
#[derive(Default)]
struct Parts(Vec<(DividedCause, GroupWords, u64)>, GroupParts);

impl DivisionSink for Parts {
    fn add(&mut self, cause: DividedCause, ns: u64) {
        self.add_ran(cause as u32, [0; 2], ns);
    }

    fn add_ran(&mut self, cause: u32, group: GroupWords, ns: u64) {
        if ns > 0 {
            let group = if has_group(cause) { group } else { [0; 2] };
            self.0.push((DividedCause::ALL[cause as usize], group, ns));
        }
    }

    fn add_only(&mut self, cause: u32, group: GroupWords, ns: u64) {
        assert!(self.0.iter().all(|(cause, ..)| !has_group(*cause as u32)));
        self.add_ran(cause, group, ns);
    }

    fn add_drawn(&mut self, cause: u32, group: GroupWords, ns: u64) {
        assert!(self.0.iter().all(|(added, ..)| *added as u32 != cause));
        self.add_ran(cause, group, ns);
    }

    fn random_below(&mut self, ns: u64) -> u64 {
        self.1.random_below(ns)
    }
}

fn at(clock_ns: u64) -> QueueInstant {
    QueueInstant { clock_ns, ..QueueInstant::default() }
}

/// When a slice began, and what ran.
type Slice = (QueueInstant, Runner);

fn runs(from_ns: u64, group: GroupWords) -> Slice {
    (at(from_ns), Runner::task(group, FAIR, false))
}

fn kernel_thread(from_ns: u64, group: GroupWords) -> Slice {
    (at(from_ns), Runner::task(group, FAIR, true))
}

fn idle(from_ns: u64) -> Slice {
    (at(from_ns), Runner::IDLE)
}

/// The history of a CPU, in which the last slice has not ended.
fn ring(slices: &[Slice]) -> SliceRing {
    let mut ring = SliceRing::EMPTY;
    for (began, runner) in slices {
        ring.end_slice(*began, false);
        ring.push(*runner);
    }
    ring
}

fn wait(latency_ns: u64) -> EndingWait {
    EndingWait { latency_ns, queued_ns: latency_ns, throttled_ns: 0, rank: FAIR }
}

fn divide(ring: &SliceRing, wait: EndingWait, end: QueueInstant) -> Vec<(DividedCause, GroupWords, u64)> {
    divide_after(ring, wait, end, false)
}

fn divide_after(
    ring: &SliceRing,
    wait: EndingWait,
    end: QueueInstant,
    unseen: bool,
) -> Vec<(DividedCause, GroupWords, u64)> {
    let (mut ring, mut parts) = (*ring, Parts::default());
    ring.end_slice(end, unseen);
    ring.divide(wait, &mut parts);
    parts.0
}

#[test]
fn a_wait_is_cut_to_the_slices_it_covers() {
    let ring = ring(&[runs(100, A), runs(200, B), kernel_thread(300, A), idle(330)]);
    assert_eq!(
        divide(&ring, wait(190), at(340)),
        [
            (DividedCause::Idle, [0; 2], 10),
            (DividedCause::KernelThread, A, 30),
            (DividedCause::Task, B, 100),
            (DividedCause::Task, A, 50),
        ]
    );
}

#[test]
fn what_lies_before_the_oldest_switch_is_a_cause_of_its_own() {
    let slices: Vec<Slice> = (1..=2_000).map(|n| runs(n * 10, A)).collect();
    let full = ring(&slices);
    let kept_ns = (SLICES as u64 - 1) * 10;
    let parts = divide(&full, wait(15_000), at(20_010));
    assert_eq!(parts, [(DividedCause::Task, A, kept_ns), (DividedCause::BeforeHistory, [0; 2], 15_000 - kept_ns)]);
    // A task that all of them outrank.
    let others = EndingWait { rank: rank(120, 5), ..wait(1_000) };
    let parts = divide(&full, others, at(20_010));
    assert_eq!(parts.last(), Some(&(DividedCause::BeforeHistory, [0; 2], 360)));
    assert_eq!(parts.len(), OTHERS_WALKED_SLICES + 1);
    assert_eq!(divide(&SliceRing::EMPTY, wait(5), at(9)), [(DividedCause::BeforeHistory, [0; 2], 5)]);
}

#[test]
fn the_group_of_a_long_wait_is_drawn_by_its_time() {
    const WAITS: u64 = 20_000;
    // A runs for 10, then B for 30, and a kernel thread for 1.
    let slices: Vec<Slice> =
        (0..40).flat_map(|n| [runs(n * 41, A), runs(n * 41 + 10, B), kernel_thread(n * 41 + 40, A)]).collect();
    let mut ring = ring(&slices);
    ring.end_slice(at(40 * 41), false);
    let mut parts = Parts::default();
    let mut sums = HashMap::new();
    for _ in 0..WAITS {
        parts.0.clear();
        ring.divide(wait(30 * 41), &mut parts);
        parts.0.iter().for_each(|(cause, group, ns)| *sums.entry((*cause, *group)).or_insert(0) += ns);
    }
    let of = |cause, group| sums[&(cause, group)] as f64 / (30 * WAITS) as f64;
    let kernel_threads = of(DividedCause::KernelThread, A);
    let [by_a, by_b] = [A, B].map(|group| of(DividedCause::Task, group));
    // The standard deviation of either share is 0.3 % of the whole.
    assert!((by_a - 10.0).abs() < 0.5 && (by_b - 30.0).abs() < 0.5, "{by_a} {by_b}");
    assert_eq!((by_a + by_b, kernel_threads), (40.0, 1.0));
}

#[test]
fn time_on_another_queue_and_throttled_time_come_first_in_a_wait() {
    let ring = ring(&[runs(0, A), runs(500, B)]);
    let wait = EndingWait { latency_ns: 1_000, queued_ns: 700, throttled_ns: 400, rank: FAIR };
    // Queued here from 300 on; throttled until 700.
    assert_eq!(
        divide(&ring, wait, at(1_000)),
        [(DividedCause::OtherQueue, [0; 2], 300), (DividedCause::Throttled, [0; 2], 400), (DividedCause::Task, B, 300)]
    );
    let throttled = EndingWait { throttled_ns: u64::MAX, ..wait };
    assert_eq!(divide(&ring, throttled, at(1_000))[1], (DividedCause::Throttled, [0; 2], 700));
}

#[test]
fn stolen_and_interrupt_time_come_out_of_the_slice_in_which_they_happened() {
    let began = QueueInstant { clock_ns: 100, stolen_ns: 40, irq_ns: 3 };
    let second = QueueInstant { clock_ns: 200, stolen_ns: 60, irq_ns: 3 };
    let ring = ring(&[(began, Runner::task(A, FAIR, false)), (second, Runner::task(B, FAIR, false))]);
    let end = QueueInstant { clock_ns: 300, stolen_ns: 60, irq_ns: 13 };
    // A fifth of the first slice was stolen: so was a fifth of the half that the wait covers.
    assert_eq!(
        divide(&ring, wait(150), end),
        [
            (DividedCause::Task, B, 90),
            (DividedCause::Task, A, 40),
            (DividedCause::Stolen, [0; 2], 10),
            (DividedCause::Interrupt, [0; 2], 10),
        ]
    );
}

/// A slice of 1,000 ns: 300 ns before its end, an interrupt of 200 ns begins. There was another one of 20 ns, and it is not
/// known when.
#[test]
fn the_longest_interrupt_counts_for_the_waits_that_it_was_in() {
    let irq_of = |latency_ns| {
        let mut ring = ring(&[runs(0, A)]);
        let end = QueueInstant { irq_ns: 220, ..at(1_000) };
        *ring.longest_interrupt() = LongestInterrupt { ns: 200, began_before_end_ns: 300 };
        ring.end_slice(end, false);
        let mut parts = Parts::default();
        ring.divide(wait(latency_ns), &mut parts);
        parts.0.iter().find(|(cause, ..)| *cause == DividedCause::Interrupt).map_or(0, |(.., ns)| *ns)
    };
    // Of the other one, each wait has a share by its length, rounded down.
    assert_eq!([1_000, 500, 300].map(irq_of), [220, 210, 205]);
    // From the middle of the interrupt on, and from its end on.
    assert_eq!([200, 100].map(irq_of), [103, 1]);
}

#[test]
fn a_higher_rank_is_a_cause_whatever_the_kind_of_task() {
    for is_kernel_thread in [false, true] {
        let fifo = (at(0), Runner::task(A, rank(49, 1), is_kernel_thread));
        assert_eq!(divide(&ring(&[fifo]), wait(5), at(5)), [(DividedCause::Higher, A, 5)]);
        let equal = EndingWait { rank: rank(49, 1), ..wait(5) };
        assert_ne!(divide(&ring(&[fifo]), equal, at(5)), [(DividedCause::Higher, A, 5)]);
    }
    assert_eq!(divide(&ring(&[idle(0)]), wait(5), at(5)), [(DividedCause::Idle, [0; 2], 5)]);
}

#[test]
fn classes_and_real_time_priorities_rank_and_nice_values_do_not() {
    let order = [rank(-1, 6), rank(0, 1), rank(49, 2), rank(50, 1), rank(120, 0), rank(120, 5), rank(120, 7)];
    assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
    assert_eq!(rank(100, 0), rank(139, 3));
}

#[test]
fn unseen_switches_make_the_slice_before_them_unknown() {
    let ring = ring(&[runs(10, A), runs(20, B)]);
    let parts = divide_after(&ring, wait(15), at(30), true);
    assert_eq!(parts, [(DividedCause::Unseen, [0; 2], 10), (DividedCause::Task, A, 5)]);
}

/// Slices with some stolen and interrupt time in each, and the instant at which the last one ends.
fn history() -> impl Strategy<Value = (Vec<Slice>, QueueInstant)> {
    let slice = (0..1_000u64, 0..100u64, 0..100u64, 0..3u64, 0..3u32, 0..200i32);
    // So many short ones before them that the ring is full.
    let short = (0..2 * SLICES as u64).prop_map(|count| (0..count).map(|n| (n % 50, 0, 0, n % 3, (n % 3) as u32, 120)));
    (short, prop::collection::vec(slice, 0..150)).prop_map(|(short, slices)| {
        let mut now = QueueInstant { clock_ns: 1_000_000, stolen_ns: 5, irq_ns: 6 };
        let slices = short.chain(slices).map(|(runs_ns, stolen_ns, irq_ns, group, kind, prio)| {
            let runner = match kind {
                0 => Runner::IDLE,
                _ => Runner::task([group, 0], rank(prio, 0), kind == 1),
            };
            let began = now;
            now.clock_ns += runs_ns + stolen_ns + irq_ns;
            now.stolen_ns += stolen_ns;
            now.irq_ns += irq_ns;
            (began, runner)
        });
        (slices.collect(), now)
    })
}

/// Divides a wait ns by ns, in slices without stolen and interrupt time.
fn naive(slices: &[Slice], wait: EndingWait, end_ns: u64) -> Vec<(DividedCause, GroupWords)> {
    let most = if wait.rank == FAIR { SLICES - 1 } else { OTHERS_WALKED_SLICES };
    let kept = &slices[slices.len().saturating_sub(most)..];
    let queued_ns = wait.queued_ns.min(wait.latency_ns);
    (0..wait.latency_ns)
        .map(|ns| {
            let before_end_ns = wait.latency_ns - ns;
            if before_end_ns > queued_ns {
                return (DividedCause::OtherQueue, [0; 2]);
            }
            if before_end_ns > queued_ns.saturating_sub(wait.throttled_ns) {
                return (DividedCause::Throttled, [0; 2]);
            }
            let at_ns = end_ns - before_end_ns;
            match kept.iter().rev().find(|(began, _)| began.clock_ns <= at_ns) {
                None => (DividedCause::BeforeHistory, [0; 2]),
                Some((_, runner)) if runner.rank < wait.rank => (DividedCause::Higher, runner.group),
                Some((_, runner)) => (DividedCause::ALL[runner.cause as usize], runner.group),
            }
        })
        .collect()
}

proptest! {
    #[test]
    fn the_parts_add_up_to_the_wait(
        (slices, end) in history(),
        latency_ns in 0..200_000u64,
        queued_ns in 0..250_000u64,
        throttled_ns in prop_oneof![Just(0), 0..200_000u64],
        prio in prop_oneof![Just(120), 0..200i32],
    ) {
        let wait = EndingWait { latency_ns, queued_ns, throttled_ns, rank: rank(prio, 0) };
        let parts = divide(&ring(&slices), wait, end);
        prop_assert_eq!(parts.iter().map(|(.., ns)| ns).sum::<u64>(), latency_ns);
    }

    #[test]
    fn a_wait_is_divided_like_each_of_its_nanoseconds(
        (slices, _) in history(),
        latency_ns in 0..60_000u64,
        queued_ns in 0..80_000u64,
        throttled_ns in prop_oneof![Just(0), 0..60_000u64],
        after_ns in 0..1_000u64,
        (prio, policy) in prop_oneof![Just((120, 0)), (0..200i32, prop_oneof![Just(0), Just(5)])],
    ) {
        let slices: Vec<Slice> = slices.into_iter().map(|(began, runner)| (at(began.clock_ns), runner)).collect();
        let end = at(slices.last().map_or(1_000_000, |(began, _)| began.clock_ns) + after_ns);
        let wait = EndingWait { latency_ns, queued_ns, throttled_ns, rank: rank(prio, policy) };
        let (mut by_part, mut by_cause) = (HashMap::new(), HashMap::new());
        for (cause, group, ns) in divide(&ring(&slices), wait, end) {
            *by_part.entry((cause, group)).or_insert(0) += ns;
            *by_cause.entry(cause).or_insert(0) += ns;
        }
        let (mut part_by_ns, mut cause_by_ns) = (HashMap::new(), HashMap::new());
        for (cause, group) in naive(&slices, wait, end.clock_ns) {
            *part_by_ns.entry((cause, group)).or_insert(0) += 1;
            *cause_by_ns.entry(cause).or_insert(0) += 1;
        }
        prop_assert_eq!(by_cause, cause_by_ns);
        let queued_ns = wait.queued_ns.min(latency_ns);
        let from_ns = end.clock_ns - (queued_ns - throttled_ns.min(queued_ns));
        let walked = slices.iter().rev().nth(WALKED_SLICES - 1);
        if wait.rank == FAIR && walked.is_some_and(|(began, _)| began.clock_ns > from_ns) {
            // The groups are drawn, each from the ones that ran.
            prop_assert!(by_part.keys().all(|part| part_by_ns.contains_key(part)), "{:?} {:?}", by_part, part_by_ns);
        } else {
            prop_assert_eq!(by_part, part_by_ns);
        }
    }

    #[test]
    fn a_wait_is_divided_by_totals_like_slice_by_slice((slices, end) in history(), latency_ns in 0..60_000u64) {
        let ring = ring(&slices);
        let by_cause = |rank| {
            let mut sums = [0; DIVIDED_CAUSES];
            let parts = divide(&ring, EndingWait { rank, ..wait(latency_ns) }, end);
            parts.iter().for_each(|(cause, _, ns)| sums[*cause as usize] += ns);
            sums
        };
        // No task has the other rank, so the same ones outrank both.
        let (by_totals, by_slices) = (by_cause(FAIR), by_cause(FAIR - 1));
        if by_slices[DividedCause::BeforeHistory as usize] == 0 {
            prop_assert_eq!(by_totals, by_slices);
        }
    }

    #[test]
    fn stolen_time_in_a_part_of_a_slice_is_its_share(clock_ns in 1..1u64 << 47, rest in any::<u64>(), stolen in any::<u64>()) {
        let (rest, stolen_ns) = (rest % clock_ns, stolen % clock_ns);
        let exact = (u128::from(stolen_ns) * u128::from(rest) / u128::from(clock_ns)) as u64;
        let found = SliceTimes { clock_ns, stolen_ns, irq_ns: 0 }.last(rest, LongestInterrupt::default(), 0).stolen_ns;
        // The proportion is rounded down to a multiple of 2^-16; times of 2^48 ns and more overflow with it.
        prop_assume!(stolen_ns < 1 << 47);
        prop_assert!(found <= exact && exact - found <= (stolen_ns >> 16) + 1, "{} {}", found, exact);
    }
}

/// The first cause of a wait that ends now.
fn first_cause(ring: &SliceRing, wait: EndingWait, end_ns: u64) -> (DividedCause, GroupWords) {
    let mut ring = *ring;
    ring.end_slice(at(end_ns), false);
    let (cause, group) = ring.first_cause(ring.divide(wait, &mut Parts::default()));
    (DividedCause::ALL[cause as usize], group)
}

#[test]
fn the_first_cause_is_what_ran_when_the_wait_began() {
    let ring = ring(&[runs(100, A), kernel_thread(200, B), runs(300, A), runs(400, B)]);
    let first = |latency_ns| first_cause(&ring, wait(latency_ns), 500);
    assert_eq!(first(100), (DividedCause::Task, B));
    assert_eq!(first(200), (DividedCause::Task, A));
    assert_eq!(first(300), (DividedCause::KernelThread, B));
    // A wait of 0 ns.
    assert_eq!(first(0), (DividedCause::Task, B));
    // It began before the first switch that is kept.
    assert_eq!(first(500).0, DividedCause::BeforeHistory);
    assert_eq!(first_cause(&SliceRing::EMPTY, wait(1), 500).0, DividedCause::BeforeHistory);
}

#[test]
fn the_first_cause_of_a_migrated_or_throttled_task_is_not_what_ran() {
    let ring = ring(&[runs(100, A), runs(300, B)]);
    let migrated = EndingWait { queued_ns: 50, ..wait(200) };
    assert_eq!(first_cause(&ring, migrated, 400).0, DividedCause::OtherQueue);
    let throttled = EndingWait { throttled_ns: 10, ..wait(200) };
    assert_eq!(first_cause(&ring, throttled, 400).0, DividedCause::Throttled);
    let outranked = EndingWait { rank: rank(120, 5), ..wait(200) };
    assert_eq!(first_cause(&ring, outranked, 400).0, DividedCause::Higher);
}
