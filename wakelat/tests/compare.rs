//! `wakelat diff` on recordings: the demo, whose waits `why` shows too. Nothing here needs privileges.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/demo.wakelat");

fn wakelat(directory: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wakelat"));
    command.current_dir(directory).args(line.split_whitespace()).output().expect("wakelat")
}

/// Four copies of the demo an arm.
fn arms() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"] {
        fs::copy(DEMO, directory.path().join(name)).unwrap();
    }
    directory
}

fn document(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(json_schemas::assert_valid(&text), 1, "{output:?}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn equal_runs_are_not_worse_and_have_the_waits_and_causes_of_why() {
    let directory = arms();
    let output = wakelat(directory.path(), "diff -q --json --class wakeup a1 a2 a3 a4 -- b1 b2 b3 b4");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = document(&output);
    assert_eq!((found["verdict"].as_str(), found["arrangements"].as_u64()), (Some("not_worse"), Some(70)));
    let group = &found["groups"][0];
    assert_eq!(group["metrics"][0]["ratio"], 1.0);
    let why: Value =
        serde_json::from_slice(&wakelat(directory.path(), "demo why --class wakeup --json").stdout).unwrap();
    let class = &why["classes"][0];
    assert_eq!(group["waits"][0].as_u64(), class["count"].as_u64().map(|count| 4 * count));
    let seconds = why["duration_ns"].as_f64().unwrap() / 1e9;
    let causes = group["causes"].as_array().unwrap();
    let of_causes: f64 = causes.iter().map(|cause| cause["base_per_s"].as_f64().unwrap()).sum();
    let expected = class["sum_ns"].as_f64().unwrap() / seconds;
    assert!((of_causes / expected - 1.0).abs() < 1e-6, "{of_causes} ns/s by cause, {expected} ns/s of wait");
}

#[test]
fn one_run_an_arm_is_inconclusive() {
    let directory = arms();
    let output = wakelat(directory.path(), "diff -q --ascii a1 -- b1");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(output.stdout.starts_with(b"inconclusive: one run per arm"), "{output:?}");
    assert_eq!(wakelat(directory.path(), "diff -q --inconclusive pass a1 -- b1").status.code(), Some(0));
    assert_eq!(wakelat(directory.path(), "diff -q --inconclusive fail a1 -- b1").status.code(), Some(3));
}

#[test]
fn a_limit_that_the_new_arm_exceeds_makes_it_worse() {
    let directory = tempfile::tempdir().unwrap();
    let names = |arm: &str| (0..6).map(|number| format!("{arm}{number}")).collect::<Vec<_>>();
    for name in names("a").iter().chain(&names("b")) {
        fs::copy(DEMO, directory.path().join(name)).unwrap();
    }
    let line = |limit: &str| {
        format!(
            "diff -q --class wakeup --limit {limit} --junit j.xml --bmf b.json --markdown {} -- {}",
            names("a").join(" "),
            names("b").join(" ")
        )
    };
    let worse = wakelat(directory.path(), &line("p50<1ns"));
    assert_eq!(worse.status.code(), Some(3), "{worse:?}");
    assert!(worse.stdout.starts_with(b"**wakelat: worse**"), "{worse:?}");
    let of = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    assert!(of("j.xml").contains("failures=\"1\""), "{}", of("j.xml"));
    let bmf: Value = serde_json::from_str(&of("b.json")).unwrap();
    assert!(bmf["wakeup: p50"]["latency"]["value"].as_f64().unwrap() > 1.0, "{bmf}");
    assert_eq!(wakelat(directory.path(), &line("p50<1m")).status.code(), Some(0));
}

#[test]
fn runs_that_cannot_be_compared_are_refused_with_the_reason() {
    let directory = arms();
    let report = wakelat(directory.path(), "demo hist --json").stdout;
    fs::write(directory.path().join("report.json"), report).unwrap();
    let why = wakelat(directory.path(), "demo why --json").stdout;
    fs::write(directory.path().join("why.json"), why).unwrap();
    for (file, line) in
        [("components.json", "demo hist --by component --json"), ("top.json", "demo top --by tid --limit 2 --json")]
    {
        fs::write(directory.path().join(file), wakelat(directory.path(), line).stdout).unwrap();
    }
    let with_threshold = wakelat(directory.path(), "demo hist --threshold 1us --json").stdout;
    let without = fs::read(directory.path().join("report.json")).unwrap();
    fs::write(directory.path().join("thresholds.json"), [without, with_threshold].concat()).unwrap();
    archive(directory.path(), "both.tar", &["a1", "b1"]);
    for (line, code, reason) in [
        ("diff -q a1 -- report.json", 1, "record both arms with the same `--from`"),
        ("diff -q --by comm report.json -- a1", 2, "whose groups are fixed"),
        ("diff -q a1 -- why.json", 1, "which has no distributions"),
        ("diff -q a1 -- a1", 2, "`a1` is given twice"),
        ("diff -q a1 a2 ./a1 -- b1 b2", 2, "`./a1` is given twice"),
        ("diff -q a1 -- b1 b2 b1", 2, "`b1` is given twice"),
        ("diff -q both.tar -- both.tar/b1", 2, "`both.tar/b1` is given twice"),
        ("diff -q a1 -- /dev/null", 2, "`/dev/null` is not a regular file"),
        ("diff -q report.json -- components.json", 1, "expected reports without `--by component`"),
        ("diff -q report.json -- top.json", 1, "groups are left out of its report"),
        ("diff -q report.json -- thresholds.json", 1, "different thresholds"),
        ("diff -q a1 -- missing", 1, "cannot read `missing`"),
        ("diff -q --comm no-such-task a1 -- b1", 1, "has no wait of the requested groups"),
        ("diff -q --by tid a1 -- b1", 2, "does not name the same tasks in two runs"),
        ("ab -- true", 2, "expected two commands"),
    ] {
        let output = wakelat(directory.path(), line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {error}");
        assert!(error.contains(reason), "{line}: {error}");
    }
}

/// Writes an archive with these files.
fn archive(directory: &Path, name: &str, files: &[&str]) {
    let mut archive = tar::Builder::new(fs::File::create(directory.join(name)).unwrap());
    for file in files {
        archive.append_path_with_name(directory.join(file), file).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn reports_in_an_archive_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.json", "b.json"] {
        fs::write(directory.path().join(name), wakelat(directory.path(), "demo hist 1 --json").stdout).unwrap();
    }
    archive(directory.path(), "a.tar", &["a.json"]);
    let output = wakelat(directory.path(), "diff -q --json a.tar -- b.json");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(document(&output)["base"].to_string().contains("a.tar/a.json"));
}

#[test]
fn saved_reports_are_compared_with_an_interval_for_each() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.json", "b.json"] {
        fs::write(directory.path().join(name), wakelat(directory.path(), "demo hist 1 --json").stdout).unwrap();
    }
    let output = wakelat(directory.path(), "diff -q --json a.json -- b.json");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let found = document(&output);
    assert_eq!(found["unit"], "blocks");
    assert_eq!(found["groups"][0]["metrics"][0]["ratio"], 1.0);
    assert_eq!(found["groups"][0]["causes"].as_array().map(Vec::len), Some(0));
}
