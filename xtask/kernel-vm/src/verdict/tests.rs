use super::*;

const GOOD: &str = "\
##vm boot 6.12.117+deb12-rt-amd64
##vm suite kernel

running 2 tests
test a ... ok
test b ... VERIFIED sched_switch 412
ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

##vm suite-end 0
##vm end 0";

fn read(results: &str, console: &str, end: BootEnd) -> BootOutcome {
    let mut transcript = Transcript::default();
    for (number, line) in results.lines().enumerate() {
        transcript.result_line(line, Duration::from_millis(number as u64 + 1));
    }
    for line in console.lines() {
        transcript.console_line(line);
    }
    transcript.finish(end)
}

fn failure(results: &str, console: &str, end: BootEnd) -> String {
    read(results, console, end).failure.expect("a failure")
}

#[test]
fn a_good_run_passes_with_its_release_boot_time_and_counts() {
    let outcome = read(GOOD, "", BootEnd::Exit(33));
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.release.as_deref(), Some("6.12.117+deb12-rt-amd64"));
    assert_eq!(outcome.boot, Some(Duration::from_millis(1)));
    assert_eq!(outcome.counts(), (2, 0, 0));
    assert_eq!(outcome.suites, [("kernel".to_owned(), Duration::from_millis(9))]);
    assert_eq!(outcome.instructions, BTreeMap::from([((InstructionKind::Verified, "sched_switch".to_owned()), 412)]));
}

#[test]
fn the_largest_count_of_all_variants_of_a_program_is_kept() {
    let again = "VERIFIED sched_switch 9141\nVERIFIED sched_switch 16417\nVERIFIED sched_switch 500\nok";
    let outcome = read(&GOOD.replace("VERIFIED sched_switch 412\nok", again), "", BootEnd::Exit(33));
    assert_eq!(outcome.failure, None);
    assert_eq!(
        outcome.instructions,
        BTreeMap::from([((InstructionKind::Verified, "sched_switch".to_owned()), 16_417)])
    );
}

#[test]
fn output_between_a_test_and_its_result_does_not_hide_the_result() {
    let results = "\
##vm boot 6.1
##vm suite s
test quiet  ... ok
test loud   ... a line of its own
FAIL loud: 3 of 4 ns: {}
another
FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
##vm suite-end 101
##vm end 1";
    let outcome = read(results, "", BootEnd::Exit(35));
    let statuses: Vec<_> = outcome.tests.iter().map(|test| (test.name.as_str(), &test.status)).collect();
    assert_eq!(
        statuses,
        [("s::quiet", &TestStatus::Passed), ("s::loud", &TestStatus::Failed(Some("3 of 4 ns: {}".to_owned())))]
    );
    assert_eq!(outcome.failure.as_deref(), Some("1 of 2 tests failed"));
}

#[test]
fn a_test_that_prints_skip_is_skipped_with_its_reason_whether_it_ends_ok_or_ignored() {
    let results = "\
##vm suite s
test a ... SKIP a: no hist triggers
ok
test b ...
SKIP b: needs two CPUs, found one
ignored
test c ... ignored, not today
test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s
##vm suite-end 0
##vm end 0";
    // A test's own line ends in a space before its output begins.
    let outcome = read(&results.replace("b ...\n", "b ... \n"), "", BootEnd::Exit(33));
    let reasons: Vec<_> = outcome.tests.iter().map(|test| test.status.clone()).collect();
    let skipped = |reason: &str| TestStatus::Skipped(reason.to_owned());
    assert_eq!(reasons, [skipped("no hist triggers"), skipped("needs two CPUs, found one"), skipped("not today")]);
    assert_eq!(outcome.failure, None);
}

#[test]
fn a_result_lost_in_other_output_is_a_failure_not_a_silent_gap() {
    let results = GOOD.replace("test a ... ok", "test a ... noiseok");
    let failure = failure(&results, "", BootEnd::Exit(33));
    assert!(failure.contains("suite `kernel` counts 2 tests, but the results of 1 were seen"), "{failure}");
}

