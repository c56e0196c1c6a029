//! A recording yields what was measured where it was made, as often as it is read.

use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::Signal;
use serde_json::Value;
use wakelat_tests::{
    attached_typed, documents, machine,
    suite::{Case, TestOutcome},
    task::Policy,
    wakelat::{AttachCase, Wakelat, command},
    why::{check, component},
    workload::{BehindHog, Performance, Planted, PlantedCause, TimeBounds, Workload},
};

pub fn cases() -> Vec<Case> {
    attached_typed![
        a_recording_can_be_grouped_by_any_key,
        a_recording_has_the_migrations,
        every_view_of_a_recording_has_the_same_waits,
        several_recordings_are_shown_as_one_and_their_ids_are_kept_apart,
        ranges_of_a_recording_add_up_to_it_and_are_the_sums_of_its_intervals,
        a_recording_that_was_cut_short_covers_the_time_until_its_last_reading,
    ]
}

/// What starts the clock.
const STARTS: [&str; 2] = ["waking", "queued"];

/// Records a task behind a hog, and returns what the workload knows about it.
fn recorded(attach: AttachCase, from: &str, file: &str) -> Performance {
    let load = BehindHog { rounds: 40, spin_ns: 3_000_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
    recorded_of(attach, from, file, Workload::BehindHog(load))
}

/// Records the `wl-sleeper` of a load.
fn recorded_of(attach: AttachCase, from: &str, file: &str, load: Workload) -> Performance {
    let mut staged = load.stage();
    let tid = staged.tid("wl-sleeper").to_string();
    let line = ["record", "--attach", attach.name(), "--from", from, "--class", "wakeup", "--tid", &tid, "-o", file];
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
    let written = String::from_utf8(shown.stdout).expect("UTF-8");
    documents::assert_valid(&written);
    let document = serde_json::from_str(&written).expect("a document");
    check(&document);
    document
}

/// The terms of the coverage: with the run queue's clock, those of switch-ins.
fn terms(document: &Value) -> &Value {
    let coverage = &document["coverage"];
    coverage.get("switch_ins").filter(|terms| !terms.is_null()).unwrap_or(coverage)
}

fn sum(groups: &Value, of: &str) -> u64 {
    groups.as_array().expect("groups").iter().map(|group| group[of].as_u64().expect("a number")).sum()
}

fn a_recording_can_be_grouped_by_any_key(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    STARTS.iter().for_each(|from| assert_can_be_grouped(attach, from, file));
    Ok(())
}

fn assert_can_be_grouped(attach: AttachCase, from: &str, file: &str) {
    let performance = recorded(attach, from, file);
    let mode = std::fs::metadata(file).expect("the recording").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "other users can read it: {mode:o}");
    let document = why(file, &[]);
    let waits = sum(&document["classes"], "count");
    assert_eq!(document["from"], from, "{document}");
    assert_eq!(waits, terms(&document)["measured"], "{document}");
    // The queue's clock does not know the class of the first wait.
    let unknown = terms(&document)["unknown_start"].as_u64().unwrap_or(0);
    assert!(waits <= performance.wakeups["wl-sleeper"], "{document}");
    assert!(waits + unknown + performance.untraced >= performance.wakeups["wl-sleeper"], "{document}");
    assert_eq!(document["interferers"][0]["name"], "wl-hog", "{document}");
    for key in ["tid", "cpu", "policy,class"] {
        let by_key = why(file, &["--by", key]);
        for of in ["count", "sum_ns"] {
            assert_eq!(sum(&by_key["groups"], of), sum(&document["classes"], of), "by {key}: {by_key}");
        }
    }
}

/// Without migrations, the time on the CPU that the task left would be attributed to what runs on the
/// CPU that it came to.
fn a_recording_has_the_migrations(attach: AttachCase) -> TestOutcome {
    let [cpu, to] = machine::two_cpus()?;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    STARTS.iter().for_each(|from| assert_has_the_migrations(attach, from, file, (cpu, to)));
    Ok(())
}

