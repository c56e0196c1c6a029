//! Bad input and bad environments: each gives a clear message with a remedy, or a clean end with the result so far.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::signal::Signal,
};
use wakelat_tests::{
    machine, once,
    report::JsonReport,
    suite::{Case, Skip, TestOutcome},
    wakelat::{Wakelat, as_nobody, command},
    workload::{PingPong, Workload, until},
};

pub fn cases() -> Vec<Case> {
    once![
        help_and_version_need_no_privileges,
        an_unknown_flag_is_a_usage_error,
        an_impossible_duration_is_a_usage_error,
        a_missing_cpu_is_named_in_the_error,
        an_invalid_cgroup_path_is_named_in_the_error,
        a_filter_that_matches_nothing_is_reported,
        without_root_the_error_names_the_remedy,
        a_missing_capability_is_named_in_the_error,
        an_explicit_attach_method_without_btf_names_the_kernel_option,
        the_queue_clock_needs_more_than_classic_tracepoints,
        without_btf_wakelat_still_measures,
        without_tracefs_wakelat_still_measures,
        verify_without_tracefs_does_not_blame_the_kernel,
        a_ring_that_is_too_large_is_refused,
        a_closed_pipe_ends_with_zero,
        a_full_disk_is_a_failure_with_a_message,
        ctrl_c_ends_with_the_result,
        sigterm_ends_with_the_result,
        a_closed_terminal_ends_the_run,
        a_second_signal_ends_a_run_whose_output_is_not_read,
        a_duration_ends_with_the_result,
        csv_of_waits_has_its_coverage_on_standard_error,
        a_threshold_that_is_hit_ends_with_exit_code_3,
        the_threshold_action_signals_the_given_process,
        a_command_of_the_threshold_that_cannot_start_is_named_after_the_result,
    ]
}

fn run(arguments: &[&str]) -> wakelat_tests::wakelat::RunOutput {
    Wakelat::start(command(arguments)).end()
}

fn hist() -> Command {
    command(&["hist", "--json"])
}

/// Runs `command` in a mount namespace of its own, after `prepare` has run in it.
fn in_own_mounts(command: &mut Command, prepare: impl Fn() -> nix::Result<()> + Send + Sync + 'static) {
    let setup = move || {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
        prepare()?;
        Ok(())
    };
    // SAFETY: system calls on constant paths short enough for nix to keep them on the stack: no allocation.
    unsafe { command.pre_exec(setup) };
}

fn help_and_version_need_no_privileges() -> TestOutcome {
    for arguments in [&["--help"][..], &["--version"], &["hist", "--help"]] {
        let mut command = command(arguments);
        as_nobody(&mut command);
        let ended = Wakelat::start(command).end();
        assert!(ended.status.success() && !ended.stdout.is_empty(), "{ended:#?}");
    }
    Ok(())
}

fn an_unknown_flag_is_a_usage_error() -> TestOutcome {
    run(&["hist", "--no-such-flag"]).assert_refused(2, &["--no-such-flag"]);
    run(&["no-such-command"]).assert_refused(2, &["no-such-command"]);
    Ok(())
}

fn an_impossible_duration_is_a_usage_error() -> TestOutcome {
    for duration in ["-1s", "0s", "10 parsecs", "99999999999999999999h"] {
        run(&["hist", "-d", duration]).assert_refused(2, &[]);
    }
    run(&["hist", "-d", "10parsecs"]).assert_refused(2, &["10parsecs", "30s"]);
    Ok(())
}

fn a_missing_cpu_is_named_in_the_error() -> TestOutcome {
    run(&["hist", "--cpus", "8000"]).assert_refused(2, &["8000"]);
    run(&["hist", "--cpus", "two"]).assert_refused(2, &["two"]);
    Ok(())
}

fn an_invalid_cgroup_path_is_named_in_the_error() -> TestOutcome {
    run(&["hist", "--cgroup", "/no/such/group"]).assert_refused(2, &["/no/such/group"]);
    run(&["hist", "--cgroup", "/proc"]).assert_refused(2, &["/proc"]);
    Ok(())
}

fn a_filter_that_matches_nothing_is_reported() -> TestOutcome {
    let ended = run(&["hist", "--comm", "no-such-task", "-d", "100ms"]);
    assert!(ended.status.success(), "{ended:#?}");
    assert!(format!("{}{}", ended.stdout, ended.stderr).contains("filter"), "{ended:#?}");
    Ok(())
}