#[test]
fn a_panic_names_its_reason_and_the_test_that_ran() {
    let results = "##vm boot 6.1\n##vm suite s\ntest a ... ok\ntest b ... ";
    let console = "[   12.300000] BUG: kernel NULL pointer dereference, address: 0000000000000008\n\
                   [   12.345678][  T123] Oops: 0000 [#1] SMP\n\
                   [   12.400000] Kernel panic - not syncing: Fatal exception";
    let outcome = read(results, console, BootEnd::Exit(0));
    let failure = outcome.failure.clone().unwrap();
    assert!(
        failure.starts_with("kernel panic in `s::b`: Fatal exception; the kernel reported `BUG: kernel NULL"),
        "{failure}"
    );
    assert_eq!(outcome.counts(), (1, 1, 0));
}

#[test]
fn a_reboot_without_a_panic_message_is_a_failure_with_the_last_console_lines() {
    assert_eq!(
        failure("##vm boot 6.1", "one\ntwo", BootEnd::Exit(0)),
        "the guest rebooted; the console's last lines: one | two"
    );
}

#[test]
fn a_limit_names_the_test_that_hung() {
    let failed = |end| failure("##vm suite s\ntest a ... ", "", end);
    let limit = Duration::from_secs(180);
    assert_eq!(failed(BootEnd::Silent(limit)), "silent for 180 s in `s::a`; 1 of 1 tests failed");
    assert_eq!(failed(BootEnd::TimeLimit(limit)), "still running after 180 s in `s::a`; 1 of 1 tests failed");
}

#[test]
fn a_report_of_the_kernel_fails_a_run_whose_tests_all_passed() {
    for console in [
        "[   40.0] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [a:12]",
        "[   40.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "[   40.0] rcu: INFO: rcu_preempt self-detected stall on CPU",
        "[   40.0] rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-... } 7 jiffies s: 9 root: 0x2/.",
        "[   40.0] INFO: task a:12 blocked for more than 120 seconds.",
        "[    2.5] Initramfs unpacking failed: write error",
    ] {
        let failure = failure(GOOD, console, BootEnd::Exit(33));
        assert!(failure.starts_with("the kernel reported `") && !failure.contains("40.0"), "{failure}");
    }
}

#[test]
fn a_kernel_warning_is_reported_but_does_not_fail() {
    let outcome = read(GOOD, "[    1.0] WARNING: CPU: 0 PID: 1 at kernel/x.c:1 f+0x0/0x1", BootEnd::Exit(33));
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.warnings, ["WARNING: CPU: 0 PID: 1 at kernel/x.c:1 f+0x0/0x1"]);
}

#[test]
fn a_suite_that_crashes_fails_with_the_test_it_was_in() {
    let results = "##vm suite s\ntest a ... \n##vm suite-end 139\n##vm end 1";
    assert_eq!(failure(results, "", BootEnd::Exit(35)), "suite `s` ended with 139 in `s::a`; 1 of 1 tests failed");
}

#[test]
fn a_failed_command_is_reported_with_its_exit_code() {
    assert_eq!(failure("##vm boot 6.1\n##vm end 3", "", BootEnd::Exit(35)), "the command ended with 3");
    assert_eq!(read("##vm boot 6.1\nhello\n##vm end 0", "", BootEnd::Exit(33)).failure, None);
}

#[test]
fn success_without_a_report_from_the_init_is_a_failure() {
    assert_eq!(failure("##vm boot 6.1", "", BootEnd::Exit(33)), "the guest ended without a report from its init");
}

#[test]
fn an_emulator_that_cannot_start_is_reported_with_its_message() {
    assert_eq!(
        failure("", "qemu-system-x86_64: -cpu max: no", BootEnd::Exit(1)),
        "QEMU ended with 1; the console's last lines: qemu-system-x86_64: -cpu max: no"
    );
    assert_eq!(failure("", "", BootEnd::Signal(9)), "QEMU was killed by signal 9");
}

#[test]
fn a_problem_of_the_init_and_an_unknown_marker_are_failures() {
    let results =
        GOOD.replace("##vm suite kernel", "##vm problem cannot mount bpf on `/sys/fs/bpf`: no\n##vm suite kernel");
    assert_eq!(failure(&results, "", BootEnd::Exit(33)), "cannot mount bpf on `/sys/fs/bpf`: no");
    assert!(failure(&format!("##vm what\n{GOOD}"), "", BootEnd::Exit(33)).contains("cannot read `##vm what`"));
}
