//! Checks the documentation against the program and the tree: its commands are accepted, and its links
//! lead to files.

mod picture;
#[path = "../support/mod.rs"]
mod support;

use std::{collections::BTreeSet, ffi::OsString};

use support::{files, read, root};
use wakelat::cli::{self, CliError};

/// The pages with commands that users type.
const PAGES: [&str; 15] = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/README.md",
    "docs/benchmark.md",
    "docs/ci.md",
    "docs/compare.md",
    "docs/examples.md",
    "docs/glossary.md",
    "docs/install.md",
    "docs/limits.md",
    "docs/output.md",
    "docs/semantics.md",
    "docs/timerlat.md",
    "docs/virtual-machines.md",
    "docs/why.md",
];

/// The commands of a page: lines of `sh` blocks, lines after `$ ` and of `cargo xtask` in other blocks,
/// and `wakelat …` in running text.
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

/// Splits at spaces, except within quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().expect("there is always a word").push(c),
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
                ["cargo", "test", "-p", "wakelat-tests", "--test", "kernel", "--", "--suite", suite, ..] => {
                    let file = root().join(format!("tests/tests/{suite}.rs"));
                    assert!(file.is_file(), "`{command}`: no suite `{suite}`");
                }
                ["cargo", "install", "--locked", "--path", path] => {
                    assert!(root().join(path).join("Cargo.toml").is_file(), "`{command}`: no `{path}`");
                }
                ["export", variable] => {
                    let value = variable.strip_prefix("WAKELAT_BPF_OBJECT=");
                    assert!(value.is_some_and(|path| path.ends_with("/wakelat-x86_64.bpf.o")), "`{command}`");
                }
                ["sudo", "setcap", capabilities, "target/release/wakelat"] => {
                    assert_eq!(capabilities, "cap_bpf,cap_perfmon+ep", "`{command}`");
                }
                ["sudo", "apt-get", "install", path] | ["sudo", "tar", "-C", _, _, "-xzf", path] => {
                    let version = env!("CARGO_PKG_VERSION");
                    let names =
                        [format!("wakelat_{version}_amd64.deb"), format!("wakelat-{version}-x86_64-linux.tar.gz")];
                    assert!(names.iter().any(|name| path.ends_with(&format!("target/dist/{name}"))), "`{command}`");
                }
                ["sudo", "chgrp" | "chmod", _, "target/release/wakelat"] | ["perf" | "echo", ..] => {}
                _ => panic!("`{command}` in {page} is not a command that this test knows"),
            }
        }
    }
}

/// The workflow is where commands for other machines than Debian's are tried.
#[test]
fn the_workflow_runs_the_commands_for_other_distributions() {
    let (page, workflow) = (read("CONTRIBUTING.md"), read(".github/workflows/test.yml"));
    let section = page.split("## Without root and on other distributions").nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("text");
    let is_tried = |line: &&str| ["cargo test ", "podman "].iter().any(|program| line.starts_with(program));
    let commands: Vec<&str> = section.lines().filter(is_tried).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        assert!(workflow.lines().any(|line| line.trim() == format!("- run: {command}")), "{command}");
    }
}

#[test]
fn the_readme_has_its_two_commands() {
    for page in ["README.md", "docs/install.md"] {
        let commands = commands(&read(page));
        for command in ["cargo xtask run -- hist --duration 10s", "cargo xtask test"] {
            assert!(commands.iter().any(|found| found == command), "`{command}` is not in {page}: {commands:?}");
        }
    }
}