fn without_root_the_error_names_the_remedy() -> TestOutcome {
    // Without its own capabilities, such a user cannot read tracefs either: that is not the reason.
    for attach in ["auto", "classic"] {
        let mut command = command(&["hist", "--attach", attach, "-d", "100ms"]);
        as_nobody(&mut command);
        let ended = Wakelat::start(command).end();
        ended.assert_refused(1, &["wakelat: error:", "cap_bpf", "sudo"]);
        assert!(!ended.stderr.contains("mount"), "{attach}: {ended:#?}");
    }
    Ok(())
}

/// Makes `command` run as root, but without any of the capabilities that allow loading programs.
fn without_bpf_capabilities(command: &mut Command) {
    // include/uapi/linux/capability.h.
    const CAP_SYS_ADMIN: libc::c_ulong = 21;
    const CAP_PERFMON: libc::c_ulong = 38;
    const CAP_BPF: libc::c_ulong = 39;
    let drop_some = || {
        for capability in [CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF] {
            // SAFETY: only numbers. What leaves the bounding set is not in the permitted set after exec.
            if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: three system calls, no allocation.
    unsafe { command.pre_exec(drop_some) };
}

fn a_missing_capability_is_named_in_the_error() -> TestOutcome {
    let mut command = hist();
    without_bpf_capabilities(&mut command);
    Wakelat::start(command).end().assert_refused(1, &["wakelat: error:", "cap_bpf", "setcap"]);
    Ok(())
}

/// Hides the kernel's BTF from `command`.
fn without_btf(command: &mut Command) {
    in_own_mounts(command, || mount(Some("none"), "/sys/kernel/btf", Some("tmpfs"), MsFlags::empty(), None::<&str>));
}

fn an_explicit_attach_method_without_btf_names_the_kernel_option() -> TestOutcome {
    for attach in ["btf", "raw"] {
        let mut command = command(&["hist", "--attach", attach]);
        without_btf(&mut command);
        Wakelat::start(command).end().assert_refused(1, &["wakelat: error:", "CONFIG_DEBUG_INFO_BTF"]);
    }
    Ok(())
}

fn the_queue_clock_needs_more_than_classic_tracepoints() -> TestOutcome {
    run(&["hist", "--from", "queued", "--attach", "classic"]).assert_refused(1, &["`--from queued`", "--from wakeup"]);
    run(&["why", "--mode", "aggregate", "--attach", "classic"]).assert_refused(1, &["`why --mode aggregate` reads"]);
    Ok(())
}

fn without_btf_wakelat_still_measures() -> TestOutcome {
    let mut command = command(&["hist", "--json", "--comm", "wl-p?ng"]);
    without_btf(&mut command);
    assert_measures(command);
    Ok(())
}

/// Asserts that `command` finds the wakeups of a ping-pong.
fn assert_measures(command: Command) {
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 100)).stage();
    let wakelat = Wakelat::measuring(command);
    let performance = staged.perform();
    wakelat.report().coverage.wakeups.assert_complete(performance.wakeups(), &performance);
}

fn without_tracefs_wakelat_still_measures() -> TestOutcome {
    let mut command = command(&["hist", "--json", "--comm", "wl-p?ng"]);
    in_own_mounts(&mut command, || {
        for path in ["/sys/kernel/debug/tracing", "/sys/kernel/tracing"] {
            // EINVAL if it is not mounted anyway.
            let _ = umount2(path, MntFlags::MNT_DETACH);
        }
        Ok(())
    });
    assert_measures(command);
    Ok(())
}

fn verify_without_tracefs_does_not_blame_the_kernel() -> TestOutcome {
    const TRACEFS: &str = "/sys/kernel/tracing";
    let unmounted = || {
        for path in ["/sys/kernel/debug", TRACEFS] {
            // EINVAL if it is not mounted anyway.
            let _ = umount2(path, MntFlags::MNT_DETACH);
        }
        Ok(())
    };
    // Still in the list of mounts, but with nothing below it that this process may use.
    let closed = || {
        let _ = umount2("/sys/kernel/debug", MntFlags::MNT_DETACH);
        mount(None::<&str>, TRACEFS, Some("tmpfs"), MsFlags::empty(), None::<&str>)
    };
    for (reason, remedy, prepare) in [
        ("tracefs_not_mounted", "mount -t tracefs", unmounted as fn() -> nix::Result<()>),
        ("tracefs_closed", "not accessible to this user", closed),
    ] {
        let verify = |arguments: &[&str]| {
            let mut command = command(&[&["verify", "--json", "-d", "100ms"], arguments].concat());
            in_own_mounts(&mut command, prepare);
            Wakelat::start(command).end()
        };
        let ended = verify(&[]);
        let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"));
        assert_eq!(document["not_compared"]["reason"], reason, "{document:#}");
        assert!(!document["not_compared"]["text"].to_string().contains("CONFIG_HIST_TRIGGERS"), "{document:#}");
        // In such a short window on a busy machine, one of the checks may disagree.
        let code = if document["verdict"] == "disagree" { 3 } else { 4 };
        assert_eq!(ended.status.code(), Some(code), "{ended:#?}");
        verify(&["--require-triggers"]).assert_refused(1, &["--require-triggers", remedy]);
    }
    Ok(())
}

