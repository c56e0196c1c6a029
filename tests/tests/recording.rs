//! A recording says what was said where it was made, as often as one asks.

use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached_typed, machine,
    suite::{self, Outcome},
    task::Policy,
    wakelat::{Attach, Wakelat, command},
    workload::{BehindHog, Workload},
};

fn main() {
    suite::main(attached_typed![a_recording_is_shown_by_any_key, a_recording_that_was_cut_short_is_refused]);
}

/// A recording of a task behind a hog, and what the workload says of it.
fn recorded(attach: Attach, file: &str) -> wakelat_tests::workload::Performance {
    let load = BehindHog { rounds: 40, spin_ns: 3_000_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
    let mut staged = Workload::BehindHog(load).stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let line = ["record", "--attach", attach.name(), "--class", "wakeup", "--tid", &tid, "-o", file];
    let record = Wakelat::measuring(command(&line));
    let performance = staged.perform();
    record.signal(Signal::SIGINT);
    let ended = record.end();
    assert!(ended.status.success(), "{ended:#?}");
    performance
}

fn why(file: &str, arguments: &[&str]) -> Value {
    let shown = command(&["why", "--json", "-i", file]).args(arguments).output().expect("wakelat");
    assert!(shown.status.success(), "{shown:?}");
    serde_json::from_slice(&shown.stdout).expect("a document")
}

fn sum(groups: &Value, of: &str) -> u64 {
    groups.as_array().expect("groups").iter().map(|group| group[of].as_u64().expect("a number")).sum()
}

fn a_recording_is_shown_by_any_key(attach: Attach) -> Outcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    let performance = recorded(attach, file);
    let mode = std::fs::metadata(file).expect("the recording").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others may read it: {mode:o}");
    let document = why(file, &[]);
    let waits = sum(&document["classes"], "count");
    assert_eq!(waits, document["coverage"]["delivered"], "{document}");
    assert!(waits <= performance.wakeups["wl-sleeper"], "{document}");
    assert!(waits + performance.untraced >= performance.wakeups["wl-sleeper"], "{document}");
    assert_eq!(document["antagonists"][0]["name"], "wl-hog", "{document}");
    for key in ["tid", "cpu", "policy,class"] {
        let by_key = why(file, &["--by", key]);
        for of in ["count", "sum_ns"] {
            assert_eq!(sum(&by_key["groups"], of), sum(&document["classes"], of), "by {key}: {by_key}");
        }
    }
    Ok(())
}

fn a_recording_that_was_cut_short_is_refused(attach: Attach) -> Outcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    recorded(attach, file.to_str().expect("a path"));
    let whole = std::fs::read(&file).expect("the recording");
    std::fs::write(&file, &whole[..whole.len() - 1]).expect("the recording");
    let shown = command(&["why", "-i"]).arg(&file).output().expect("wakelat");
    assert_eq!(shown.status.code(), Some(1), "{shown:?}");
    assert!(String::from_utf8_lossy(&shown.stderr).contains("before its end"), "{shown:?}");
    Ok(())
}
