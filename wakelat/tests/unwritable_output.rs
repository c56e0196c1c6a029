//! An output that cannot be written is a failure, except for a pipe whose reader has gone. Nothing here needs privileges.

use std::{
    fs::File,
    io,
    process::{Command, Output, Stdio},
};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/demo.wakelat");

/// Views of recorded waits.
const VIEWS: [&[&str]; 12] = [
    &["demo"],
    &["demo", "hist", "--csv"],
    &["demo", "top"],
    &["demo", "top", "--csv"],
    &["demo", "trace"],
    &["demo", "trace", "--json"],
    &["demo", "trace", "--all", "--csv"],
    &["demo", "why"],
    &["demo", "why", "--json"],
    &["hist", "-i", RECORDING],
    &["hist", "-i", RECORDING, "--json", "1"],
    &["why", "-i", RECORDING, "--by", "comm"],
];

/// Other commands that write to standard output.
const OTHERS: [&[&str]; 7] = [
    &["--help"],
    &["--version"],
    &["hist", "--help"],
    &["doctor"],
    &["serve", "--check"],
    &["demo", "export", "--to", "csv", "-o", "-"],
    &["report", "-i", RECORDING, "-o", "-"],
];

fn wakelat(arguments: &[&str], stdout: impl Into<Stdio>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wakelat")).args(arguments).stdout(stdout).output().expect("wakelat")
}

#[test]
fn a_full_disk_is_a_failure_with_a_message() {
    for arguments in VIEWS.iter().chain(&OTHERS) {
        let full = File::options().write(true).open("/dev/full").expect("every Linux has /dev/full");
        let output = wakelat(arguments, full);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let expected = "wakelat: error: cannot write to standard output: No space left on device";
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_closed_pipe_ends_a_view_with_zero() {
    for arguments in VIEWS.into_iter().chain([OTHERS[0], OTHERS[1]]) {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let output = wakelat(arguments, writer);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(!said.contains("wakelat: error"), "{arguments:?}: {said}");
    }
}
