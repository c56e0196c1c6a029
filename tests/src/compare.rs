//! wakelat's figures against those of independent instruments.

use std::fs;

use crate::{
    clock::now_ns,
    machine,
    procfs::TaskStats,
    report::{JsonGroup, JsonReport},
    workload::Performance,
};

/// Beside `wakelat`'s own clock reads, what may lie between two instruments' ends of one wait: ns.
///
/// Each instrument reads its clock somewhere on the path of a system call and of a context switch: the way in and out
/// of the kernel, the run queue's lock, the other's programs. All of these are of the order of a system call that goes
/// through procfs, so that is what is timed here, which makes the allowance fit a bare machine, a virtual machine and
/// an emulator alike. None where no such figure holds: see [`machine::has_own_time`].
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

/// What may come between two instruments' reads of one moment: an interrupt, or the hypervisor, which takes the CPU for
/// some time. It happens to few waits, so this is for all of a task's: ns. Far below what a clock that was restarted, or a
/// wait that was not seen, would be missing.
const INTERRUPTED_NS: u64 = 1_000_000;

/// What the kernel takes from the wait of a task that preempts and adds to that of the one it preempts at most, on average: the time from
/// the wakeup to the switch, within a system call or an interrupt and its programs: ns. See [`assert_kernels_own_account`].
const PREEMPTING_NS: u64 = 50_000;

/// Asserts that no wait is longer than userspace's own measure of it, which encloses it: from before the waker's system
/// call to after the wakee's. `user_ns` is about some of the `wakeups` that `report` holds of `performance`.
///
/// If each of wakelat's waits is at most the user's for the same wakeup, then so is its k-th longest at most the user's
/// k-th longest.
///
/// # Panics
/// If it is not so.
pub fn assert_within_user_times(report: &JsonReport, performance: &Performance, user_ns: &[u64], wakeups: u64) {
    let buckets = report.groups.iter().flat_map(|group| &group.buckets);
    let mut found: Vec<u64> = buckets.flat_map(|b| std::iter::repeat_n(b.from_ns, b.count as usize)).collect();
    let mut user = user_ns.to_vec();
    found.sort_unstable_by(|a, b| b.cmp(a));
    user.sort_unstable_by(|a, b| b.cmp(a));
    assert_count(found.len() as u64, wakeups, performance);
    let more = wakeups as usize - user.len();
    for (rank, (found_ns, user_ns)) in found.iter().skip(more).zip(&user).enumerate() {
        assert!(found_ns <= user_ns, "the {rank}. longest wait: {found_ns} ns, userspace saw {user_ns} ns");
    }
}

/// Asserts that the waits together are as long as userspace says, but for [`allowance_ns`] for the ends of each.
///
/// # Panics
/// If they are shorter.
pub fn assert_near_user_times(report: &JsonReport, performance: &Performance) {
    let user_ns = &performance.reported.waits_ns;
    let (sum_ns, user_sum_ns) = (report.sum_ns(), user_ns.iter().sum::<u64>());
    let count = user_ns.len() as u64;
    let Some(each_ns) = allowance_ns() else { return };
    println!("\n  {count} waits: {sum_ns} ns by wakelat, {user_sum_ns} ns by userspace, {each_ns} ns allowed for each");
    let found: u64 = report.groups.iter().map(|group| group.count).sum();
    let unseen_ns = count.saturating_sub(found) * user_ns.iter().max().copied().unwrap_or(0);
    let unexplained_ns = user_sum_ns.saturating_sub(sum_ns + unseen_ns);
    assert!(
        unexplained_ns <= user_sum_ns / 20 + each_ns * count,
        "userspace waited {unexplained_ns} ns longer than wakelat says"
    );
}

