use proptest::prelude::*;

use super::*;

const FAIR: u32 = rank(120, 0);
const A: GroupWords = [7, 0];
const B: GroupWords = [9, 0];

/// The parts of a wait, in the order of the calls.
#[derive(Default)]
struct Parts(Vec<(DividedCause, GroupWords, u64)>);

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
}

fn at(clock_ns: u64) -> QueueInstant {
    QueueInstant { clock_ns, ..QueueInstant::default() }
}

fn runs(from_ns: u64, group: GroupWords) -> RunnerSlice {
    RunnerSlice::task(at(from_ns), group, FAIR, false)
}

fn kernel_thread(from_ns: u64, group: GroupWords) -> RunnerSlice {
    RunnerSlice::task(at(from_ns), group, FAIR, true)
}

/// The history of a CPU, in which the last slice has not ended.
fn ring(slices: &[RunnerSlice]) -> SliceRing {
    let mut ring = SliceRing::EMPTY;
    for slice in slices {
        ring.end_slice(slice.began, false);
        ring.push(*slice);
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
    let ring = ring(&[runs(100, A), runs(200, B), kernel_thread(300, A), RunnerSlice::idle(at(330))]);
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
    let slices: Vec<RunnerSlice> = (1..=100).map(|n| runs(n * 10, A)).collect();
    let full = ring(&slices);
    // The oldest slice that is kept is the 37th.
    let parts = divide(&full, wait(1_000), at(1_010));
    assert_eq!(parts.last(), Some(&(DividedCause::BeforeHistory, [0; 2], 360)));
    assert_eq!(parts.len(), SLICES + 1);
    assert_eq!(divide(&SliceRing::EMPTY, wait(5), at(9)), [(DividedCause::BeforeHistory, [0; 2], 5)]);
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
    let ring = ring(&[RunnerSlice::task(began, A, FAIR, false), RunnerSlice::task(second, B, FAIR, false)]);
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
        let fifo = RunnerSlice::task(at(0), A, rank(49, 1), is_kernel_thread);
        assert_eq!(divide(&ring(&[fifo]), wait(5), at(5)), [(DividedCause::Higher, A, 5)]);
        let equal = EndingWait { rank: rank(49, 1), ..wait(5) };
        assert_ne!(divide(&ring(&[fifo]), equal, at(5)), [(DividedCause::Higher, A, 5)]);
    }
    assert_eq!(divide(&ring(&[RunnerSlice::idle(at(0))]), wait(5), at(5)), [(DividedCause::Idle, [0; 2], 5)]);
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
fn history() -> impl Strategy<Value = (Vec<RunnerSlice>, QueueInstant)> {
    let slice = (0..1_000u64, 0..100u64, 0..100u64, 0..3u64, 0..3u32, 0..200i32);
    prop::collection::vec(slice, 0..150).prop_map(|slices| {
        let mut now = QueueInstant { clock_ns: 1_000_000, stolen_ns: 5, irq_ns: 6 };
        let slices = slices.into_iter().map(|(runs_ns, stolen_ns, irq_ns, group, kind, prio)| {
            let slice = match kind {
                0 => RunnerSlice::idle(now),
                _ => RunnerSlice::task(now, [group, 0], rank(prio, 0), kind == 1),
            };
            now.clock_ns += runs_ns + stolen_ns + irq_ns;
            now.stolen_ns += stolen_ns;
            now.irq_ns += irq_ns;
            slice
        });
        (slices.collect(), now)
    })
}

/// Divides a wait ns by ns, in slices without stolen and interrupt time.
fn naive(slices: &[RunnerSlice], wait: EndingWait, end_ns: u64) -> Vec<(DividedCause, GroupWords)> {
    let kept = &slices[slices.len().saturating_sub(SLICES)..];
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
            match kept.iter().rev().find(|slice| slice.began.clock_ns <= at_ns) {
                None => (DividedCause::BeforeHistory, [0; 2]),
                Some(slice) if slice.rank < wait.rank => (DividedCause::Higher, slice.group),
                Some(slice) => (DividedCause::ALL[slice.cause as usize], slice.group),
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
        prio in 0..200i32,
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
        prio in 0..200i32,
    ) {
        let slices: Vec<RunnerSlice> =
            slices.into_iter().map(|slice| RunnerSlice { began: at(slice.began.clock_ns), ..slice }).collect();
        let end = at(slices.last().map_or(1_000_000, |slice| slice.began.clock_ns) + after_ns);
        let wait = EndingWait { latency_ns, queued_ns, throttled_ns, rank: rank(prio, 0) };
        let mut by_part = std::collections::HashMap::new();
        for (cause, group, ns) in divide(&ring(&slices), wait, end) {
            *by_part.entry((cause, group)).or_insert(0) += ns;
        }
        let mut by_ns = std::collections::HashMap::new();
        naive(&slices, wait, end.clock_ns).into_iter().for_each(|part| *by_ns.entry(part).or_insert(0) += 1);
        prop_assert_eq!(by_part, by_ns);
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
