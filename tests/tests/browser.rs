//! Pages in a browser: they have the figures of `--json`, run without an error, and load nothing.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::Duration,
};

use serde_json::Value;
use wakelat_tests::{
    once,
    suite::{Case, Skip, TestOutcome},
    tool,
    wakelat::command,
};

pub fn cases() -> Vec<Case> {
    once![
        a_page_shows_the_figures_of_json,
        a_hostile_name_is_shown_as_text,
        a_flame_graph_has_all_waits_and_only_a_page_with_stacks_has_one,
        a_comparison_shows_the_figures_of_json_and_hostile_names_as_text
    ]
}

/// Runs `wakelat` with these arguments, and returns what it writes to standard output.
fn shown(arguments: &[&str]) -> String {
    let output = command(arguments).output().expect("wakelat");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn document(arguments: &[&str]) -> Value {
    serde_json::from_str(shown(arguments).trim()).expect("a document")
}

/// The HTML of `page` after its script has run without an error.
fn loaded(page: &Path) -> Result<String, Skip> {
    let chromium = tool::find("chromium", "chromium")?;
    let profile = tempfile::tempdir().expect("a directory");
    let mut browser = Command::new(chromium);
    // A browser has a sandbox of its own, which it cannot set up as root.
    let flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--dump-dom"];
    browser.args(flags).arg(format!("--user-data-dir={}", profile.path().display()));
    let output = browser.arg(format!("file://{}", page.display())).output().expect("chromium");
    let said = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<_> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(output.status.success() && errors.is_empty(), "{said}");
    Ok(String::from_utf8(output.stdout).expect("UTF-8"))
}

/// The rows of the table whose caption begins with `caption`: what `of` makes of the HTML of each cell.
fn cells<T>(html: &str, caption: &str, of: impl Fn(&str) -> T) -> Vec<Vec<T>> {
    let (_, table) = html.split_once(&format!("<caption>{caption}")).unwrap_or_else(|| panic!("no table {caption}"));
    let (_, body) = table.split_once("<tbody>").expect("a body");
    let (body, _) = body.split_once("</tbody>").expect("an end");
    body.split("<tr").skip(1).map(|row| row.split("<td").skip(1).map(&of).collect()).collect()
}

/// The text of each cell.
fn rows(html: &str, caption: &str) -> Vec<Vec<String>> {
    cells(html, caption, |cell| {
        let cell = cell.split_once('>').map_or(cell, |(_, cell)| cell);
        cell.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect::<String>()
    })
}

/// The exact value of each cell that shows a rounded one.
fn values(html: &str, caption: &str) -> Vec<Vec<Option<f64>>> {
    cells(html, caption, |cell| {
        let (attributes, _) = cell.split_once('>')?;
        let (_, value) = attributes.split_once("data-value=\"")?;
        value.split_once('"').and_then(|(value, _)| value.parse().ok())
    })
}

/// The sum of a column of numbers with commas.
fn sum(rows: &[Vec<String>], column: usize) -> u64 {
    rows.iter().map(|row| row[column].replace(',', "").parse::<u64>().expect("a number")).sum()
}

fn a_page_shows_the_figures_of_json() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("report.html");
    shown(&["demo", "report", "-q", "--by", "comm", "-o", page.to_str().expect("a path")]);
    let html = loaded(&page)?;
    let why = document(&["demo", "why", "-q", "--by", "comm", "--json"]);
    let waits = |groups: &str| -> u64 {
        why[groups].as_array().expect("groups").iter().map(|group| group["count"].as_u64().expect("a count")).sum()
    };
    assert_eq!(sum(&rows(&html, "Latency by class"), 1), waits("classes"));
    let groups = rows(&html, "Groups and what");
    assert_eq!(sum(&groups, 2), waits("groups"));
    assert_eq!(groups.len(), why["groups"].as_array().expect("groups").len());
    for finding in why["findings"].as_array().expect("findings") {
        let evidence = finding["evidence"].as_str().expect("a sentence");
        assert!(html.contains(evidence), "{evidence}");
    }
    let coverage = rows(&html, "What became of every wakeup");
    let measured = |of: &str| coverage.iter().find(|row| row[0] == of && row[1] == "measured").expect("a row");
    assert_eq!(measured("wakeups")[2].replace(',', ""), why["coverage"]["measured"].to_string());
    assert_eq!(measured("preemptions")[2].replace(',', ""), why["coverage"]["preemptions"]["measured"].to_string());
    // A bar for each class of latencies, a cell for each interval with waits, and a timeline to open.
    for part in ["class=\"column\"", "data-cell", "timeline"] {
        assert!(html.matches(part).count() > 10, "{part}");
    }
    Ok(())
}

/// The name of a task that a page could take for markup: the 15 bytes that the kernel keeps.
const HOSTILE: &str = "<img onerror=1>";

/// Does `work` while a task with the hostile name wakes up every 500 us.
fn beside_a_hostile_name(work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeps = || {
            while !is_over.load(SeqCst) {
                thread::park_timeout(Duration::from_micros(500));
            }
        };
        thread::Builder::new().name(HOSTILE.to_owned()).spawn_scoped(scope, sleeps).expect("a thread");
        work();
        is_over.store(true, SeqCst);
    });
}

