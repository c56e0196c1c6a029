//! docs/output.md, which describes the documents, as tests read it.

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
