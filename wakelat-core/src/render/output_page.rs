//! docs/output.md, which describes every document and field, as tests read it.

use std::collections::BTreeSet;

use serde_json::Value;

const PAGE: &str = include_str!("../../../docs/output.md");

/// Parses a document.
pub fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The section of docs/output.md under the heading `title`.
pub fn section(title: &str) -> &'static str {
    let (_, below) = PAGE.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no `## {title}`"));
    below.split("\n## ").next().unwrap()
}

/// The example in the section under the heading `title`.
pub fn example(title: &str) -> Value {
    let (_, from) = section(title).split_once("```json\n").unwrap();
    parsed(from.split_once("```").unwrap().0)
}

/// The names in the first column of the tables of a section.
pub fn documented(title: &str) -> BTreeSet<String> {
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    section(title).lines().filter_map(name).collect()
}

/// Collects the paths of all fields, such as `groups[].key`. Skips the fields of keys and percentiles,
/// which depend on the flags, those of the longest waits, which are the fields of a wait, and those of
/// preemptions, which are the same as those of wakeups.
fn paths(value: &Value, path: &str, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(_)
            if ["groups[].key", "groups[].worst[]", "coverage.preemptions"].contains(&path)
                || path.ends_with("percentiles_ns") => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                all.insert(path.clone());
                paths(value, &path, all);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| paths(value, &format!("{path}[]"), all)),
        _ => {}
    }
}

/// The paths of all fields of a document.
pub fn all_paths(value: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    paths(value, "", &mut all);
    all
}