fn a_ring_that_is_too_large_is_refused() -> TestOutcome {
    run(&["hist", "--ring-size", "16E"]).assert_refused(2, &["ring"]);
    let ended = run(&["hist", "--ring-size", "64G"]);
    assert!(matches!(ended.status.code(), Some(1 | 2)), "{ended:#?}");
    assert!(ended.stderr.contains("ring") && !ended.stderr.contains("panicked"), "{ended:#?}");
    Ok(())
}

fn a_closed_pipe_ends_with_zero() -> TestOutcome {
    // What `wakelat trace | head -1` does: the reader exits after one line, while the writer has more to print.
    let mut command = command(&["trace", "--threshold", "1ns", "--class", "wakeup,new,preempted"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakelat can be run");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut line).expect("a line");
    assert!(!line.is_empty());
    drop(stdout);
    let ended = Wakelat::from_child(child).end();
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    assert!(!ended.stderr.contains("error") && !ended.stderr.contains("panicked"), "{ended:#?}");
    Ok(())
}

fn a_full_disk_is_a_failure_with_a_message() -> TestOutcome {
    run(&["hist", "--json", "-d", "200ms", "-o", "/dev/full"]).assert_refused(1, &["wakelat: error:", "/dev/full"]);
    let views = [&["hist"][..], &["top", "--csv"], &["trace", "--json"], &["why"], &["record", "-o", "-"]];
    for view in &views[..if machine::ring_buffer_may_sleep() { 2 } else { 5 }] {
        let full = File::options().write(true).open("/dev/full").expect("every Linux has /dev/full");
        let child = command(&[*view, &["-d", "200ms"]].concat()).stdout(full).stderr(Stdio::piped()).spawn();
        Wakelat::from_child(child.expect("wakelat")).end().assert_refused(1, &["error: ", "No space left on device"]);
    }
    Ok(())
}

fn assert_ends_with_the_result(signal: Signal) {
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 100)).stage();
    let wakelat = Wakelat::measuring(command(&["hist", "--json", "--comm", "wl-p?ng"]));
    let performance = staged.perform();
    wakelat.signal(signal);
    let reports = wakelat.end().reports();
    assert_eq!(reports.len(), 1);
    reports[0].coverage.wakeups.assert_complete(performance.wakeups(), &performance);
}

fn ctrl_c_ends_with_the_result() -> TestOutcome {
    assert_ends_with_the_result(Signal::SIGINT);
    Ok(())
}

fn sigterm_ends_with_the_result() -> TestOutcome {
    assert_ends_with_the_result(Signal::SIGTERM);
    Ok(())
}

