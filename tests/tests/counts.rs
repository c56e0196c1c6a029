//! Loads with exact counts: wakelat finds every wait, once, in its class, with its length.

use wakelat_tests::{
    attached, attached_every_way,
    compare::{
        assert_kernels_own_account, assert_near_user_times, assert_one_wakeup_for_each_block, assert_same_run_delay,
        assert_within_user_times,
    },
    machine, procfs,
    report::{JsonGroup, JsonReport, JsonWorst},
    suite::{Case, Skip, TestOutcome},
    task::{Policy, TaskPlacement},
    wakelat::{AttachCase, Wakelat},
    workload::{BehindHog, ForkWorkload, Performance, PingPong, Sleeper, Staged, Workload},
};

pub fn cases() -> Vec<Case> {
    let modes = attached![samples_and_counts_of_the_same_waits_agree, maps_take_less_than_four_mib_for_two_cpus];
    modes
        .into_iter()
        .chain(attached_every_way![
            a_ping_pong_on_one_cpu_has_exactly_its_wakeups,
            a_ping_pong_across_cpus_has_exactly_its_wakeups,
            a_timer_wakes_a_sleeper_exactly_as_often_as_it_fires,
            a_sleeper_waits_as_long_as_its_hog_runs,
            all_waits_of_a_task_are_its_switches_and_its_run_delay,
            each_fork_of_a_burst_is_a_new_task,
            t21_a_task_of_one_millisecond_is_counted_by_its_own_id,
        ])
        .collect()
}

/// Measures one performance of `load`, by thread, with these arguments.
fn measure(attach: AttachCase, load: Workload, arguments: &[&str]) -> (JsonReport, Performance, Staged) {
    let mut staged = load.stage();
    let mut all = vec!["--by", "tid"];
    all.extend(arguments);
    let wakelat = Wakelat::hist(attach, &all);
    let performance = staged.perform();
    (wakelat.report(), performance, staged)
}

/// Asserts that `report` covers only the tasks of the load, and has exactly their wakeups.
fn assert_exactly_the_known(report: &JsonReport, performance: &Performance) {
    report.coverage.wakeups.assert_complete(performance.wakeups(), performance);
    // No other task has these names.
    let terms = report.coverage.wakeups;
    assert!(terms.begun() <= performance.wakeups(), "{terms:?}");
    assert_one_wakeup_for_each_block(report, performance);
}

fn a_ping_pong_on_one_cpu_has_exactly_its_wakeups(attach: AttachCase) -> TestOutcome {
    let load = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 2000));
    let (report, performance, _staged) = measure(attach, load, &["--comm", "wl-p?ng"]);
    assert_exactly_the_known(&report, &performance);
    // At least one more than there are bytes: the gate.
    assert_within_user_times(&report, &performance, &performance.reported.waits_ns, performance.wakeups());
    assert_near_user_times(&report, &performance);
    Ok(())
}

fn a_ping_pong_across_cpus_has_exactly_its_wakeups(attach: AttachCase) -> TestOutcome {
    let load = Workload::PingPong(PingPong::across(machine::two_cpus()?, 500));
    let (report, performance, _staged) = measure(attach, load, &["--comm", "wl-p?ng"]);
    assert_exactly_the_known(&report, &performance);
    assert_within_user_times(&report, &performance, &performance.reported.waits_ns, performance.wakeups());
    Ok(())
}

fn a_timer_wakes_a_sleeper_exactly_as_often_as_it_fires(attach: AttachCase) -> TestOutcome {
    let place = TaskPlacement::fifo(machine::one_cpu());
    let load = Workload::Sleeper(Sleeper { rounds: 300, sleep_ns: 1_000_000, place });
    let (report, performance, _staged) = measure(attach, load, &["--comm", "wl-sleeper"]);
    assert_exactly_the_known(&report, &performance);
    // User space's figure begins when the timer was due: before its interrupt, before the wakeup.
    assert_within_user_times(&report, &performance, &performance.reported.waits_ns, performance.wakeups());
    Ok(())
}