fn assert_has_the_migrations(attach: AttachCase, from: &str, file: &str, (cpu, to): (usize, usize)) {
    let cause = PlantedCause::Migrated { to, spins_ns: [3_000_000, 6_000_000] };
    let performance = recorded_of(attach, from, file, Workload::Planted(Planted { rounds: 10, cpu, cause }));
    let wakeups = &why(file, &[])["classes"][0];
    assert_eq!(wakeups["migrated"], wakeups["count"], "{}", wakeups["components"]);
    let count = wakeups["count"].as_u64().expect("a number");
    let culprits = wakeups["culprits"].as_array().expect("a list");
    for (name, took) in &performance.reported.took {
        let its = culprits.iter().filter(|culprit| culprit["name"] == **name && culprit["component"] == "higher");
        let found_ns: u64 = its.map(|culprit| culprit["sum_ns"].as_u64().expect("a number")).sum();
        let least_ns = TimeBounds::any(count, took).least_ns;
        // The hypervisor's time is taken from what else it is the end of.
        let found_ns = found_ns + component(wakeups, "stolen");
        println!("\n  {name}: {found_ns} ns by the recording, at least {least_ns} by its own clock");
        assert!(found_ns * 20 >= least_ns * 19, "{name} has {found_ns} of {least_ns} ns: {}", wakeups["components"]);
    }
}