/// A pseudoterminal: the leader of a session on its second end gets SIGHUP when the first end is closed.
fn terminal() -> Result<(File, File), Skip> {
    use std::os::fd::FromRawFd;
    let (mut leader, mut follower) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: two valid pointers for descriptors, and no name, settings or size.
    if unsafe { libc::openpty(&mut leader, &mut follower, none, none.cast(), none.cast()) } != 0 {
        return Err(Skip::because(format!("no pseudoterminal: {}", std::io::Error::last_os_error())));
    }
    // SAFETY: openpty has just opened both, and nothing else owns them.
    let ends = unsafe { (File::from_raw_fd(leader), File::from_raw_fd(follower)) };
    // If the child held it as well, the first end would never be closed.
    fcntl(&ends.0, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a descriptor can be marked");
    Ok(ends)
}

fn a_closed_terminal_ends_the_run() -> TestOutcome {
    let (mut leader, follower) = terminal()?;
    let mut command = command(&["hist"]);
    let output = || Stdio::from(follower.try_clone().expect("a descriptor can be duplicated"));
    command.stdin(output()).stdout(output()).stderr(output());
    let own_session = || {
        nix::unistd::setsid()?;
        // SAFETY: only numbers; standard input is the terminal.
        match unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: two system calls, no allocation.
    unsafe { command.pre_exec(own_session) };
    let mut child = command.spawn().expect("wakelat can be run");
    // `command` also holds the terminal's second end open.
    drop((follower, command));
    let mut printed = Vec::new();
    while !String::from_utf8_lossy(&printed).contains("wakelat: measuring") {
        let mut bytes = [0; 256];
        let count = leader
            .read(&mut bytes)
            .unwrap_or_else(|error| panic!("wakelat ended ({error}) after it printed {printed:?}"));
        printed.extend(&bytes[..count]);
    }
    drop(leader);
    until("wakelat has ended", || wakelat_tests::procfs::state(child.id()).is_none_or(|state| state == 'Z'));
    let status = child.wait().expect("a child can be waited for");
    assert!(status.code().is_some(), "wakelat must exit by itself, not by {status}");
    Ok(())
}

fn a_second_signal_ends_a_run_whose_output_is_not_read() -> TestOutcome {
    // One page: less than the lines of the workload.
    let page = machine::page_size();
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), page as u64 / 40)).stage();
    let mut command = command(&["trace", "--comm", "wl-p?ng"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakelat can be run");
    let unread = child.stdout.take().expect("piped");
    let page = i32::try_from(page).expect("a page is small");
    fcntl(&unread, FcntlArg::F_SETPIPE_SZ(page)).expect("a pipe can be made smaller");
    let threads = format!("/proc/{}/task", child.id());
    let mut wakelat = Wakelat::from_child(child);
    wakelat.until_measuring();
    staged.perform();
    let writing = format!("{} 0x1 ", libc::SYS_write);
    until("the pipe is full", || {
        let in_syscall = |thread: &Path| fs::read_to_string(thread.join("syscall")).unwrap_or_default();
        let mut threads = fs::read_dir(&threads).expect("wakelat runs").flatten();
        threads.any(|thread| in_syscall(&thread.path()).starts_with(&writing))
    });
    wakelat.signal(Signal::SIGTERM);
    until("a second signal has ended it", || {
        wakelat.signal(Signal::SIGTERM);
        wakelat_tests::procfs::state(wakelat.pid()) == Some('Z')
    });
    assert_eq!(wakelat.end().killed_by(), Some(Signal::SIGTERM as i32));
    drop(unread);
    Ok(())
}

fn a_duration_ends_with_the_result() -> TestOutcome {
    let reports = run(&["hist", "--json", "-d", "300ms"]).reports();
    assert_eq!(reports.len(), 1);
    assert!(reports[0].duration_ns >= 300_000_000, "{} ns", reports[0].duration_ns);
    let reports = run(&["hist", "--json", "0.1", "3"]).reports();
    assert_eq!(reports.len(), 3);
    Ok(())
}

fn csv_of_waits_has_its_coverage_on_standard_error() -> TestOutcome {
    let ended = run(&["trace", "--csv", "--duration", "100ms"]);
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.stdout.starts_with("at_ns,") && !ended.stdout.contains("coverage"), "{ended:?}");
    assert!(ended.stderr.contains(" measured"), "{ended:?}");
    let quiet = run(&["trace", "--csv", "--duration", "100ms", "--quiet"]);
    assert!(!quiet.stderr.contains(" measured"), "{quiet:?}");
    Ok(())
}

fn a_threshold_that_is_hit_ends_with_exit_code_3() -> TestOutcome {
    let ended = run(&["hist", "--json", "--threshold", "1ns", "--on-threshold", "stop"]);
    assert_eq!(ended.status.code(), Some(3), "{ended:#?}");
    assert!(JsonReport::parse_all(&ended.stdout)[0].coverage.wakeups.measured > 0);
    Ok(())
}

fn a_command_of_the_threshold_that_cannot_start_is_named_after_the_result() -> TestOutcome {
    let mut hist = command(&["hist", "--json", "-d", "60s", "--threshold", "1ns", "--on-threshold", "exec:true"]);
    // There is no shell.
    hist.env("PATH", "/nonexistent");
    let ended = Wakelat::start(hist).end();
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("cannot run `true`"), "{ended:#?}");
    assert!(JsonReport::parse_all(&ended.stdout)[0].coverage.wakeups.measured > 0);
    Ok(())
}

fn the_threshold_action_signals_the_given_process() -> TestOutcome {
    let mut staged = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 10)).stage();
    let victim = Workload::PingPong(PingPong::on_one(machine::one_cpu(), 10)).stage();
    let pid = victim.tid("wl-pong");
    let action = format!("signal:TERM:{pid}");
    let arguments = ["hist", "--json", "--comm", "wl-p?ng", "--threshold", "1ns", "--on-threshold", &action];
    let wakelat = Wakelat::measuring(command(&arguments));
    staged.perform();
    until("the signal has ended the task", || wakelat_tests::procfs::state(pid).is_none_or(|state| state == 'Z'));
    wakelat.report();
    Ok(())
}