fn a_sleeper_waits_as_long_as_its_hog_runs(attach: AttachCase) -> TestOutcome {
    let spin_ns = 1_000_000;
    let hog = BehindHog { rounds: 200, spin_ns, cpu: machine::one_cpu(), sleeper: Policy::Other };
    let (report, performance, staged) = measure(attach, Workload::BehindHog(hog), &["--comm", "wl-sleeper"]);
    report.coverage.wakeups.assert_complete(performance.wakeups(), &performance);
    // As many as the hog caused; in addition, the sleeper may have slept for a lock of the kernel,
    // which is short.
    let buckets = report.groups.iter().flat_map(|group| &group.buckets);
    let behind_hog: u64 = buckets.filter(|bucket| bucket.to_ns > spin_ns).map(|bucket| bucket.count).sum();
    let known = performance.reported.wakeups["wl-sleeper"];
    // A wait in which the sleeper slept for a lock was split in two.
    let in_pieces = performance.wakeups() - known;
    assert!(behind_hog + performance.untraced + in_pieces >= known, "{behind_hog} of {known}: {report:?}");
    assert_within_user_times(&report, &performance, &performance.reported.waits_ns, performance.wakeups());
    assert_near_user_times(&report, &performance);
    let sleeper = staged.tid("wl-sleeper");
    // The sleeper is of the lower class: it never preempts, and the kernel accounts every ns of its waits.
    assert_same_run_delay(&report, sleeper, &performance);
    Ok(())
}

fn all_waits_of_a_task_are_its_switches_and_its_run_delay(attach: AttachCase) -> TestOutcome {
    let cpu = machine::one_cpu();
    let hog = BehindHog { rounds: 200, spin_ns: 500_000, cpu, sleeper: Policy::Other };
    let ordinary = TaskPlacement::other(cpu);
    let ping_pong = PingPong { rounds: 2000, ping: ordinary, pong: ordinary, patient: false, sleep_after_ns: 0 };
    for load in [Workload::BehindHog(hog), Workload::PingPong(ping_pong)] {
        let (report, performance, _staged) =
            measure(attach, load, &["--comm", "wl-*", "--class", "wakeup,new,preempted"]);
        assert_kernels_own_account(&report, &performance);
        report.assert_nothing_lost(&performance);
    }
    Ok(())
}

fn each_fork_of_a_burst_is_a_new_task(attach: AttachCase) -> TestOutcome {
    let children = if machine::is_emulated() { 300 } else { 1000 };
    let place = TaskPlacement { cpu: None, policy: Policy::Other };
    let load = Workload::Forks(ForkWorkload { children, run_ns: 0, place });
    let (report, performance, _staged) = measure(attach, load, &["--class", "new", "--comm", "wl-forker"]);
    report.coverage.wakeups.assert_complete(children, &performance);
    Ok(())
}

fn t21_a_task_of_one_millisecond_is_counted_by_its_own_id(attach: AttachCase) -> TestOutcome {
    let children = 300;
    let load =
        Workload::Forks(ForkWorkload { children, run_ns: 1_000_000, place: TaskPlacement::other(machine::one_cpu()) });
    let (report, performance, _staged) = measure(attach, load, &["--class", "new", "--comm", "wl-forker"]);
    report.coverage.wakeups.assert_complete(children, &performance);
    // One group for each child.
    assert!(report.groups.iter().all(|group| group.count == 1 && group.class == "new"), "{report:?}");
    Ok(())
}

