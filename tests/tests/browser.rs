//! The page of `wakelat report` in a browser: it has the figures of `--json`, runs without an error, and loads nothing.

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
    suite::{self, Skip, TestOutcome},
    tool,
    wakelat::command,
};

fn main() {
    suite::main(once![a_page_shows_the_figures_of_json, a_hostile_name_is_shown_as_text]);
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

/// The rows of the table whose caption begins with `caption`: the text of each cell.
fn rows(html: &str, caption: &str) -> Vec<Vec<String>> {
    let (_, table) = html.split_once(&format!("<caption>{caption}")).expect("the table");
    let (_, body) = table.split_once("<tbody>").expect("a body");
    let (body, _) = body.split_once("</tbody>").expect("an end");
    let text = |cell: &str| {
        let cell = cell.split_once('>').map_or(cell, |(_, cell)| cell);
        cell.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect::<String>()
    };
    let cells = |row: &str| row.split("<td").skip(1).map(text).collect();
    body.split("<tr").skip(1).map(cells).collect()
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
    // A bar for each class of latencies, a cell for each interval with waits, and a time line to open.
    for part in ["class=\"column\"", "data-cell", "time line"] {
        assert!(html.matches(part).count() > 10, "{part}");
    }
    Ok(())
}

/// The name of a task that a page could take for markup: the 15 bytes that the kernel keeps.
const HOSTILE: &str = "<img onerror=1>";

fn a_hostile_name_is_shown_as_text() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("report.html");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeps = || {
            while !is_over.load(SeqCst) {
                thread::park_timeout(Duration::from_micros(500));
            }
        };
        thread::Builder::new().name(HOSTILE.to_owned()).spawn_scoped(scope, sleeps).expect("a thread");
        shown(&["why", "-q", "-d", "300ms", "--json", "--report", page.to_str().expect("a path")]);
        is_over.store(true, SeqCst);
    });
    let written = fs::read_to_string(&page).expect("the page");
    assert!(!written.contains("<img"));
    let html = loaded(&page)?;
    assert!(!html.contains("<img") && html.contains("&lt;img onerror=1&gt;"), "the name is not shown as text");
    Ok(())
}
