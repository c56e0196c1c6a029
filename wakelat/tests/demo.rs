//! The demo recording is a whole recording of this version, which every view shows without privileges.

use std::process::{Command, Output};

use serde_json::Value;

fn wakelat(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wakelat")).args(arguments).output().expect("wakelat")
}

fn shown(arguments: &[&str]) -> String {
    let output = wakelat(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn document(arguments: &[&str]) -> Value {
    serde_json::from_str(&shown(arguments)).expect("a document")
}

fn sum(groups: &Value, of: &str) -> u64 {
    groups.as_array().expect("groups").iter().map(|group| group[of].as_u64().expect("a number")).sum()
}

#[test]
fn every_view_shows_the_same_waits_of_the_demo() {
    let why = document(&["demo", "why", "--strict", "--json"]);
    let waits = sum(&why["classes"], "count");
    assert!(waits > 1_000, "{waits}");
    let classes = "wakeup,new,preempted";
    for view in [["hist", "--by", "cgroup"], ["top", "--limit", "1000"]] {
        let report = document(&[&["demo"], &view[..], &["--from", "waking", "--class", classes, "--json"]].concat());
        for of in ["count", "sum_ns"] {
            assert_eq!(sum(&report["groups"], of), sum(&why["classes"], of), "{view:?}");
        }
    }
    let lines = shown(&["demo", "trace", "--class", classes, "--csv"]);
    assert!(lines.lines().count() as u64 > waits, "{} lines", lines.lines().count());
}

#[test]
fn the_demo_can_be_exported_to_every_format() {
    let directory = tempfile::tempdir().expect("a directory");
    for format in ["perfetto", "csv", "json", "folded", "hdr", "parquet"] {
        let file = directory.path().join(format);
        shown(&["demo", "export", "-q", "--to", format, "-o", file.to_str().expect("a path")]);
    }
    // A class without wakeups has no event that starts their latency.
    let preempted = directory.path().join("preempted");
    let flags = ["--class", "preempted", "-o", preempted.to_str().expect("a path")];
    shown(&[&["demo", "export", "-q", "--to", "csv"][..], &flags].concat());
    let of = |name: &str| std::fs::read(directory.path().join(name)).expect(name);
    for table in ["waits", "components", "switches", "intervals"] {
        let file = of(&format!("parquet-{table}.parquet"));
        assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"), "{table}");
    }
    let sum = |text: &[u8], of: fn(&str) -> Option<&str>| -> u64 {
        let text = String::from_utf8_lossy(text);
        text.lines().map(|line| of(line).expect(line).parse::<u64>().expect(line)).sum()
    };
    let folded = sum(&of("folded"), |line| line.rsplit(' ').next());
    let rows = of("csv");
    let column = String::from_utf8_lossy(&rows)
        .lines()
        .next()
        .and_then(|head| head.split(',').position(|column| column == "latency_ns"));
    assert_eq!(column, Some(3));
    let waits = rows.splitn(2, |byte| *byte == b'\n').nth(1).expect("rows");
    assert_eq!(folded, sum(waits, |line| line.split(',').nth(3)));
}

#[test]
fn a_view_of_the_demo_writes_pages_and_pictures_as_with_a_recording() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    shown(&["demo", "why", "--report", &file("why.html")]);
    shown(&["demo", "hist", "--svg", &file("hist.svg")]);
    assert!(data_of(&directory.path().join("why.html")).is_object());
    assert!(std::fs::read_to_string(file("hist.svg")).expect("a picture").starts_with("<svg"));
}

/// The JSON in a page.
fn data_of(page: &std::path::Path) -> Value {
    let html = std::fs::read_to_string(page).expect("a page");
    let (_, rest) = html.split_once("id=\"data\">").expect("data");
    serde_json::from_str(rest.split_once("</script>").expect("an end").0).expect("JSON")
}

#[test]
fn a_page_beside_any_view_has_its_waits_by_class_however_they_are_grouped() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("page.html");
    let file = page.to_str().expect("a path");
    for view in
        [&["why", "--by", "comm"][..], &["why"], &["hist"], &["hist", "--class", "wakeup,new", "--by", "component"]]
    {
        let shown = document(&[&["demo"], view, &["-q", "--json", "--report", file]].concat());
        let groups = if view[0] == "why" { &shown["classes"] } else { &shown["groups"] };
        let data = data_of(&page);
        for of in ["hist", "why"] {
            let classes = &data[of][if of == "hist" { "groups" } else { "classes" }];
            assert!((1..4).contains(&classes.as_array().expect("classes").len()), "{view:?}: {classes}");
            assert_eq!(sum(classes, "sum_ns"), sum(groups, "sum_ns"), "{view:?}");
        }
    }
}

