//! The documentation against what is there: its commands are accepted, its links lead somewhere.

mod support;

use std::ffi::OsString;

use support::{files, read, root};
use wakelat::cli::{self, CliError};

/// The pages in which commands stand that people type.
const PAGES: [&str; 6] =
    ["README.md", "CONTRIBUTING.md", "docs/semantics.md", "docs/output.md", "docs/timerlat.md", "docs/why.md"];

/// The commands of a page: lines of `sh` blocks, lines behind `$ ` and of `cargo xtask` in other blocks, and `wakelat …` in
/// running text.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut block = None;
    for line in page.lines() {
        match (block, line.strip_prefix("```")) {
            (None, Some(kind)) => block = Some(kind),
            (Some(_), Some(_)) => block = None,
            (Some("sh"), None) => commands.push(line),
            (Some(""), None) if line.starts_with("cargo xtask ") => commands.push(line),
            (Some(_), None) => commands.extend(line.strip_prefix("$ ")),
            (None, None) => {
                commands.extend(line.split('`').skip(1).step_by(2).filter(|span| span.starts_with("wakelat ")))
            }
        }
    }
    let without_comment = |line: &str| line.split("  #").next().unwrap_or("").trim().to_owned();
    commands.into_iter().map(without_comment).filter(|line| !line.is_empty()).collect()
}

/// Splits at spaces, but for what stands in quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().expect("one at least").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn assert_wakelat_accepts(command: &str, args: &[String]) {
    let args = std::iter::once("wakelat").chain(args.iter().map(String::as_str)).map(OsString::from);
    match cli::parse(args) {
        Ok(_) | Err(CliError::Help(_)) => {}
        Err(refusal) => panic!("`{command}`: {refusal}"),
    }
}

#[test]
fn every_command_is_accepted() {
    for page in PAGES {
        for command in commands(&read(page)) {
            let words = words(&command);
            match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["wakelat", ..] => assert_wakelat_accepts(&command, &words[1..]),
                ["cargo", "xtask", "run", "--", ..] => assert_wakelat_accepts(&command, &words[4..]),
                ["cargo", "xtask", verb, ..] => {
                    let name = verb.replace('-', "_");
                    let places = [format!("xtask/src/{name}.rs"), format!("xtask/src/{name}/mod.rs")];
                    assert!(places.iter().any(|place| root().join(place).is_file()), "`{command}`: no `{verb}`");
                }
                ["sudo", "setcap", capabilities, "target/release/wakelat"] => {
                    assert_eq!(capabilities, "cap_bpf,cap_perfmon+ep", "`{command}`");
                }
                ["perf" | "echo", ..] => {}
                _ => panic!("`{command}` in {page} is no command that this test knows"),
            }
        }
    }
}

#[test]
fn the_readme_has_its_two_commands() {
    let commands = commands(&read("README.md"));
    for command in ["cargo xtask run -- hist --duration 10s", "cargo xtask test"] {
        assert!(commands.iter().any(|found| found == command), "`{command}` is not in {commands:?}");
    }
}

#[test]
fn the_readme_names_every_package_that_setup_installs() {
    let (readme, plan) = (read("README.md"), read("xtask/src/setup/plan.rs"));
    let lists = plan.lines().filter(|line| line.contains("_PACKAGES: &[&str]"));
    let packages: Vec<&str> = lists.flat_map(|line| line.split('"').skip(1).step_by(2)).collect();
    assert!(packages.len() > 4, "{packages:?}");
    for package in packages {
        assert!(readme.contains(&format!("`{package}`")), "{package}");
    }
}

#[test]
fn every_link_leads_to_a_file() {
    let pages = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(str::to_owned);
    for page in pages.into_iter().chain(files("docs", "md")) {
        let text = read(&page);
        let directory = root().join(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or("");
            if !file.is_empty() && !file.contains("://") {
                assert!(directory.with_file_name(file).exists(), "{page}: {link}");
            }
        }
    }
}

#[test]
fn every_anchor_is_a_heading() {
    for page in ["README.md", "ARCHITECTURE.md"] {
        let text = read(page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, anchor)) = link.split_once('#') else { continue };
            let target = read(file);
            let headings = target.lines().filter(|line| line.starts_with('#'));
            let mut anchors = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-"));
            assert!(anchors.any(|found| found == anchor), "{page}: {link}");
        }
    }
}

#[test]
fn every_path_in_the_architecture_is_there() {
    let page = read("ARCHITECTURE.md");
    let mut seen = 0;
    for span in page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
        let is_path = span.contains('/') && span.chars().all(|c| c.is_ascii_alphanumeric() || "-_/.".contains(c));
        // What is in capitals stands for a name of the reader's.
        if is_path && !span.contains("EVENT") && !span.contains("FORM") {
            let places = [root().join(span), root().join("wakelat/src").join(span)];
            assert!(places.iter().any(|place| place.exists()), "{span}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}
