//! The name of the process, as `ps` shows it. Nothing here needs privileges.

use std::{
    fs,
    os::unix::fs::symlink,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// wakelat starts others as `/proc/self/exe`, whose last part is the name that the kernel gives them.
#[test]
fn a_process_that_another_wakelat_has_started_has_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let exe = directory.path().join("exe");
    symlink(env!("CARGO_BIN_EXE_wakelat"), &exe).expect("a link");
    // It reads its input, which does not end.
    let mut process = Command::new(&exe);
    process.args(["hist-trigger", "show"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = process.spawn().expect("wakelat");
    let begun = Instant::now();
    let mut name = String::new();
    while name != "wakelat\n" && begun.elapsed() < Duration::from_secs(30) {
        sleep(Duration::from_millis(1));
        name = fs::read_to_string(format!("/proc/{}/comm", process.id())).expect("a process");
    }
    process.kill().expect("a process");
    process.wait().expect("a process");
    assert_eq!(name, "wakelat\n");
}
