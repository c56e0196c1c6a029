//! A view that records shows what it shows of the recording, to the byte.

use nix::sys::signal::Signal;
use wakelat_tests::{
    attached_typed, machine,
    suite::{self, TestOutcome},
    task::Policy,
    wakelat::{AttachCase, Wakelat, command},
    workload::{BehindHog, Workload},
};

fn main() {
    suite::main(attached_typed![a_view_that_records_shows_what_it_shows_of_the_recording]);
}

/// Views with their keys and forms of output.
const VIEWS: [&str; 26] = [
    "hist",
    "hist --csv --by cpu,class --class wakeup,preempted",
    "hist --by component --json --comm wl-*",
    "hist --by waker,container --from waking",
    "hist --by comm,policy --threshold 1ms --json",
    "hist --by comm --from queued --csv",
    "hist 1 --json",
    "top --by pid,cgroup",
    "top --by comm --sort p99 --json",
    "top --interval 1s --last --csv",
    "trace --threshold 500us -T",
    "trace --json --from waking",
    "trace --csv --class preempted",
    "trace --breakdown --csv",
    "trace --breakdown --json --threshold 1ms",
    "trace --breakdown --comm wl-*",
    "trace --all -V",
    "trace --all -M",
    "trace --all --csv",
    "trace --all --json",
    "trace --all --json --from queued",
    "why --worst 3 --details",
    "why --json --by comm",
    "why --json --by tid --from queued",
    "why --by cgroup,class",
    "why --by waker --threshold 1ms --worst 5",
];

fn a_view_that_records_shows_what_it_shows_of_the_recording(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    for view in VIEWS {
        let has_intervals = ["hist 1", "--interval"].into_iter().any(|of| view.contains(of));
        let rounds = if has_intervals { 500 } else { 60 };
        let load = BehindHog { rounds, spin_ns: 3_000_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
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
