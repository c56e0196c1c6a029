//! `wakelat ab`: two commands, recorded alternately and compared.

use std::{
    path::Path,
    process::{Child, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use wakelat_tests::{
    once,
    suite::{Case, TestOutcome},
    wakelat::command,
    workload::until,
};

pub fn cases() -> Vec<Case> {
    once![
        a_planted_hog_makes_the_new_arm_worse_and_is_the_first_cause,
        a_failed_command_ends_the_comparison_after_its_cleanup,
        a_signal_ends_the_recording_and_the_whole_runs_are_compared,
        a_signal_during_the_setup_compares_the_whole_runs_after_the_cleanup,
        output_of_setup_and_cleanup_is_no_part_of_the_result,
        runs_by_the_queue_clock_are_compared,
    ]
}

/// A task that sleeps for 2 ms and works for 1 ms on one CPU, 120 times.
const WORK: &str = "for i in $(seq 120); do sleep 0.002; j=0; while [ $j -lt 300 ]; do j=$((j+1)); done; done";

fn ab(directory: &Path, flags: &[&str], base: &str, new: &str) -> Child {
    let output = directory.to_str().expect("a path");
    let mut command = command(&[&["ab", "--output", output][..], flags].concat());
    command.args(["--", "bash", "-c", base, "---", "bash", "-c", new]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("wakelat")
}

/// The exit code, the document and the messages of a comparison.
fn ended(child: Child) -> (Option<i32>, Option<Value>, String) {
    let output = child.wait_with_output().expect("wakelat");
    let document = serde_json::from_slice(&output.stdout).ok();
    (output.status.code(), document, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn a_planted_hog_makes_the_new_arm_worse_and_is_the_first_cause() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let base = format!("taskset -c 0 bash -c '{WORK}'");
    // A real-time task that is busy on the same CPU for half of the time, whatever else this machine does. It pauses
    // without a process of that name.
    let busy = "echo hog > /proc/self/comm; exec 3<> <(:); while :; do j=0; \
         while [ $j -lt 1000 ]; do j=$((j+1)); done; read -t 0.002 -u 3; done";
    let new = format!("taskset -c 0 chrt -f 1 bash -c '{busy}' & {base}; kill %1");
    let flags = ["--json", "--runs", "7", "--class", "wakeup", "--comm", "sleep", "--margin", "20%"];
    let (code, document, said) = ended(ab(directory.path(), &flags, &base, &new));
    assert_eq!(code, Some(3), "{document:?} {said}");
    let document = document.expect("a document");
    assert_eq!(document["verdict"], "worse");
    let cause = document["groups"][0]["causes"][0]["name"].as_str().expect("a cause");
    assert!(cause.contains("hog"), "{cause}: {document}");
    let order: Vec<&str> = said.lines().filter_map(|line| line.split_once(" of 14: ")?.1.split(',').next()).collect();
    assert_eq!(order.join(" "), "base new new base base new new base base new new base base new", "{said}");
    Ok(())
}

fn a_failed_command_ends_the_comparison_after_its_cleanup() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let mark = directory.path().join("cleaned");
    let cleanup = format!("touch {}", mark.display());
    let (code, _, said) = ended(ab(&directory.path().join("runs"), &["--cleanup", &cleanup], "true", "exit 7"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("a run of `new` has failed") && mark.exists(), "{said}");
    Ok(())
}

/// As with Ctrl-C on a terminal, the setup gets the signal, too.
fn a_signal_during_the_setup_compares_the_whole_runs_after_the_cleanup() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().display();
    // Of the third run of the new arm.
    let setup =
        format!("echo >> {place}/count; [ $(wc -l < {place}/count) -lt 3 ] || {{ kill -INT $PPID; kill -INT $$; }}");
    let cleanup = format!("echo >> {place}/cleaned");
    let flags = ["--json", "--class", "wakeup", "--setup-b", &setup, "--cleanup", &cleanup];
    let (code, document, said) = ended(ab(&directory.path().join("runs"), &flags, WORK, WORK));
    assert_eq!(code, Some(5), "{said}");
    let document = document.expect("a document");
    let runs = |arm: &str| document[arm]["runs"].as_array().map(Vec::len);
    assert_eq!((runs("base"), runs("new")), (Some(3), Some(2)), "{document}");
    let cleaned = std::fs::read_to_string(directory.path().join("cleaned")).expect("a file");
    assert_eq!(cleaned.lines().count(), 6, "each run, and the one that was stopped");
    Ok(())
}

fn output_of_setup_and_cleanup_is_no_part_of_the_result() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = [
        "--json",
        "--runs",
        "1",
        "--class",
        "wakeup",
        "--setup-a",
        "echo planted-setup",
        "--cleanup",
        "echo planted-cleanup",
    ];
    let (_, document, said) = ended(ab(directory.path(), &flags, WORK, WORK));
    assert!(document.is_some() && said.contains("planted-setup") && said.contains("planted-cleanup"), "{said}");
    Ok(())
}

fn runs_by_the_queue_clock_are_compared() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = ["--json", "--runs", "1", "--class", "wakeup", "--from", "queued", "--accept-single-runs"];
    let (_, document, said) = ended(ab(directory.path(), &flags, WORK, WORK));
    let document = document.unwrap_or_else(|| panic!("{said}"));
    assert_eq!(document["base"]["runs"].as_array().map(Vec::len), Some(1), "{document}");
    Ok(())
}

fn a_signal_ends_the_recording_and_the_whole_runs_are_compared() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    // The first three runs end by themselves; the fourth does not.
    let counts = format!(
        "echo >> {0}/count; [ $(wc -l < {0}/count) -lt 4 ] || exec sleep 1000; {WORK}",
        directory.path().display()
    );
    let runs = directory.path().join("runs");
    let child = ab(&runs, &["--json", "--class", "wakeup"], &counts, &counts);
    let count = directory.path().join("count");
    until("the fourth run", || std::fs::read_to_string(&count).is_ok_and(|text| text.lines().count() == 4));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("a signal");
    let (code, document, said) = ended(child);
    assert_eq!(code, Some(5), "{said}");
    let document = document.expect("a document");
    let runs = |arm: &str| document[arm]["runs"].as_array().map(Vec::len);
    assert_eq!((runs("base"), runs("new")), (Some(1), Some(2)), "{document}");
    Ok(())
}
