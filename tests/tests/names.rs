//! Names are of the moment at which a task waited, or was there: what is gone by the report has the name that it had.

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached,
    cgroup::Hierarchy,
    machine,
    suite::{self, Outcome},
    wakelat::{Attach, Wakelat, command},
    workload::{PingPong, Workload},
};

fn main() {
    suite::main(attached![a_cgroup_that_is_removed_has_its_path, processes_and_threads_that_ended_have_their_names]);
}

fn ping_pong() -> Workload {
    Workload::PingPong(PingPong::on_one(machine::one_cpu(), 500))
}

fn measuring(attach: Attach, arguments: &[&str]) -> Wakelat {
    let mut all = vec!["hist", "--json", "--attach", attach.name(), "--comm", "wl-p*"];
    all.extend(arguments);
    Wakelat::measuring(command(&all))
}

/// Ends it as Ctrl-C does: the groups of its report.
fn groups(wakelat: Wakelat) -> Vec<Value> {
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    report["groups"].as_array().expect("a report has groups").clone()
}

fn a_cgroup_that_is_removed_has_its_path(attach: Attach) -> Outcome {
    let hierarchy = Hierarchy::find()?;
    let group = hierarchy.group("short-lived");
    let mut staged = ping_pong().stage();
    ["wl-ping", "wl-pong"].iter().for_each(|name| group.take_in(staged.tid(name)));
    let hist = measuring(attach, &["--by", "cgroup"]);
    staged.perform();
    drop(staged);
    drop(group);
    let groups = groups(hist);
    assert_eq!(groups.len(), 1, "{groups:?}");
    let path = groups[0]["key"]["cgroup"].as_str().expect("a path");
    assert!(path.ends_with("-short-lived"), "{path}");
    Ok(())
}

fn processes_and_threads_that_ended_have_their_names(attach: Attach) -> Outcome {
    for key in ["pid", "tid"] {
        let mut staged = ping_pong().stage();
        let tids = ["wl-ping", "wl-pong"].map(|name| (name, staged.tid(name)));
        let hist = measuring(attach, &["--by", key]);
        staged.perform();
        drop(staged);
        let groups = groups(hist);
        for (name, tid) in tids {
            let group = groups.iter().find(|group| group["key"][key] == tid);
            let group = group.unwrap_or_else(|| panic!("{key} {tid} is in no group: {groups:?}"));
            assert_eq!(group["key"]["comm"], name, "{group}");
        }
    }
    Ok(())
}
