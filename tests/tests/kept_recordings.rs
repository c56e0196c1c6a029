//! Recordings of histograms and of waits have what was measured, and nothing is shown that they do not have.

use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    account::Account,
    accounted_waits::switch_ins,
    attached_typed, documents, machine,
    report::JsonReport,
    suite::{Case, TestOutcome},
    task::Policy,
    wakelat::{AttachCase, Wakelat, command},
    workload::{BehindHog, Performance, Workload, until},
};

pub fn cases() -> Vec<Case> {
    attached_typed![
        histograms_have_each_wakeup_of_a_workload_in_its_group,
        histograms_of_a_run_that_was_killed_cover_the_time_until_the_last_reading,
        waits_have_the_same_figures_in_each_view,
        ranges_and_intervals_of_histograms_add_up_to_the_whole,
    ]
}

/// What starts the clock.
const STARTS: [&str; 2] = ["wakeup", "queued"];

/// Records what `kept` says while a task waits behind a hog, some two seconds long. Returns its thread and what the workload
/// knows about it.
fn recorded(attach: AttachCase, kept: &[&str], file: &str) -> (u64, Performance) {
    recorded_at_once(attach, [(kept, file)])
}

/// Does the same for several recordings of the same load.
fn recorded_at_once<const N: usize>(attach: AttachCase, recordings: [(&[&str], &str); N]) -> (u64, Performance) {
    let load = BehindHog { rounds: 700, spin_ns: 3_000_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
    let mut staged = Workload::BehindHog(load).stage();
    let records = recordings.map(|(kept, file)| {
        let line = [&["record", "--attach", attach.name(), "-o", file], kept].concat();
        Wakelat::measuring(command(&line))
    });
    let performance = staged.perform();
    for record in records {
        record.signal(Signal::SIGINT);
        let ended = record.end();
        assert!(ended.status.success(), "{ended:#?}");
    }
    (staged.tid("wl-sleeper").into(), performance)
}

/// The documents that a view prints of a file.
fn shown(view: &[&str], file: &str) -> Vec<Value> {
    let shown = command(&[view, &["--json", "-q", "-i", file]].concat()).output().expect("wakelat");
    assert!(shown.status.success(), "{view:?}: {shown:?}");
    let written = String::from_utf8(shown.stdout).expect("UTF-8");
    documents::assert_valid(&written);
    let lines = serde_json::Deserializer::from_str(&written).into_iter();
    lines.map(|document| document.expect("a document")).collect()
}

/// Checks that a view of a file is refused, with these words.
fn assert_refused(view: &[&str], file: &str, words: &[&str]) {
    let refused = command(&[view, &["-q", "-i", file]].concat()).output().expect("wakelat");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{view:?}: {refused:?}");
    words.iter().for_each(|word| assert!(said.contains(word), "{view:?}: {said}"));
}

fn file_in(directory: &Path) -> String {
    directory.join("file.wakelat").display().to_string()
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or(0)
}

fn sum(groups: &Value, of: &str) -> u64 {
    groups.as_array().expect("groups").iter().map(|group| number(&group[of])).sum()
}

/// The waits that the coverage has as measured.
fn measured(report: &Value) -> u64 {
    let coverage = &report["coverage"];
    match coverage.get("switch_ins").filter(|terms| !terms.is_null()) {
        Some(terms) => number(&terms["measured"]),
        None => number(&coverage["measured"]) + number(&coverage["preemptions"]["measured"]),
    }
}

fn histograms_have_each_wakeup_of_a_workload_in_its_group(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let files = STARTS.map(|from| directory.path().join(format!("{from}.wakelat")).display().to_string());
    let kept = STARTS.map(|from| ["--keep", "hist", "--by", "tid,comm", "--class", "wakeup", "--from", from]);
    let recordings = [(&kept[0][..], files[0].as_str()), (&kept[1][..], files[1].as_str())];
    let (tid, performance) = recorded_at_once(attach, recordings);
    for (from, file) in STARTS.into_iter().zip(&files) {
        let report = shown(&["hist", "--by", "tid"], file).remove(0);
        let groups = report["groups"].as_array().expect("groups");
        let group = groups.iter().find(|group| group["key"]["tid"] == tid).unwrap_or_else(|| panic!("{report}"));
        let waits = number(&group["count"]);
        let wakeups = performance.wakeups["wl-sleeper"];
        // The queue's clock does not know the class of the first wait.
        let unknown = number(&report["coverage"]["switch_ins"]["unknown_start"]).min(2);
        assert!(
            waits <= wakeups && waits + unknown + performance.untraced >= wakeups,
            "{waits} of {wakeups}: {report}"
        );
        assert_eq!(sum(&report["groups"], "count"), measured(&report), "{report}");
        assert_eq!((&report["mode"], &report["from"]), (&"aggregate".into(), &from.into()), "{report}");
        // The task of its longest wait is known.
        assert_eq!((&group["max_by"]["tid"], &group["max_by"]["comm"]), (&tid.into(), &"wl-sleeper".into()), "{group}");
        for (by, key) in [("comm", true), ("class", false)] {
            let other = shown(&["hist", "--by", by], file).remove(0);
            for of in ["count", "sum_ns"] {
                assert_eq!(sum(&other["groups"], of), sum(&report["groups"], of), "by {by}: {other}");
            }
            assert!(!key || other["groups"].to_string().contains("wl-sleeper"), "{other}");
        }
        let filtered = shown(&["hist", "--comm", "wl-sleeper"], file).remove(0);
        assert_eq!((sum(&filtered["groups"], "count"), measured(&filtered)), (waits, waits), "{filtered}");
        let top = shown(&["top"], file).remove(0);
        assert_eq!(sum(&top["groups"], "count"), measured(&top), "{top}");
        assert_refused(&["hist", "--by", "cgroup"], file, &["`--by`", "by tid, comm, not by `cgroup`"]);
        assert_refused(&["hist", "--cpus", "0"], file, &["`--cpus`", "not by `cpus`"]);
        assert_refused(&["hist", "--threshold", "1ms"], file, &["`--threshold`", "`record --keep waits`"]);
        assert_refused(&["hist", "1500ms"], file, &["multiple"]);
        assert_refused(&["trace"], file, &["has histograms", "`record --keep waits`"]);
        assert_refused(&["why"], file, &["has histograms", "`record --keep events`"]);
    }
    Ok(())
}

fn ranges_and_intervals_of_histograms_add_up_to_the_whole(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file_in(directory.path());
    recorded(attach, &["--keep", "hist", "--by", "comm,cpu", "--interval", "500ms"], &file);
    let all = ["--class", "wakeup,new,preempted"];
    let whole = shown(&[&["hist"], &all[..]].concat(), &file).remove(0);
    assert_eq!(sum(&whole["groups"], "count"), measured(&whole), "{whole}");
    let total = |reports: &[Value], of: &str| reports.iter().map(|report| sum(&report["groups"], of)).sum::<u64>();
    let longest = |reports: &[Value]| {
        let groups = reports.iter().flat_map(|report| report["groups"].as_array().expect("groups"));
        groups.map(|group| number(&group["max_ns"])).max()
    };
    let intervals = shown(&[&["hist", "500ms"], &all[..]].concat(), &file);
    assert!(intervals.len() >= 4, "{}", intervals.len());
    // A range ends at readings, which are where the intervals end.
    let point = format!("{}ns", intervals[..2].iter().map(|report| number(&report["duration_ns"])).sum::<u64>());
    let parts =
        ["--until", "--since"].map(|flag| shown(&[&["hist", flag, &point], &all[..]].concat(), &file).remove(0));
    for reports in [&intervals[..], &parts] {
        for report in reports {
            assert_eq!(sum(&report["groups"], "count"), measured(report), "{report}");
        }
        for of in ["count", "sum_ns"] {
            assert_eq!(total(reports, of), sum(&whole["groups"], of), "{of}");
        }
        assert_eq!(longest(reports), longest(std::slice::from_ref(&whole)));
    }
    // Twice the same file is not two recordings, but a copy is.
    let copy = directory.path().join("copy.wakelat").display().to_string();
    std::fs::copy(&file, &copy).expect("a copy");
    let both = shown(&[&["hist", "--by", "file", "-i", &copy], &all[..]].concat(), &file).remove(0);
    assert_eq!(sum(&both["groups"], "count"), 2 * measured(&whole), "{both}");
    let hdr = directory.path().join("file.hlog").display().to_string();
    let line = ["export", "-q", "-i", &file, "--to", "hdr", "-o", &hdr];
    assert!(command(&line).status().expect("wakelat").success());
    let log = std::fs::read_to_string(&hdr).expect("a log");
    assert!(log.lines().filter(|line| line.starts_with("Tag=wakeup,")).count() >= 2, "{log}");
    Ok(())
}

fn histograms_of_a_run_that_was_killed_cover_the_time_until_the_last_reading(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file_in(directory.path());
    let line = ["record", "--attach", attach.name(), "--keep", "hist", "--by", "comm", "-o", &file];
    let record = Wakelat::measuring(command(&line));
    let readings = || {
        let read = command(&["hist", "--json", "-q", "-i", &file]).output().expect("wakelat");
        let document: Value = serde_json::from_slice(&read.stdout).unwrap_or_default();
        number(&document["duration_ns"]) / 1_000_000_000
    };
    until("three readings are in the file", || readings() >= 3);
    record.signal(Signal::SIGKILL);
    drop(record.end());
    let report = shown(&["hist", "--class", "wakeup,new,preempted"], &file).remove(0);
    assert!(report["coverage"]["missing_end"]["at_byte"].is_u64(), "{report}");
    assert_eq!(sum(&report["groups"], "count"), measured(&report), "{report}");
    let strict = command(&["hist", "--strict", "-i", &file]).output().expect("wakelat");
    assert_eq!(strict.status.code(), Some(1), "{strict:?}");
    Ok(())
}

fn waits_have_the_same_figures_in_each_view(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = file_in(directory.path());
    let queued = directory.path().join("queued.wakelat").display().to_string();
    let all = ["--class", "wakeup,new,preempted"];
    let of_queue = [&["--keep", "waits", "--from", "queued", "--comm", "wl-sleeper"], &all[..]].concat();
    let of_wakeups = ["--keep", "waits", "--class", "wakeup"];
    let recordings = [(&of_wakeups[..], file.as_str()), (&of_queue[..], queued.as_str())];
    let (tid, performance) = recorded_at_once(attach, recordings);
    let stats = performance.task_stats[&(tid as u32)];
    let tid = tid.to_string();
    let of_task = ["--tid", &tid, "--from", "waking"];
    let report = shown(&[&["hist", "--by", "cgroup,waker"], &of_task[..]].concat(), &file).remove(0);
    let waits = sum(&report["groups"], "count");
    let wakeups = performance.wakeups["wl-sleeper"];
    assert!(waits <= wakeups && waits + performance.untraced >= wakeups, "{waits} of {wakeups}: {report}");
    assert_eq!(waits, measured(&report), "{report}");
    let lines = shown(&[&["trace"], &of_task[..]].concat(), &file);
    let lines: Vec<_> = lines.iter().filter(|line| line["schema"] == "wakelat.wait/1").collect();
    assert_eq!(lines.len() as u64, waits);
    let total: u64 = lines.iter().map(|line| number(&line["latency_ns"])).sum();
    assert_eq!(total, sum(&report["groups"], "sum_ns"));
    assert!(lines.iter().all(|line| line["comm"] == "wl-sleeper" && line["cgroup_id"].is_u64()), "{:?}", lines.first());
    // The delivery is known, and can be left out.
    let from_wakeup = shown(&["hist", "--tid", &tid], &file).remove(0);
    assert!(sum(&from_wakeup["groups"], "sum_ns") < total, "{from_wakeup}");
    for view in [&["why"][..], &["trace", "--all"], &["trace", "--breakdown"], &["hist", "--by", "component"]] {
        assert_refused(view, &file, &["waits without the events", "`record --keep events`"]);
    }
    // By the queue clock, the waits are those that the kernel counts for the task.
    let report = shown(&[&["hist"], &all[..]].concat(), &queued).remove(0);
    let lines = shown(&[&["trace"], &all[..]].concat(), &queued);
    let lines: Vec<_> = lines.iter().filter(|line| line["schema"] == "wakelat.wait/1").collect();
    let total: u64 = lines.iter().map(|line| number(&line["latency_ns"])).sum();
    assert_eq!((lines.len() as u64, total), (measured(&report), sum(&report["groups"], "sum_ns")), "{report}");
    assert!(lines.iter().all(|line| line["waker_tid"].is_null() && line["prev_cpu"].is_null()), "{:?}", lines.first());
    let report: JsonReport = serde_json::from_value(report).expect("a report");
    let kernel = Account {
        waits: stats.switches(),
        waited_ns: stats.run_delay_ns,
        threads: 1,
        hidden_slices: performance.untraced,
    };
    kernel.assert_is(Account::in_report(&report), &switch_ins(&report));
    Ok(())
}