/// The waits of `wl-sleeper` and of all tasks, by each view, and in intervals.
fn every_view_of_a_recording_has_the_same_waits(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    let load = BehindHog { rounds: 700, spin_ns: 3_000_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
    let mut staged = Workload::BehindHog(load).stage();
    let tid = staged.tid("wl-sleeper");
    let record = Wakelat::measuring(command(&["record", "--attach", attach.name(), "-o", file]));
    staged.perform();
    record.signal(Signal::SIGINT);
    assert!(record.end().status.success());
    let tid = tid.to_string();
    for filter in [&[][..], &["--tid", &tid], &["--comm", "wl-sleep*"], &["--threshold", "1ms"], &["--class", "wakeup"]]
    {
        let classes = ["--class", "wakeup,new,preempted"];
        let classes = if filter.first() == Some(&"--class") { &[][..] } else { &classes[..] };
        let shown = |view: &[&str]| {
            let arguments = [view, &["--json", "-q", "-i", file], filter, classes].concat();
            let output = command(&arguments).output().expect("wakelat");
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            documents::assert_valid(&text);
            text.lines().map(|line| serde_json::from_str(line).expect("a document")).collect::<Vec<Value>>()
        };
        let of_groups = |reports: &[Value]| {
            let of = |of| reports.iter().map(|report| sum(&report["groups"], of)).sum::<u64>();
            (of("count"), of("sum_ns"))
        };
        let hist = of_groups(&shown(&["hist", "--from", "waking"]));
        assert!(hist.0 > 0, "{filter:?}");
        assert_eq!(of_groups(&shown(&["hist", "1", "--from", "waking"])), hist, "{filter:?}");
        assert_eq!(of_groups(&shown(&["hist", "--by", "tid,class", "--from", "waking"])), hist, "{filter:?}");
        assert_eq!(of_groups(&shown(&["top", "--from", "waking"])), hist, "{filter:?}");
        let why = &shown(&["why"])[0];
        assert_eq!((sum(&why["classes"], "count"), sum(&why["classes"], "sum_ns")), hist, "{filter:?}");
        for rows in [&["trace", "--from", "waking"][..], &["trace", "--breakdown", "--from", "waking"]] {
            let waits = shown(rows);
            let waits: Vec<_> = waits.iter().filter_map(|wait| wait["latency_ns"].as_u64()).collect();
            assert_eq!((waits.len() as u64, waits.iter().sum()), hist, "{rows:?} {filter:?}");
        }
        let waits = of_groups(&shown(&["hist", "--from", "waking"])).0;
        let trace = directory.path().join("file.pftrace");
        let export = ["export", "--to", "perfetto", "-i", file, "-o", trace.to_str().expect("a path")];
        // A threshold leaves out the slices of shorter waits, not the waits.
        let exported = command(&[&export, filter, classes].concat()).output().expect("wakelat");
        let said = String::from_utf8_lossy(&exported.stderr);
        assert!(exported.status.success(), "{filter:?}: {said}");
        let number: String =
            said.split_once("the trace has ").expect("a count").1.chars().take_while(|c| *c != ' ').collect();
        assert_eq!(number.replace(',', ""), waits.to_string(), "{filter:?}: {said}");
        let exported = |format| {
            let arguments = ["export", "--to", format, "-o", "-", "--from", "waking", "-q", "-i", file];
            let output = command(&[&arguments, filter, classes].concat()).output().expect("wakelat");
            assert!(output.status.success(), "{format} {filter:?}: {output:?}");
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let folded = exported("folded");
        let folded_ns = folded.lines().map(|line| line.rsplit_once(' ').expect("a sum").1.parse::<u64>().expect("ns"));
        assert_eq!(folded_ns.sum::<u64>(), hist.1, "{filter:?}: {folded}");
        assert_eq!(exported("csv").lines().count() as u64, hist.0 + 1, "{filter:?}");
        assert!(exported("hdr").lines().filter(|line| line.starts_with("Tag=")).count() > 0, "{filter:?}");
        for report in shown(&["hist", "1"]) {
            assert_eq!(sum(&report["groups"], "count"), measured(&report["coverage"]), "{filter:?}");
        }
    }
    Ok(())
}

/// The documents of a view of these recordings.
fn shown(view: &[&str], files: &[&str]) -> Vec<Value> {
    let inputs = files.iter().flat_map(|file| ["-i", file]);
    let arguments: Vec<&str> = view.iter().copied().chain(["--json", "-q"]).chain(inputs).collect();
    let output = command(&arguments).output().expect("wakelat");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    documents::assert_valid(&text);
    text.lines().map(|line| serde_json::from_str(line).expect("a document")).collect()
}

/// Removes the name of an idle task that woke another one: of several machines, it has no CPU.
fn without_name_of_idle(fields: &mut Value, waker: &str) {
    if fields[waker] == 0 {
        fields.as_object_mut().expect("fields").remove("waker_comm");
    }
}

/// The waits of reports, their measured waits, and their length.
fn totals(reports: &[Value]) -> [u64; 3] {
    let sum_of = |of: fn(&Value) -> u64| reports.iter().map(of).sum();
    [
        sum_of(|report| sum(&report["groups"], "sum_ns")),
        sum_of(|report| measured(&report["coverage"])),
        sum_of(|report| report["duration_ns"].as_u64().expect("a number")),
    ]
}

fn ranges_of_a_recording_add_up_to_it_and_are_the_sums_of_its_intervals(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat").display().to_string();
    let load = BehindHog { rounds: 1_200, spin_ns: 3_000_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
    let mut staged = Workload::BehindHog(load).stage();
    let record = Wakelat::measuring(command(&["record", "--attach", attach.name(), "-o", &file]));
    staged.perform();
    record.signal(Signal::SIGINT);
    assert!(record.end().status.success());
    let range = |view: &[&str], range: &[&str]| shown(&[view, range].concat(), &[&file]);
    let whole = range(&["hist"], &[]);
    let intervals = range(&["hist", "1"], &[]);
    assert!(intervals.len() >= 3, "{} intervals", intervals.len());
    assert_eq!(totals(&intervals), totals(&whole));
    // The readings are where the intervals end.
    let ends = intervals.iter().scan(0, |end_ns, interval| {
        *end_ns += interval["duration_ns"].as_u64().expect("a number");
        Some(*end_ns)
    });
    let ends: Vec<u64> = ends.collect();
    for (at, end_ns) in ends[..ends.len() - 1].iter().enumerate() {
        let start_unix_ns = whole[0]["start_unix_ns"].as_u64().expect("a number");
        let at_ns = start_unix_ns + end_ns;
        let clock = format!("@{}.{:09}", at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        let date = std::process::Command::new("date").args(["-u", "-d", &clock, "+%Y-%m-%dT%H:%M:%S.%NZ"]).output();
        let unix = String::from_utf8(date.expect("date").stdout).expect("UTF-8").trim().to_owned();
        for point in [format!("{end_ns}ns"), unix] {
            let [before, after] = [&["--until", &*point], &["--since", &*point]].map(|of| range(&["hist"], of));
            assert_eq!(totals(&before), totals(&intervals[..=at]), "until {point}");
            assert_eq!(totals(&after), totals(&intervals[at + 1..]), "since {point}");
            assert_eq!(after[0]["start_unix_ns"], intervals[at + 1]["start_unix_ns"], "since {point}");
            for report in before.iter().chain(&after) {
                assert_eq!(sum(&report["groups"], "count"), measured(&report["coverage"]), "{point}");
            }
            let of_why = |of: &[&str]| sum(&range(&["why", "--class", "wakeup"], of)[0]["classes"], "count");
            let both = of_why(&["--until", &point]) + of_why(&["--since", &point]);
            assert_eq!(both, of_why(&[]), "{point}");
        }
    }
    // Rounded outward, and from a pipe, of which nothing can be skipped.
    let of_file = ["--since", &*format!("{}ns", ends[0] + 1), "--until", &*format!("{}ns", ends[1] - 1)];
    assert_eq!(totals(&range(&["hist"], &of_file)), totals(&intervals[1..2]));
    let piped = [&["hist", "--json", "-q", "-i", "-"][..], &of_file].concat();
    let mut cat =
        std::process::Command::new("cat").arg(&file).stdout(std::process::Stdio::piped()).spawn().expect("cat");
    let piped = command(&piped).stdin(cat.stdout.take().expect("a pipe")).output().expect("wakelat");
    cat.wait().expect("cat");
    let piped: Value = serde_json::from_slice(&piped.stdout).expect("a document");
    assert_eq!(totals(&[piped]), totals(&intervals[1..2]));
    let outside = command(&["hist", "-i", &file, "--since", "1h"]).output().expect("wakelat");
    let said = String::from_utf8_lossy(&outside.stderr);
    assert!(outside.status.code() == Some(1) && said.contains("nothing was recorded in this range"), "{outside:?}");
    Ok(())
}

/// Both recordings are of one machine, so that most of their IDs are the same.
fn several_recordings_are_shown_as_one_and_their_ids_are_kept_apart(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let files = ["a.wakelat", "b.wakelat"].map(|file| directory.path().join(file).display().to_string());
    for file in &files {
        let load = BehindHog { rounds: 500, spin_ns: 3_000_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
        let mut staged = Workload::BehindHog(load).stage();
        let record = Wakelat::measuring(command(&["record", "--attach", attach.name(), "-o", file]));
        staged.perform();
        record.signal(Signal::SIGINT);
        assert!(record.end().status.success());
    }
    let files = [&*files[0], &*files[1]];
    // Other tasks may have a million waits.
    let shown = |view: &[&str], files: &[&str]| shown(&[view, &["--comm", "wl-*"]].concat(), files);
    for by in ["tid", "cpu", "waker", "pid,component"] {
        let hist = ["hist", "--class", "wakeup,preempted", "--by"];
        let groups = |view: &[&str], files: &[&str]| {
            let report = shown(view, files).remove(0);
            let groups = report["groups"].as_array().expect("groups").iter();
            let key = |group: &Value| {
                let mut key = group["key"].clone();
                without_name_of_idle(&mut key, "waker");
                (key.to_string(), group["class"].to_string())
            };
            let of = |group: &Value| (group["count"].as_u64(), group["sum_ns"].as_u64(), group["max_ns"].as_u64());
            groups.map(|group| (key(group), of(group))).collect::<std::collections::BTreeMap<_, _>>()
        };
        let by_file = format!("{by},file");
        let [first, second] = files.map(|file| groups(&[&hist[..], &[&by_file]].concat(), &[file]));
        assert!(!first.is_empty() && !second.is_empty(), "{by}");
        let both = groups(&[&hist[..], &[by]].concat(), &files);
        assert_eq!(both, first.into_iter().chain(second).collect(), "{by}");
    }
    for view in [&["trace"][..], &["trace", "--breakdown"], &["trace", "--all", "--migrations"]] {
        let both = shown(view, &files);
        for file in files {
            let clock = |field: &str| field == "at_ns" || field == "file";
            let rows = |documents: &[Value], is_its: &dyn Fn(&Value) -> bool| {
                let rows = documents.iter().filter(|row| row.get("at_ns").is_some() && is_its(row)).cloned();
                let rows = rows.map(|mut row| {
                    row.as_object_mut().expect("fields").retain(|field, _| !clock(field));
                    row.as_object_mut().expect("fields").remove("at_unix_ns");
                    without_name_of_idle(&mut row, "waker_tid");
                    row
                });
                rows.collect::<Vec<_>>()
            };
            let its = rows(&both, &|row| row["file"] == file);
            assert!(!its.is_empty() && its == rows(&shown(view, &[file]), &|_| true), "{view:?} {file}");
        }
    }
    let reports = |view: &[&str]| (shown(view, &files), files.map(|file| shown(view, &[file]).remove(0)));
    for view in [&["hist"][..], &["hist", "--by", "comm"], &["hist", "--by", "host"], &["hist", "1"], &["why"]] {
        let (both, ones) = reports(view);
        let waits = |report: &Value| match report.get("classes") {
            Some(classes) => sum(classes, "count"),
            None => sum(&report["groups"], "count"),
        };
        both.iter().for_each(|report| assert_eq!(waits(report), measured(&report["coverage"]), "{view:?}"));
        let ones = if view[1..] == ["1"] { files.map(|file| shown(&["hist"], &[file]).remove(0)) } else { ones };
        for of in ["seen", "measured", "filtered", "missed_switch"] {
            let total =
                |reports: &[Value]| reports.iter().map(|report| report["coverage"][of].as_u64()).sum::<Option<u64>>();
            let carried = both.iter().map(|report| report["coverage"]["carried"].as_u64().expect("a number"));
            let carried = if of == "seen" { carried.sum::<u64>() } else { 0 };
            assert_eq!(total(&both).map(|all| all - carried), total(&ones), "{view:?} {of}");
        }
    }
    let queued = directory.path().join("queued.wakelat").display().to_string();
    let line = ["record", "--attach", attach.name(), "--from", "queued", "-d", "100ms", "-o", &queued];
    assert!(Wakelat::measuring(command(&line)).end().status.success());
    let refused = command(&["hist", "-i", files[0], "-i", &queued]).output().expect("wakelat");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains(files[0]) && said.contains(&queued), "{refused:?}");
    Ok(())
}

/// The waits that a coverage has as measured.
fn measured(coverage: &Value) -> u64 {
    let terms = [&coverage["measured"], &coverage["preemptions"]["measured"]];
    terms.iter().filter_map(|term| term.as_u64()).sum()
}

fn a_recording_that_was_cut_short_covers_the_time_until_its_last_reading(attach: AttachCase) -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file.wakelat");
    let file = file.to_str().expect("a path");
    let load = BehindHog { rounds: 700, spin_ns: 3_000_000, cpu: machine::one_cpu(), sleeper: Policy::Other };
    recorded_of(attach, STARTS[0], file, Workload::BehindHog(load));
    let complete = why(file, &[]);
    let whole = std::fs::read(file).expect("the recording");
    std::fs::write(file, &whole[..whole.len() - 1]).expect("the recording");
    let strict = command(&["why", "--strict", "-i", file]).output().expect("wakelat");
    assert_eq!(strict.status.code(), Some(1), "{strict:?}");
    assert!(String::from_utf8_lossy(&strict.stderr).contains("truncated at byte"), "{strict:?}");
    let cut = why(file, &[]);
    let missing = cut["coverage"]["missing_end"]["at_byte"].as_u64().expect("a place");
    assert!(missing < whole.len() as u64, "{cut}");
    assert_eq!(sum(&cut["classes"], "count"), terms(&cut)["measured"], "{cut}");
    let [cut_ns, complete_ns] = [&cut, &complete].map(|document| document["duration_ns"].as_u64().expect("a number"));
    assert!(cut_ns < complete_ns && complete_ns - cut_ns < 2_000_000_000, "{cut_ns} of {complete_ns}");
    Ok(())
}
