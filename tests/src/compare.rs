//! Compares wakelat's figures with those of independent instruments.

use std::fs;

use crate::{
    clock::now_ns,
    machine,
    procfs::TaskStats,
    report::{JsonGroup, JsonReport},
    workload::Performance,
};

/// How far apart two instruments may see the same end of a wait, apart from `wakelat`'s own clock reads: ns.
///
/// Each instrument reads its clock somewhere on the path of a system call and of a context switch:
/// kernel entry and exit, the run queue's lock, the other instrument's programs. All of these are of
/// the order of a system call that goes through procfs, so this function times such a call. The
/// allowance then fits a bare machine, a virtual machine and an emulator alike. None if no such figure
/// holds: see [`machine::has_own_time`].
pub fn allowance_ns() -> Option<u64> {
    if !machine::has_own_time() {
        return None;
    }
    const READS: u64 = 200;
    let start = now_ns();
    for _ in 0..READS {
        fs::read("/proc/self/stat").expect("procfs is mounted");
    }
    Some((now_ns() - start) / READS)
}

/// Allowance for an interrupt, or for the hypervisor taking the CPU, between two instruments' reads of
/// the same moment: ns. Few waits are hit, so it covers all waits of a task together. It is far below
/// what a restarted clock or an unseen wait would lose.
const INTERRUPTED_NS: u64 = 1_000_000;

/// Upper bound, on average, of what the kernel subtracts from the wait of a preempting task and adds to
/// that of the preempted one: ns. It is the time from the wakeup to the switch, within a system call or
/// an interrupt and its programs. See [`assert_kernels_own_account`].
const PREEMPTING_NS: u64 = 50_000;

/// Asserts that no wait is longer than user space's own measurement of it, which encloses the wait:
/// from before the waker's system call to after the wakee's. `user_ns` covers some of the `wakeups` of
/// `performance` that `report` contains.
///
/// If each of wakelat's waits is at most the user's for the same wakeup, then its k-th longest is at
/// most the user's k-th longest.
pub fn assert_within_user_times(report: &JsonReport, performance: &Performance, user_ns: &[u64], wakeups: u64) {
    let buckets = report.groups.iter().flat_map(|group| &group.buckets);
    let mut found: Vec<u64> = buckets.flat_map(|b| std::iter::repeat_n(b.from_ns, b.count as usize)).collect();
    let mut user = user_ns.to_vec();
    found.sort_unstable_by(|a, b| b.cmp(a));
    user.sort_unstable_by(|a, b| b.cmp(a));
    assert_count(found.len() as u64, wakeups, performance);
    let more = wakeups as usize - user.len();
    for (rank, (found_ns, user_ns)) in found.iter().skip(more).zip(&user).enumerate() {
        assert!(found_ns <= user_ns, "the {rank}. longest wait: {found_ns} ns, user space saw {user_ns} ns");
    }
}

/// Asserts that the waits add up to what user space measured, within [`allowance_ns`] for each wait.
pub fn assert_near_user_times(report: &JsonReport, performance: &Performance) {
    let user_ns = &performance.reported.waits_ns;
    let (sum_ns, user_sum_ns) = (report.sum_ns(), user_ns.iter().sum::<u64>());
    let count = user_ns.len() as u64;
    let Some(each_ns) = allowance_ns() else { return };
    println!("\n  {count} waits: {sum_ns} ns by wakelat, {user_sum_ns} ns by user space, {each_ns} ns allowed each");
    let found: u64 = report.groups.iter().map(|group| group.count).sum();
    let unseen_ns = count.saturating_sub(found) * user_ns.iter().max().copied().unwrap_or(0);
    let unexplained_ns = user_sum_ns.saturating_sub(sum_ns + unseen_ns);
    assert!(
        unexplained_ns <= user_sum_ns / 20 + each_ns * count,
        "user space waited {unexplained_ns} ns longer than wakelat measured"
    );
}

