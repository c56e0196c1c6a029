//! Commands that a run starts: the one that it measures, as in `wakelat hist -- COMMAND`, and that of a threshold.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{PermissionsExt as _, symlink},
    process::{Command, Stdio},
    time::Instant,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    machine, once, procfs,
    report::{JsonReport, JsonSwitchIns},
    suite::{Case, Skip, TestOutcome},
    wakelat::{Wakelat, command},
    workload::{PingPong, Workload, until},
};

pub fn cases() -> Vec<Case> {
    once![
        a_run_ends_with_its_command_and_has_its_exit_code,
        every_task_of_a_command_is_in_the_window,
        the_tree_of_a_command_is_the_command_and_all_that_it_forks,
        the_tree_of_a_process_has_the_descendants_that_exist_already,
        a_process_forked_in_a_pause_belongs_to_the_tree,
        a_command_is_started_as_without_wakelat,
        a_command_that_cannot_run_ends_the_run,
        a_signal_ends_the_run_and_its_command,
        a_window_that_ends_leaves_its_command_alone,
        a_threshold_whose_action_fails_ends_the_command,
        a_command_of_the_threshold_does_not_inherit_the_readers_priority,
    ]
}

/// The exit code, standard output and standard error of `wakelat` with these arguments.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command(arguments).output().expect("wakelat");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn a_run_ends_with_its_command_and_has_its_exit_code() -> TestOutcome {
    for (script, expected) in [("true", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
        for view in [&["hist", "--json"][..], &["top", "--json"], &["trace", "--json"], &["why", "--json"]] {
            let (code, shown, said) = run(&[view, &["-q", "--", "sh", "-c", script]].concat());
            assert_eq!(code, Some(expected), "{view:?} {script}: {said}");
            let last = shown.lines().last().expect("a document");
            let report: Value = serde_json::from_str(last).expect("JSON");
            assert!(report["duration_ns"].as_u64().expect("a length") < 60_000_000_000, "{view:?} {script}: {report}");
        }
    }
    Ok(())
}

/// The window is open before the command begins, and closes after it has ended.
fn every_task_of_a_command_is_in_the_window() -> TestOutcome {
    const TASKS: u64 = 20;
    let script = format!("i=0; while [ $i -lt {TASKS} ]; do (exec true) & wait; i=$((i+1)); done");
    // Under a name that no other shell has.
    let directory = tempfile::tempdir().expect("a directory");
    let shell = directory.path().join("wl-shell");
    symlink("/bin/bash", &shell).expect("a link");
    let filtered = ["hist", "--class", "new", "--by", "comm", "--comm", "wl-shell", "--json", "-q"];
    let launched = ["--", shell.to_str().expect("a path"), "-c", &script];
    let (code, shown, said) = run(&[&filtered[..], &launched].concat());
    assert_eq!(code, Some(0), "{said}");
    assert_has_new_waits("wl-shell", TASKS, &shown);
    Ok(())
}

/// Checks that a report of class `new` by name has `expected` waits of tasks named `comm` and no others, except for
/// those whose switches the machine hid.
fn assert_has_new_waits(comm: &str, expected: u64, report: &str) {
    let report: JsonReport = serde_json::from_str(report.trim()).expect("JSON");
    assert!(report.groups.iter().all(|group| group.key["comm"] == comm), "{report:?}");
    let waits: u64 = report.groups.iter().map(|group| group.count).sum();
    let by_queue = |terms: &JsonSwitchIns| terms.unknown_start + terms.after_unseen + terms.unseen;
    let hidden = report.coverage.wakeups.missed_switch + report.coverage.switch_ins.as_ref().map_or(0, by_queue);
    assert!(
        (expected.saturating_sub(hidden)..=expected).contains(&waits),
        "{waits} waits, {hidden} hidden: {report:?}"
    );
}