#[test]
fn the_install_page_names_every_package_that_setup_installs() {
    let (page, lists) = (read("docs/install.md"), read("xtask/src/setup/packages.rs"));
    let lists = lists.lines().filter(|line| line.contains("_PACKAGES: &[&str]"));
    let packages: Vec<&str> = lists.flat_map(|line| line.split('"').skip(1).step_by(2)).collect();
    assert!(packages.len() > 4, "{packages:?}");
    for package in packages {
        assert!(page.contains(&format!("`{package}`")), "{package}");
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

/// The anchors of a page's headings, as GitHub makes them: lower case, without punctuation, hyphens for spaces.
fn anchors(page: &str) -> Vec<String> {
    let mut in_code = false;
    let mut anchors = Vec::new();
    for line in page.lines() {
        in_code ^= line.starts_with("```");
        if line.starts_with('#') && !in_code {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            anchors.push(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    anchors
}

#[test]
fn every_anchor_is_a_heading() {
    let pages = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(str::to_owned);
    for page in pages.into_iter().chain(files("docs", "md")) {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, anchor)) = link.split_once('#').filter(|(file, _)| !file.contains("://")) else { continue };
            let (directory, _) = page.rsplit_once('/').unwrap_or(("", &page));
            let target = match (directory, file) {
                (_, "") => page.clone(),
                ("", file) => file.to_owned(),
                (directory, file) => match file.strip_prefix("../") {
                    Some(file) => file.to_owned(),
                    None => format!("{directory}/{file}"),
                },
            };
            assert!(anchors(&read(&target)).iter().any(|found| found == anchor), "{page}: {link}");
        }
    }
}

#[test]
fn every_reference_has_an_address_and_every_address_a_reference() {
    let text = read("README.md");
    let addresses: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ").map(|(name, _)| name)).collect();
    let references: BTreeSet<&str> = text.split("][").skip(1).filter_map(|rest| rest.split(']').next()).collect();
    assert_eq!(references, addresses);
}

#[test]
fn the_first_screen_says_what_it_is_how_to_build_it_and_what_the_first_command_prints() {
    let text = read("README.md");
    let screen: Vec<&str> = text.lines().take(40).collect();
    assert!(screen.iter().all(|line| line.chars().count() <= 120), "a screen of 100 columns: {screen:#?}");
    for beginning in ["wakelat measures ", "![", "cargo xtask build", "$ wakelat demo", "▸ ", "A line with `▸` "] {
        assert!(screen.iter().any(|line| line.starts_with(beginning)), "no line begins with `{beginning}`");
    }
}

#[test]
fn every_cell_of_the_comparison_has_its_source() {
    let text = read("README.md");
    let (_, section) = text.split_once("## How it compares").expect("a comparison");
    let (section, _) = section.split_once("\n## ").expect("a next section");
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert!(rows.len() > 5, "{rows:?}");
    for row in rows {
        for cell in row.trim_matches('|').split('|').skip(1) {
            assert!(cell.contains("](") || cell.contains("]["), "no source: {cell}");
        }
    }
}

#[test]
fn every_path_in_the_architecture_exists() {
    let page = read("ARCHITECTURE.md");
    let mut seen = 0;
    for span in page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)) {
        let is_path = span.contains('/') && span.chars().all(|c| c.is_ascii_alphanumeric() || "-_/.".contains(c));
        // Words in capitals are placeholders for names of the reader's.
        if is_path && !span.contains("EVENT") && !span.contains("FORM") {
            let places = [root().join(span), root().join("wakelat/src").join(span)];
            assert!(places.iter().any(|place| place.exists()), "{span}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn every_source_that_the_documentation_names_exists() {
    let crates = ["fuzz", "tests", "xtask"].into_iter().map(str::to_owned);
    let crates = crates.chain(
        ["", "-common", "-core", "-ebpf", "-kernel", "-sandbox", "-tracefs"].map(|name| format!("wakelat{name}")),
    );
    let sources: Vec<String> = crates.flat_map(|directory| files(&directory, "rs")).collect();
    let pages = ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned).into_iter().chain(files("docs", "md"));
    let mut named = 0;
    for page in pages {
        let text = read(&page);
        let names = text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs"));
        // Words in capitals are placeholders for names of the reader's.
        for name in names.filter(|name| !name.contains(char::is_uppercase)) {
            let ends =
                |path: &String| path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
            assert!(sources.iter().any(ends), "{page} names `{name}`, which does not exist");
            named += 1;
        }
    }
    assert!(named > 80, "{named}");
}