/// Asserts that wakelat, measuring all classes by thread, agrees with the kernel's own accounting of
/// each task of `performance`: as many waits as switches, and as much time spent waiting as `run_delay`
/// says, with the following exception.
///
/// `run_delay` is taken from the run queue's clock (`sched_info_enqueue` and `sched_info_arrive`,
/// kernel/sched/stats.h), and the kernel does not read that clock again between a wakeup that preempts
/// and the switch that follows (`rq_clock_skip_update` in `wakeup_preempt`, kernel/sched/core.c). So
/// `run_delay` counts the wait of the preempting task as 0, and that of the preempted task as longer by
/// the same amount: it is a lower bound for the former and an upper bound for the latter. A preempting task that another
/// CPU wakes waits for an interprocessor interrupt, which a virtual machine delivers late; there is nothing to preempt
/// unless others than the load have the CPUs, so their CPU time is the limit for these waits.
pub fn assert_kernels_own_account(report: &JsonReport, performance: &Performance) {
    let each_ns = allowance_ns();
    let (mut found, mut switches) = (0, 0);
    for (tid, stats) in &performance.task_stats {
        let (count, waited_ns) = waits_of(report, *tid);
        println!("\n  task {tid}: {count} waits, {waited_ns} ns; {stats:?}");
        assert!(count <= stats.switches(), "task {tid}: {count} waits found, {stats:?}");
        (found, switches) = (found + count, switches + stats.switches());
        let Some(each_ns) = each_ns.filter(|_| stats.run_delay_ns > 0) else { continue };
        let unseen_ns = unseen_ns(count, stats);
        let least_ns = PREEMPTING_NS * stats.involuntary + each_ns * count + INTERRUPTED_NS + performance.stolen_ns;
        let least_ns = least_ns.saturating_add(unseen_ns);
        let most_ns = PREEMPTING_NS * count + INTERRUPTED_NS + performance.foreign_ns;
        let bounds = stats.run_delay_ns.saturating_sub(least_ns)..=stats.run_delay_ns + most_ns;
        assert!(
            bounds.contains(&waited_ns),
            "task {tid}: {waited_ns} ns found in {count} waits, not {bounds:?}: {stats:?}"
        );
    }
    assert_count(found, switches, performance);
}

/// Asserts that a task that never preempts when it is woken waited as long as the kernel's `run_delay`
/// says, within [`allowance_ns`] for each wait and a millisecond for all, in both directions. The hypervisor may have
/// the CPU between the kernel's reading of the clock and the tracepoint.
pub fn assert_same_run_delay(report: &JsonReport, tid: u32, performance: &Performance) {
    let stats = &performance.task_stats[&tid];
    let (count, waited_ns) = waits_of(report, tid);
    // `run_delay` is 0 if the kernel does not maintain it.
    let apart_ns = if stats.run_delay_ns == 0 { 0 } else { waited_ns.abs_diff(stats.run_delay_ns) };
    let unseen_ns = unseen_ns(count, stats);
    let apart_by_others_ns = INTERRUPTED_NS + performance.stolen_ns;
    assert!(
        allowance_ns()
            .is_none_or(|each_ns| apart_ns <= (each_ns * count + apart_by_others_ns).saturating_add(unseen_ns)),
        "task {tid}: {waited_ns} ns found in {count} waits, {stats:?}"
    );
}

/// Asserts that each task has as many waits of class `wakeup` as times that it blocked.
pub fn assert_one_wakeup_for_each_block(report: &JsonReport, performance: &Performance) {
    for (tid, stats) in &performance.task_stats {
        let woken: u64 = report.with("tid", *tid).filter(|g| g.class == "wakeup").map(|g| g.count).sum();
        println!("\n  task {tid}: {woken} wakeups; {stats:?}");
        assert_count(woken, stats.voluntary, performance);
    }
}

/// Asserts that `found` of `expected` waits were found: all except those that the machine hides.
fn assert_count(found: u64, expected: u64, performance: &Performance) {
    assert!(
        found <= expected && expected - found <= performance.untraced,
        "{found} waits found, expected {expected} of {performance:?}"
    );
}

/// Allowance for the waits of a task that are not among the `count` found: ns. Nothing bounds a wait
/// that passed no tracepoint; [`Performance::untraced`] bounds their number.
fn unseen_ns(count: u64, stats: &TaskStats) -> u64 {
    if count < stats.switches() { u64::MAX } else { 0 }
}

fn waits_of(report: &JsonReport, tid: u32) -> (u64, u64) {
    let sum = |of: fn(&JsonGroup) -> u64| report.with("tid", tid).map(of).sum();
    (sum(|group| group.count), sum(|group| group.sum_ns))
}