/// Two instances at once: what one finds in the kernel's histograms, the other finds in samples of the same waits.
fn samples_and_counts_of_the_same_waits_agree(attach: AttachCase) -> TestOutcome {
    let spin_ns = 1_000_000;
    let hog = BehindHog { rounds: 200, spin_ns, cpu: machine::one_cpu(), sleeper: Policy::Other };
    let mut staged = Workload::BehindHog(hog).stage();
    let start = |mode| Wakelat::hist(attach, &["--comm", "wl-sleeper", "--mode", mode]);
    let [samples, counted] = ["samples", "aggregate"].map(start);
    staged.perform();
    let [samples, counted] = [samples, counted].map(Wakelat::report);
    assert_eq!((&*samples.mode, &*counted.mode), ("samples", "aggregate"));
    assert_eq!(samples.coverage.wakeups.selected(), counted.coverage.wakeups.selected());
    assert_eq!(samples.coverage.wakeups.measured, counted.coverage.wakeups.measured);
    let ([sample], [count]) = (&samples.groups[..], &counted.groups[..]) else {
        panic!("one group each: {samples:#?}, {counted:#?}")
    };
    // The programs of one instance run before the other's, at the beginning of a wait and at its end, which
    // takes time in an emulator.
    let apart_ns = if machine::is_emulated() { spin_ns / 2 } else { spin_ns / 20 };
    let near =
        |a: u64, b: u64, wide_ns| assert!(a.abs_diff(b) <= apart_ns + wide_ns, "{a} and {b}: {sample:?}, {count:?}");
    near(sample.min_ns, count.min_ns, 0);
    near(sample.sum_ns / sample.count, count.sum_ns / count.count, 0);
    let has_cgroup = count.worst.iter().all(|wait| wait.cgroup_id.is_some());
    assert_eq!(has_cgroup, AttachCase::TYPES.contains(&attach), "{:?}", count.worst);
    // If a hypervisor took the CPU between the two, that wait is longer for one instance, which shifts
    // its other waits by one rank: so each instance's percentiles among the longest waits are compared
    // with its own longest waits, which have no bucket.
    let held_up = usize::from(!machine::is_emulated());
    for (percent, value_ns) in &sample.percentiles_ns {
        let rank = (percent.parse::<f64>().expect("a number") / 100.0 * sample.count as f64).ceil() as u64;
        let from_longest = (sample.count - rank.min(sample.count)) as usize;
        if from_longest >= sample.worst.len() {
            near(*value_ns, count.percentiles_ns[percent], value_ns / 31);
        }
        for group in [sample, count].into_iter().filter(|group| from_longest < group.worst.len()) {
            let (found_ns, due_ns) = (group.percentiles_ns[percent], group.worst[from_longest].latency_ns);
            assert!((due_ns..=due_ns + due_ns / 31).contains(&found_ns), "p{percent}: {found_ns} of {:?}", group.worst);
        }
    }
    // The longest waits have the task that had the CPU, and are sorted by length, in either mode.
    for group in [sample, count] {
        assert_eq!(group.worst.len(), 4);
        assert_eq!(group.worst[0].latency_ns, group.max_ns);
        assert!(group.worst.is_sorted_by(|a, b| a.latency_ns >= b.latency_ns), "{:?}", group.worst);
        // That task is another one, and has a name.
        let has_prev = |wait: &JsonWorst| !["", "wl-sleeper"].contains(&&*wait.prev_comm);
        assert!(group.worst.iter().all(has_prev), "{:?}", group.worst);
    }
    let follows = |of: &JsonGroup, other: &JsonGroup| {
        of.worst.iter().skip(held_up).zip(&other.worst).all(|(a, b)| a.latency_ns <= b.latency_ns + apart_ns)
    };
    assert!(follows(sample, count) && follows(count, sample), "{sample:?}, {count:?}");
    Ok(())
}

fn maps_take_less_than_four_mib_for_two_cpus(attach: AttachCase) -> TestOutcome {
    if machine::cpus().len() > 2 {
        return Err(Skip::because(format!("is about two CPUs, found {}", machine::cpus().len())));
    }
    for mode in ["aggregate", "samples"] {
        let wakelat = Wakelat::hist(attach, &["--mode", mode]);
        let bytes = procfs::map_bytes(wakelat.pid());
        println!("\n  {mode}: {bytes} bytes");
        assert!((1..4 << 20).contains(&bytes), "{mode}: {bytes} bytes");
        wakelat.report();
    }
    Ok(())
}