/// Asserts that wakelat, having measured all classes by thread, agrees with the kernel's own account of each task of
/// `performance`: as many waits as switches, and as much time spent waiting as `run_delay` says, but for what follows.
///
/// `run_delay` is taken from the run queue's clock (`sched_info_enqueue` and `sched_info_arrive`, kernel/sched/stats.h), and
/// that clock is not read again between a wakeup that preempts and the switch that follows (`rq_clock_skip_update` in
/// `wakeup_preempt`, kernel/sched/core.c). So the wait of the task that preempts is 0 in `run_delay`, and that of the task
/// it preempts is longer by as much: of the former it is a lower bound, of the latter an upper one.
///
/// # Panics
/// If it does not agree.
pub fn assert_kernels_own_account(report: &JsonReport, performance: &Performance) {
    let each_ns = allowance_ns();
    let (mut found, mut switches) = (0, 0);
    for (tid, account) in &performance.task_stats {
        let (count, waited_ns) = waits_of(report, *tid);
        println!("\n  task {tid}: {count} waits, {waited_ns} ns; {account:?}");
        assert!(count <= account.switches(), "task {tid}: {count} waits found, {account:?}");
        (found, switches) = (found + count, switches + account.switches());
        let Some(each_ns) = each_ns.filter(|_| account.run_delay_ns > 0) else { continue };
        let unseen_ns = unseen_ns(count, account);
        let least_ns =
            (PREEMPTING_NS * account.involuntary + each_ns * count + INTERRUPTED_NS).saturating_add(unseen_ns);
        let most_ns = PREEMPTING_NS * count + INTERRUPTED_NS;
        let bounds = account.run_delay_ns.saturating_sub(least_ns)..=account.run_delay_ns + most_ns;
        assert!(
            bounds.contains(&waited_ns),
            "task {tid}: {waited_ns} ns found in {count} waits, not {bounds:?}: {account:?}"
        );
    }
    assert_count(found, switches, performance);
}

/// Asserts that a task that never preempts when it is woken waited as long as the kernel's `run_delay` says: both ways
/// within [`allowance_ns`] for each wait, and a millisecond for all.
///
/// # Panics
/// If it did not.
pub fn assert_same_run_delay(report: &JsonReport, tid: u32, account: &TaskStats) {
    let (count, waited_ns) = waits_of(report, tid);
    // 0 where the kernel does not keep it.
    let apart_ns = if account.run_delay_ns == 0 { 0 } else { waited_ns.abs_diff(account.run_delay_ns) };
    let unseen_ns = unseen_ns(count, account);
    assert!(
        allowance_ns().is_none_or(|each_ns| apart_ns <= (each_ns * count + INTERRUPTED_NS).saturating_add(unseen_ns)),
        "task {tid}: {waited_ns} ns found in {count} waits, {account:?}"
    );
}

/// Asserts that class `wakeup` has as many waits of each task as that task blocked.
///
/// # Panics
/// If it has not.
pub fn assert_one_wakeup_for_each_block(report: &JsonReport, performance: &Performance) {
    for (tid, account) in &performance.task_stats {
        let woken: u64 = report.with("tid", *tid).filter(|g| g.class == "wakeup").map(|g| g.count).sum();
        println!("\n  task {tid}: {woken} wakeups; {account:?}");
        assert_count(woken, account.voluntary, performance);
    }
}

/// Asserts that `found` of `expected` waits were found: all, but for what the machine hides.
fn assert_count(found: u64, expected: u64, performance: &Performance) {
    assert!(
        found <= expected && expected - found <= performance.untraced,
        "{found} waits found, expected {expected} of {performance:?}"
    );
}

/// How long the waits of a task were of which `count` were found, besides those: ns. Nothing bounds a wait that passed no tracepoint;
/// how many there may be is bounded by [`Performance::untraced`].
fn unseen_ns(count: u64, account: &TaskStats) -> u64 {
    if count < account.switches() { u64::MAX } else { 0 }
}

fn waits_of(report: &JsonReport, tid: u32) -> (u64, u64) {
    let sum = |of: fn(&JsonGroup) -> u64| report.with("tid", tid).map(of).sum();
    (sum(|group| group.count), sum(|group| group.sum_ns))
}