fn the_tree_of_a_command_is_the_command_and_all_that_it_forks() -> TestOutcome {
    const ROUNDS: u64 = 20;
    let others = ["-c", "while :; do (exec true) & wait; done"];
    let mut others = Command::new("bash").args(others).spawn().expect("bash");
    let script = format!("i=0; while [ $i -lt {ROUNDS} ]; do ( (exec true) & wait ) & wait; i=$((i+1)); done");
    let of = |attach, from| {
        let tree = ["hist", "--tree", "--class", "new", "--by", "comm", "--json", "-q", "--attach", attach];
        run(&[&tree[..], &["--from", from, "--", "bash", "-c", &script]].concat())
    };
    let runs = [("btf", "wakeup"), ("btf", "queued"), ("raw", "wakeup"), ("raw", "queued")];
    let shown = runs.map(|(attach, from)| of(attach, from));
    others.kill().expect("bash");
    others.wait().expect("bash");
    for (code, shown, said) in shown {
        assert_eq!(code, Some(0), "{said}");
        assert_has_new_waits("bash", 2 * ROUNDS, &shown);
    }
    Ok(())
}

fn the_tree_of_a_process_has_the_descendants_that_exist_already() -> TestOutcome {
    const FORKS: u64 = 20;
    // The descendant says that it exists, and forks when its input ends.
    let forks = format!("i=0; while [ $i -lt {FORKS} ]; do (exec true) & wait; i=$((i+1)); done");
    let script = format!("exec 3<&0; {{ (echo begun; read line; {forks}) & wait; }} <&3");
    let mut tree = Command::new("bash");
    let tree = tree.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut tree = tree.spawn().expect("bash");
    let mut begun = String::new();
    BufReader::new(tree.stdout.take().expect("a pipe")).read_line(&mut begun).expect("bash writes");
    let pid = tree.id().to_string();
    let hist = ["hist", "--tree", "--pid", &pid, "--class", "new", "--by", "comm", "--json"];
    let wakelat = Wakelat::measuring(command(&hist));
    drop(tree.stdin.take());
    assert!(tree.wait().expect("bash").success());
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:?}");
    assert_has_new_waits("bash", FORKS, &ended.stdout);
    Ok(())
}

/// With a limit, a run begins with a pause. The command forks its child in it: the child's first wait is not measured,
/// and its later ones are. The kernel aggregates, so all tasks are measured between pauses.
fn a_process_forked_in_a_pause_belongs_to_the_tree() -> TestOutcome {
    if machine::is_emulated() {
        return Err(Skip::because("needs a machine that is not emulated"));
    }
    // Under a name that no other shell has.
    let directory = tempfile::tempdir().expect("a directory");
    let shell = directory.path().join("wl-late");
    symlink("/bin/bash", &shell).expect("a link");
    // The end of each of its own children wakes it, until seconds after the pause.
    let child = "i=0; while [ $i -lt 400 ]; do sleep 0.01; i=$((i+1)); done";
    let script = format!("{} -c '{child}' & wait", shell.display());
    let hist = ["hist", "--tree", "--mode", "aggregate", "--class", "wakeup,new", "--by", "comm", "--json", "-q"];
    for _ in 0..3 {
        let (code, shown, said) = run(&[&hist[..], &["--max-overhead", "10%", "--", "bash", "-c", &script]].concat());
        assert_eq!(code, Some(0), "{said}");
        let report = JsonReport::parse_all(&shown).remove(0);
        // On a busy machine, the pause may be over when the command forks.
        let is_forked_in_pause = report.with("comm", "bash").all(|group| group.class != "new");
        if is_forked_in_pause {
            assert!(report.with("comm", "wl-late").any(|group| group.class == "wakeup"), "{report:?}");
            return Ok(());
        }
    }
    panic!("no command forked in the pause at the beginning of its run");
}

/// Neither what a run drops nor what it sets for itself reaches the command.
fn a_command_is_started_as_without_wakelat() -> TestOutcome {
    let script = "umask; grep -E '^(Cap|NoNewPrivs|Seccomp:|SigIgn|SigBlk)' /proc/self/status; chrt -p $$ | sed 's/.*: //'; \
                  ls /proc/self/fd";
    let direct = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().expect("sh");
    let direct = String::from_utf8(direct.stdout).expect("UTF-8");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    let record = ["record", "-q", "-o", file, "--rt-priority", "1", "--", "sh", "-c", script];
    let (code, shown, said) = run(&record);
    assert_eq!((code, shown), (Some(0), direct), "{said}");
    assert!(fs::metadata(file).expect("the recording").len() > 0);
    Ok(())
}