fn a_hostile_name_is_shown_as_text() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("report.html");
    beside_a_hostile_name(|| {
        shown(&["why", "-q", "-d", "300ms", "--json", "--report", page.to_str().expect("a path")]);
    });
    let written = fs::read_to_string(&page).expect("the page");
    assert!(!written.contains("<img"));
    let html = loaded(&page)?;
    assert!(!html.contains("<img") && html.contains("&lt;img onerror=1&gt;"), "the name is not shown as text");
    Ok(())
}

fn a_comparison_shows_the_figures_of_json_and_hostile_names_as_text() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let arms = ["base", "new"].map(|arm| (0..3).map(|run| file(&format!("{arm}-{run}.wakelat"))).collect::<Vec<_>>());
    beside_a_hostile_name(|| {
        for recording in arms.iter().flatten() {
            shown(&["record", "-q", "-d", "200ms", "-o", recording]);
        }
    });
    let page = file("diff.html");
    let mut diff = command(&["diff", "-q", "--json", "--by", "comm", "--max-groups", "1000", "--report", &page]);
    let output = diff.args(&arms[0]).arg("--").args(&arms[1]).output().expect("wakelat");
    // Three runs per arm decide nothing, with the page as without it.
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let diff: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let html = loaded(Path::new(&page))?;
    assert!(!fs::read_to_string(&page).expect("the page").contains("<img") && !html.contains("<img"));
    let groups = diff["groups"].as_array().expect("groups");
    let mut hostile = 0;
    for group in groups {
        let class = group["class"].as_str().expect("a class");
        let key = |part: &Value| format!(", {} {}", part["name"].as_str().unwrap(), part["value"].as_str().unwrap());
        let name = format!("{class}{}", group["key"].as_array().expect("a key").iter().map(key).collect::<String>());
        hostile += usize::from(name.ends_with(HOSTILE));
        let name = name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let json = |of: &str, fields: [&str; 3]| -> Vec<[Option<f64>; 3]> {
            let rows = group[of].as_array().expect("rows").iter();
            rows.map(|row| fields.map(|field| row[field].as_f64())).collect()
        };
        let shown = |caption: &str, end: &str, columns: [usize; 3]| -> Vec<[Option<f64>; 3]> {
            let rows = values(&html, &format!("{caption}{name}{end}"));
            rows.iter().map(|row| columns.map(|column| row[column])).collect()
        };
        assert_eq!(shown("Figures of ", "<", [1, 2, 3]), json("metrics", ["base", "new", "ratio"]), "{name}");
        let causes = json("causes", ["base_per_s", "new_per_s", "base_per_s"]);
        // The page shows ten at first.
        assert_eq!(shown("Causes of the waits of ", ":", [2, 3, 2])[..], causes[..causes.len().min(10)], "{name}");
        let bins = values(&html, &format!("Distribution of {name}<"));
        for (arm, column) in [(0, 1), (1, 3)] {
            let waits: f64 = bins.iter().filter_map(|row| row[column]).sum();
            assert_eq!(Some(waits), group["waits"][arm].as_f64(), "{name}");
        }
    }
    assert!(hostile > 0, "{diff}");
    assert_eq!(rows(&html, "Groups: ").len(), groups.len());
    assert_eq!(rows(&html, "Runs").len(), 6);
    Ok(())
}

fn a_flame_graph_has_all_waits_and_only_a_page_with_stacks_has_one() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let (page, recording, later) = (path("report.html"), path("file.wakelat"), path("later.html"));
    let [file, recorded, of_recording] = [&page, &recording, &later].map(|path| path.to_str().expect("a path"));
    for flags in [&["--stacks"][..], &[]] {
        let mut why = Value::Null;
        let measure = ["why", "-q", "-d", "300ms", "--json", "--report", file, "--record", recorded];
        beside_a_hostile_name(|| why = document(&[&measure[..], flags].concat()));
        shown(&["report", "-q", "-i", recorded, "-o", of_recording]);
        let (html, later) = (loaded(&page)?, loaded(&later)?);
        for html in [&html, &later] {
            assert_eq!(html.contains("<section id=\"stacks\""), !flags.is_empty(), "{flags:?}");
        }
        if flags.is_empty() {
            continue;
        }
        let sum_ns = |class: &Value| class["sum_ns"].as_u64().expect("a sum");
        let all: u64 = why["classes"].as_array().expect("classes").iter().map(sum_ns).sum();
        let root = format!("data-row=\"0\" data-ns=\"{all}\"");
        assert!(html.contains(&root) && later.contains(&root), "the root is not {all} ns");
        assert_eq!(rows(&html, "Waits by stack"), rows(&later, "Waits by stack"));
        assert!(
            html.contains("aria-label=\"&lt;img onerror=1&gt;: ") && !html.contains("<img"),
            "the task is no frame"
        );
        // Select the first task, and search for functions of the kernel.
        let acts = "<script>document.querySelector('[data-row=\"1\"]').dispatchEvent(new MouseEvent('click'));\
                    const input = document.querySelector('[aria-label=\"Search functions\"]');\
                    input.value = '_[K]'; input.dispatchEvent(new Event('input'));</script></body>";
        let written = fs::read_to_string(&page).expect("the page");
        fs::write(&page, written.replace("</body>", acts)).expect("a page");
        let acted = loaded(&page)?;
        assert!(acted.contains("data-row=\"1\" ") && acted.contains("fill-opacity=\"0.35\""), "nothing is selected");
        assert!(acted.contains(" % of the waiting time has it on a stack."), "nothing is found");
        assert!(rows(&html, "Waits by stack").iter().any(|row| row[0].contains("_[k]")), "no function of the kernel");
    }
    Ok(())
}
