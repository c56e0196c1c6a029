//! The loads do what they report, by the kernel's own accounting of their tasks: without this, the
//! tests that use them would show nothing.

use wakelat_tests::{
    cgroup::Hierarchy,
    machine, once,
    procfs::TaskStats,
    suite::{Case, TestOutcome},
    task::{Policy, TaskPlacement},
    workload::{
        BehindHog, CrossWake, ForkWorkload, ManyThreads, MigrationWorkload, PingPong, SignalStorm, Sleeper, Staged,
        WakeRace, Workload,
    },
};

pub fn cases() -> Vec<Case> {
    once![
        a_ping_pong_on_one_cpu_blocks_as_often_as_it_reports,
        a_ping_pong_across_cpus_blocks_as_often_as_it_reports,
        a_sleeper_blocks_as_often_as_it_reports,
        a_sleeper_behind_a_hog_waits_at_least_as_long_as_the_hog_spins,
        a_cross_wake_blocks_as_often_as_it_reports,
        a_wake_race_preempts,
        every_other_load_completes,
        a_group_is_removed_after_its_tasks,
    ]
}

fn assert_exact(load: Workload) -> Vec<u64> {
    let mut staged = load.stage();
    let performance = staged.perform();
    // `perform` asserts that load and kernel agree.
    assert!(performance.wakeups() > 0);
    performance.reported.waits_ns
}

fn a_ping_pong_on_one_cpu_blocks_as_often_as_it_reports() -> TestOutcome {
    let mut load = PingPong::on_one(machine::one_cpu(), 2000);
    load.sleep_after_ns = 1_000_000;
    assert_eq!(assert_exact(Workload::PingPong(load)).len(), 4000);
    Ok(())
}

fn a_ping_pong_across_cpus_blocks_as_often_as_it_reports() -> TestOutcome {
    assert_eq!(assert_exact(Workload::PingPong(PingPong::across(machine::two_cpus()?, 500))).len(), 1000);
    Ok(())
}

fn a_sleeper_blocks_as_often_as_it_reports() -> TestOutcome {
    let place = TaskPlacement::fifo(machine::one_cpu());
    assert_exact(Workload::Sleeper(Sleeper { rounds: 200, sleep_ns: 1_000_000, place }));
    Ok(())
}

fn a_sleeper_behind_a_hog_waits_at_least_as_long_as_the_hog_spins() -> TestOutcome {
    let (cpu, spin_ns) = (machine::one_cpu(), 1_000_000);
    let waits_ns = assert_exact(Workload::BehindHog(BehindHog { rounds: 100, spin_ns, cpu, sleeper: Policy::Other }));
    assert!(waits_ns.iter().all(|wait_ns| *wait_ns >= spin_ns), "{waits_ns:?}");
    Ok(())
}

fn a_cross_wake_blocks_as_often_as_it_reports() -> TestOutcome {
    assert_exact(Workload::CrossWake(CrossWake { rounds: 500, cpus: machine::two_cpus()? }));
    Ok(())
}

fn a_wake_race_preempts() -> TestOutcome {
    let cpu = machine::one_cpu();
    let race = WakeRace { rounds: 4_000, cpus: [machine::cpus()[0], cpu], preemptor: true, sleep_after_ns: 1_000_000 };
    let mut staged = Workload::WakeRace(race).stage();
    let performance = staged.perform();
    let wakee = performance.task_stats[&staged.tid("wl-wakee")];
    println!("  the wakee blocked {} times and was preempted {} times", wakee.voluntary, wakee.involuntary);
    assert!(wakee.involuntary > 0);
    Ok(())
}

fn every_other_load_completes() -> TestOutcome {
    let cpu = machine::one_cpu();
    let cpus = [machine::cpus()[0], cpu];
    let loads = [
        Workload::Forks(ForkWorkload { children: 100, run_ns: 10_000, place: TaskPlacement::other(cpu) }),
        Workload::ManyThreads(ManyThreads { threads: 200 }),
        Workload::Migration(MigrationWorkload { rounds: 500, cpus }),
        Workload::SignalStorm(SignalStorm { rounds: 1000, cpus, sleep_after_ns: 1_000_000 }),
    ];
    for load in loads {
        let mut staged: Staged = load.clone().stage();
        let performance = staged.perform();
        println!("  {load:?}: {:?}", performance.task_stats.values().collect::<Vec<&TaskStats>>());
    }
    Ok(())
}

fn a_group_is_removed_after_its_tasks() -> TestOutcome {
    let hierarchy = Hierarchy::find()?;
    let group = hierarchy.group("life");
    let path = group.path().to_owned();
    let staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 1)).stage();
    group.add_process(staged.tid("wl-ping"));
    assert!(path.is_dir());
    drop(staged);
    drop(group);
    assert!(!path.exists());
    Ok(())
}