fn a_command_that_cannot_run_ends_the_run() -> TestOutcome {
    let (code, shown, said) = run(&["hist", "--", "/no/such/command"]);
    assert_eq!((code, &*shown), (Some(127), ""), "{said}");
    assert!(said.contains("cannot run `/no/such/command`: No such file or directory"), "{said}");
    // The kernel does not execute what may be executed: the interpreter of a script may not be, or is missing.
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (script, data) = (path("script"), path("data"));
    fs::write(&data, "").expect("a file");
    for (interpreter, code, why) in
        [(&data, 126, "Permission denied"), (&path("missing"), 127, "No such file or directory")]
    {
        fs::write(&script, format!("#!{interpreter}\n")).expect("the script");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("the script");
        for view in [&["hist"][..], &["trace"], &["why", "--json"]] {
            let (ended, shown, said) = run(&[view, &["-q", "--", &script]].concat());
            assert_eq!((ended, &*shown), (Some(code), ""), "{view:?}: {said}");
            assert_eq!(said.matches(&format!("cannot run `{script}`: {why}")).count(), 1, "{view:?}: {said}");
        }
    }
    Ok(())
}

/// A command that writes its process ID to `file` and then sleeps; and its arguments.
fn sleeper(file: &str) -> [String; 4] {
    ["--", "sh", "-c", &format!("echo $$ > {file}.new; mv {file}.new {file}; exec sleep 1000")].map(str::to_owned)
}

fn a_signal_ends_the_run_and_its_command() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("pid");
    let file = file.to_str().expect("a path");
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut hist = command(&["hist", "--json"]);
        let wakelat = Wakelat::measuring({
            hist.args(sleeper(file));
            hist
        });
        until("the command has begun", || fs::exists(file).expect("a directory"));
        let pid = fs::read_to_string(file).expect("a process ID");
        fs::remove_file(file).expect("the file");
        wakelat.signal(signal);
        let ended = wakelat.end();
        assert_eq!(ended.status.code(), Some(143), "{signal}: {ended:?}");
        assert!(!fs::exists(format!("/proc/{}", pid.trim())).expect("procfs"), "{signal}: {pid} is left");
    }
    Ok(())
}

fn a_window_that_ends_leaves_its_command_alone() -> TestOutcome {
    let begun = Instant::now();
    let (code, shown, said) = run(&["hist", "--json", "-q", "-d", "100ms", "--", "sh", "-c", "sleep 1; exit 5"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(begun.elapsed().as_millis() >= 1_000);
    let report: Value = serde_json::from_str(shown.trim()).expect("JSON");
    assert_eq!(report["duration_ns"], 100_000_000, "{report}");
    Ok(())
}

fn a_threshold_whose_action_fails_ends_the_command() -> TestOutcome {
    let begun = Instant::now();
    let mut hist = command(&["hist", "--json", "-q", "--threshold", "1ns", "--on-threshold", "exec:true"]);
    hist.args(["--", "/bin/sh", "-c", "PATH=/usr/bin:/bin; exec sleep 60"]);
    // The action finds no shell.
    hist.env("PATH", "/nonexistent");
    // Returns when the command has closed its output, too.
    let output = hist.output().expect("wakelat");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(begun.elapsed().as_secs() < 30, "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot run `true`"), "{output:?}");
    let reports = JsonReport::parse_all(&String::from_utf8(output.stdout).expect("UTF-8"));
    assert!(reports[0].coverage.wakeups.measured > 0, "{reports:?}");
    Ok(())
}

fn a_command_of_the_threshold_does_not_inherit_the_readers_priority() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("stat");
    let action = format!("exec:cat /proc/self/stat > {}", file.display());
    let arguments = ["hist", "--json", "--rt-priority", "7", "--comm", "wl-p?ng", "--threshold", "1ns"];
    let wakelat = Wakelat::measuring(command(&[&arguments[..], &["--on-threshold", &action]].concat()));
    assert_eq!(procfs::rt_priority(wakelat.pid()), 7);
    Workload::PingPong(PingPong::on_one(machine::one_cpu(), 10)).stage().perform();
    wakelat.report();
    let stat = fs::read_to_string(&file).expect("the command has ended, because wakelat waits for it");
    assert_eq!(procfs::rt_priority_in(&stat), 0, "{stat}");
    Ok(())
}
