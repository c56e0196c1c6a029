//! The threads that measure: their CPUs and priorities, and those in user space.

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use wakelat_tests::{
    cgroup::Hierarchy,
    from_each_source, machine, once, procfs,
    suite::{Case, Skip, TestOutcome},
    tool, tracefs,
    tracer::{self, run, running},
    workload::until,
};

pub fn cases() -> Vec<Case> {
    from_each_source![threads_in_user_space_report_their_return]
        .into_iter()
        .chain(once![
            a_run_in_user_space_begins_when_every_thread_is_ready,
            the_users_own_code_runs_between_two_reads,
            a_load_that_still_runs_at_the_end_is_killed,
            a_killed_measuring_thread_is_reported,
            the_tracers_threads_and_wakelat_run_where_requested,
        ])
        .collect()
}

fn threads_in_user_space_report_their_return(source: &str) -> TestOutcome {
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    need_user_space()?;
    let before = tracer::state();
    let (ended, trace) = run("timerlat", &["--source", source, "-d", "1s", "-p", "20ms", "--user-threads"]);
    assert!(ended.status.success(), "{ended:#?}");
    let back = trace.of("user-ret");
    assert_eq!(back.len(), machine::cpus().len(), "{back:?}");
    for (cpu, activations) in &back {
        assert!(activations.len() >= 5, "CPU {cpu}: {activations:?}");
        assert!(activations.windows(2).all(|pair| pair[0].1 < pair[1].1), "CPU {cpu}: {activations:?}");
    }
    assert_eq!(tracer::state(), before);
    Ok(())
}

fn a_run_in_user_space_begins_when_every_thread_is_ready() -> TestOutcome {
    tracer::need("timerlat")?;
    need_user_space()?;
    let wakelat = running(&["-p", "20ms", "--user-threads"]);
    // wakelat has reported that it measures: a file that is not open now was not open when the window began.
    for cpu in machine::cpus() {
        let tids = procfs::pids_named(&format!("timerlatu/{cpu}"));
        let files = tids.iter().flat_map(|tid| fs::read_dir(format!("/proc/{tid}/fd")).into_iter().flatten().flatten());
        let mut names = files.filter_map(|file| fs::read_link(file.path()).ok());
        let wanted = format!("per_cpu/cpu{cpu}/timerlat_fd");
        assert!(names.any(|name| name.to_string_lossy().ends_with(&wanted)), "CPU {cpu}: {tids:?}");
    }
    tracer::end(wakelat);
    Ok(())
}

fn the_users_own_code_runs_between_two_reads() -> TestOutcome {
    tracer::need("timerlat")?;
    need_user_space()?;
    tool::find("sh", "dash")?;
    let file = std::env::temp_dir().join(format!("wakelat-load-{}", std::process::id()));
    let load = format!("echo >> {}", file.display());
    let (ended, trace) = run("timerlat", &["-d", "2s", "-p", "100ms", "--user-threads", "--user-load", &load]);
    assert!(ended.status.success(), "{ended:#?}");
    let (runs, threads, back) =
        (fs::read(&file).expect("the load creates the file").len(), trace.of("thread"), trace.of("user-ret"));
    fs::remove_file(file).expect("the file exists");
    let returns: usize = back.values().map(Vec::len).sum();
    println!("\n  {runs} runs, {returns} returns");
    // The runs before the window, and the last one of each thread, are not reported.
    assert!(returns > 0 && runs >= returns, "{runs} runs, {returns} returns");
    for (cpu, back) in &back {
        // The load ran between the two.
        let after_its_thread =
            |(at, seq): &(u64, u64)| threads[cpu].iter().any(|(thread, of)| of == seq && thread < at);
        assert!(back.iter().skip(1).all(after_its_thread), "CPU {cpu}: {back:?}, {threads:?}");
    }
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a document");
    let shares = document["explained"]["shares"].as_array().expect("a list");
    let own = shares.iter().find(|share| share["cause"] == "user_space").expect("user space has a share");
    assert!(own["sum_ns"].as_u64().is_some_and(|ns| ns > 0), "{own}");
    Ok(())
}

fn a_load_that_still_runs_at_the_end_is_killed() -> TestOutcome {
    tracer::need("timerlat")?;
    need_user_space()?;
    tool::find("sh", "dash")?;
    // The shell stops itself, so that it takes no CPU; the rest is a comment by which it is found.
    let load = format!("kill -STOP $$ # {}", std::process::id());
    let loads = || {
        let shells = procfs::pids_named("sh").into_iter();
        let arguments = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        shells.filter(|pid| arguments(pid).contains(&load)).count()
    };
    let wakelat = running(&["-p", "20ms", "--user-threads", "--user-load", &load]);
    until("each CPU has a load", || loads() == machine::cpus().len());
    tracer::end(wakelat);
    until("the loads have exited", || loads() == 0);
    tracer::saved();
    Ok(())
}

fn a_killed_measuring_thread_is_reported() -> TestOutcome {
    tracer::need("timerlat")?;
    need_user_space()?;
    let before = tracer::state();
    let wakelat = running(&["-p", "20ms", "-d", "10s", "--user-threads"]);
    let name = format!("timerlatu/{}", machine::one_cpu());
    until("the measuring thread has its name", || !procfs::pids_named(&name).is_empty());
    let tid = procfs::pids_named(&name)[0];
    kill(Pid::from_raw(tid.cast_signed()), Signal::SIGKILL).expect("the thread is running");
    let ended = wakelat.end();
    ended.assert_refused(1, &["was killed", &tid.to_string()]);
    assert_eq!(tracer::state(), before);
    tracer::saved();
    Ok(())
}

fn the_tracers_threads_and_wakelat_run_where_requested() -> TestOutcome {
    tracer::need("timerlat")?;
    let before = tracer::state();
    let hierarchy = Hierarchy::find()?;
    let group = hierarchy.group("timerlat");
    let name = group.path().strip_prefix(hierarchy.root()).expect("below the root").to_str().expect("a name of ASCII");
    let (cgroup, cpu) = (format!("-C={name}"), machine::one_cpu().to_string());
    // Kernels with user-space threads (since 6.5) allow the tracer's threads to be moved.
    if need_user_space().is_err() {
        let (ended, _) = run("timerlat", &["-d", "100ms", &cgroup]);
        ended.assert_refused(1, &["--cgroup", name, "Linux 6.5"]);
        assert_eq!(tracer::state(), before);
        return Ok(());
    }
    let wakelat = running(&["-p", "20ms", "-P", "r:7", "-H", &cpu, &cgroup]);
    let within = fs::read_to_string(group.path().join("cgroup.procs")).expect("a group lists its processes");
    for cpu in machine::cpus() {
        let tids = procfs::pids_named(&format!("timerlat/{cpu}"));
        assert!(!tids.is_empty() && tids.iter().all(|tid| procfs::rt_priority(*tid) == 7), "CPU {cpu}: {tids:?}");
        assert!(tids.iter().all(|tid| within.lines().any(|line| line == tid.to_string())), "{tids:?} in {within}");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", wakelat.pid())).expect("wakelat is running");
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("this line exists");
    assert_eq!(allowed.trim(), cpu);
    tracer::end(wakelat);
    assert_eq!(tracer::state(), before);
    Ok(())
}

fn need_user_space() -> Result<(), Skip> {
    if tracefs::path("osnoise/per_cpu/cpu0/timerlat_fd").exists() {
        Ok(())
    } else {
        Err(Skip::because("this kernel has no `timerlat_fd`"))
    }
}