#[test]
fn a_picture_of_any_view_has_all_time_of_its_waits() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("picture.svg");
    let path = file.to_str().expect("a path");
    let drawn = |attribute: &str, of: &str| -> u64 {
        let svg = std::fs::read_to_string(&file).expect("a picture");
        let bars = svg.split("<rect ").filter(|bar| bar.contains(of));
        let values = bars.filter_map(|bar| bar.split_once(&format!(" {attribute}=\""))?.1.split('"').next());
        values.map(|value| value.parse::<u64>().expect("a number")).sum()
    };
    for flags in [&["--by", "cgroup"][..], &[]] {
        let why = document(&[&["demo", "why", "-q", "--json", "--svg", path], flags].concat());
        assert_eq!(drawn("data-ns", "data-of=\"class\""), sum(&why["classes"], "sum_ns"));
        let groups = if flags.is_empty() { 0 } else { sum(&why["groups"], "sum_ns") };
        assert_eq!(drawn("data-ns", "data-of=\"group\""), groups);
    }
    shown(&["demo", "--svg", path]);
    assert!(drawn("data-ns", "data-class=\"runqueue\"") > 0);
    let hist = document(&["demo", "hist", "-q", "--json", "--class", "wakeup,new", "--svg", path]);
    assert_eq!(drawn("data-waits", "c0"), sum(&hist["groups"], "count"));
    let lines = shown(&["demo", "trace", "-q", "--breakdown", "--csv", "--svg", path]);
    let mut rows = lines.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().expect("a head");
    let latency = head.iter().position(|name| *name == "latency_ns").expect("a column");
    let longest = rows.filter_map(|row| row.get(latency)?.parse::<u64>().ok()).max();
    assert_eq!(Some(drawn("data-ns", "data-component")), longest);
}

#[test]
fn parts_of_the_demo_add_up_and_it_can_be_shown_with_other_recordings() {
    let waits = |flags: &[&str]| document(&[&["demo", "hist", "--json", "-q"], flags].concat());
    let count = |flags: &[&str]| sum(&waits(flags)["groups"], "count");
    // The reading between both parts is about one second after the begin.
    let (whole, first, rest) = (count(&[]), count(&["--until", "500ms"]), count(&["--since", "1500ms"]));
    assert!(first > 0 && rest > 0 && first + rest == whole, "{first} {rest} {whole}");
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/demo.wakelat");
    let both = waits(&["-i", other, "--by", "file"]);
    let of = |file: &str| {
        let groups = both["groups"].as_array().expect("groups").iter();
        sum(&groups.filter(|group| group["key"]["file"] == file).cloned().collect(), "count")
    };
    assert_eq!((of("demo:"), of(other)), (whole, whole));
    assert_eq!(count(&["-i", other, "--since", "1500ms"]), 2 * rest);
}

#[test]
fn the_preemptions_of_each_cpu_add_up_to_all() {
    let preemptions =
        |flags: &[&str]| sum(&document(&[&["demo", "why", "--json"], flags].concat())["preemptions"], "count");
    let of_each: Vec<u64> = ["0", "1"].iter().map(|cpu| preemptions(&["--cpus", cpu])).collect();
    assert!(of_each.iter().all(|count| *count > 0), "{of_each:?}");
    assert_eq!(of_each.iter().sum::<u64>(), preemptions(&[]));
}

/// What the demo is for: each of these is easy to find in it.
#[test]
fn the_demo_has_a_throttled_database_beside_a_build() {
    let why = document(&["demo", "why", "--json", "--comm", "postgres"]);
    let text = why.to_string();
    for part in ["/system.slice/postgresql.service", "throttled", "cc1"] {
        assert!(text.contains(part), "no {part}");
    }
}

#[test]
fn an_overview_ends_with_the_commands_to_continue_with() {
    let text = shown(&["demo"]);
    let [longest, next] = ["longest waits", "\nnext\n"].map(|title| text.find(title).expect(title));
    assert!(longest < next, "{text}");
    for command in text[next..].lines().filter_map(|line| line.trim().strip_prefix("wakelat ")) {
        let arguments: Vec<&str> = command.split("  ").next().expect("a command").split(' ').collect();
        let text = shown(&arguments);
        // The waits of the overview, not only its command line.
        assert!(!text.contains("no wait "), "{command}: {text}");
    }
}
