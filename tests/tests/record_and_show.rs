//! A view that records shows what it shows of the recording, to the byte.

use nix::sys::signal::Signal;
use wakelat_tests::{
    attached_typed,
    cgroup::Hierarchy,
    machine,
    suite::{Case, TestOutcome},
    switches::JsonSwitch,
    task::Policy,
    wakelat::{AttachCase, Wakelat, command},
    workload::{BehindHog, CgroupMover, Workload},
};

pub fn cases() -> Vec<Case> {
    attached_typed![
        a_view_that_records_shows_what_it_shows_of_the_recording,
        a_recording_has_each_wakeup_if_it_is_requested,
        a_task_that_moved_to_another_cgroup_leaves_the_cpu_in_that,
    ]
}

/// Views with their keys and forms of output.
const VIEWS: [&str; 33] = [
    "hist",
    "hist --csv --by cpu,class --class wakeup,preempted",
    "hist --by component --json --comm wl-*",
    "hist --by waker,container --from waking",
    "hist --by comm,policy --threshold 1ms --json",
    "hist --by comm --from queued --csv",
    "hist 1 --json",
    "top --by pid,cgroup",
    "top --by comm --sort p99 --json",
    "top --by comm,cpu --csv",
    "top --by tid,comm --json --comm wl-*",
    "top --interval 1s --last --csv",
    "trace --threshold 500us -T",
    "trace --json --from waking",
    "trace --csv --class preempted",
    "trace --breakdown --csv",
    "trace --breakdown --json --threshold 1ms",
    "trace --breakdown --comm wl-*",
    "trace --all -V",
    "trace --all -M",
    "trace --all -MVw",
    "trace --all -w --comm wl-*",
    "trace --all -Mw --csv",
    "trace --all -Mw --json",
    "trace --all --csv",
    "trace --all --json",
    "trace --all --json --from queued",
    "why --worst 3 --details",
    "why --json --by comm",
    "why --json --by tid --from queued",
    "why --by cgroup,class",
    "why --by waker --threshold 1ms --worst 5",
    "why --stacks --worst 2 --json",
];

fn a_view_that_records_shows_what_it_shows_of_the_recording(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    for view in VIEWS {
        // All of them take minutes in a guest, which may not be silent for so long.
        println!("\n  {view}");
        let has_intervals = ["hist 1", "--interval"].into_iter().any(|of| view.contains(of));
        // Longer than an interval; waits that are longer than the thresholds.
        let (rounds, spin_ns) = if has_intervals { (500, 3_000_000) } else { (60, 1_500_000) };
        let load = BehindHog { rounds, spin_ns, cpu: machine::one_cpu(), sleeper: Policy::Other };
        let mut staged = Workload::BehindHog(load).stage();
        let view: Vec<&str> = view.split(' ').collect();
        let measured = command(&[&view[..], &["--attach", attach.name(), "--record", file]].concat());
        let measured = Wakelat::measuring(measured);
        staged.perform();
        measured.signal(Signal::SIGINT);
        let live = measured.end();
        assert!(live.status.success(), "{view:?}: {live:#?}");
        let read = command(&[&view[..], &["-q", "-i", file]].concat()).output().expect("wakelat");
        assert!(read.status.success(), "{view:?}: {read:?}");
        let read = String::from_utf8(read.stdout).expect("UTF-8");
        assert!(!read.is_empty() && live.stdout == read, "{view:?}:\n{}\n{read}", live.stdout);
    }
    Ok(())
}

fn a_recording_has_each_wakeup_if_it_is_requested(attach: AttachCase) -> TestOutcome {
    const ROUNDS: u64 = 40;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    let show = || {
        let shown = command(&["trace", "--all", "-w", "--csv", "-q", "-i", file]).output().expect("wakelat");
        (
            shown.status.code(),
            String::from_utf8(shown.stdout).expect("UTF-8"),
            String::from_utf8_lossy(&shown.stderr).into_owned(),
        )
    };
    for flags in [&["--wakeups", "--migrations"][..], &[]] {
        let load = BehindHog { rounds: ROUNDS, spin_ns: 1_000_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
        let mut staged = Workload::BehindHog(load).stage();
        let record = [&["record", "--attach", attach.name(), "-o", file], flags].concat();
        let record = Wakelat::measuring(command(&record));
        staged.perform();
        record.signal(Signal::SIGINT);
        let record = record.end();
        assert!(record.status.success(), "{record:?}");
        let (code, out, err) = show();
        if flags.is_empty() {
            assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
            assert!(err.contains("`--wakeups`: the recording has no wakeups"), "{err}");
            continue;
        }
        assert_eq!(code, Some(0), "{err}");
        let wakeups = out.lines().filter(|line| line.starts_with("wakeup,") && line.contains("wl-sleeper"));
        assert!(wakeups.count() as u64 >= ROUNDS, "{out}");
    }
    Ok(())
}

fn a_task_that_moved_to_another_cgroup_leaves_the_cpu_in_that(attach: AttachCase) -> TestOutcome {
    const ROUNDS: u64 = 40;
    let hierarchy = Hierarchy::find()?;
    let (home, away) = (hierarchy.group("home"), hierarchy.group("away"));
    let [home_path, away_path] = [&home, &away].map(|group| group.path().to_owned());
    let load = CgroupMover { rounds: ROUNDS, cpu: machine::one_cpu(), home: home_path, away: away_path };
    let mut staged = Workload::CgroupMover(load).stage();
    let tid = staged.tid("wl-moved");
    home.add_process(tid);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    let record = Wakelat::measuring(command(&["record", "--attach", attach.name(), "-o", file]));
    let performance = staged.perform();
    record.signal(Signal::SIGINT);
    let record = record.end();
    assert!(record.status.success(), "{record:?}");
    let line = ["trace", "--all", "--json", "-q", "--tid", &tid.to_string(), "-i", file];
    let shown = command(&line).output().expect("wakelat");
    let switches = JsonSwitch::parse_all(&String::from_utf8(shown.stdout).expect("UTF-8"));
    let count = |id| switches.iter().filter(|switch| switch.cgroup_id == Some(id)).count() as u64;
    let (at_home, moved) = (count(home.id()), count(away.id()));
    println!("\n  {at_home} slices ended at home, {moved} elsewhere");
    assert_eq!(at_home + moved, switches.len() as u64, "{switches:#?}");
    // A slice may also end while the task moves.
    assert!(moved + performance.untraced >= ROUNDS, "{moved} of {switches:#?}");
    drop(staged);
    Ok(())
}
