//! Runs `wakelat verify` and reads its document.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::wakelat::{RunOutput, Wakelat, command};

/// Starts `verify --json` with these arguments, for longer than any test takes; returns when it measures.
pub fn verify(arguments: &[&str]) -> Wakelat {
    let mut all = vec!["verify", "--json", "-d", "10m"];
    all.extend(arguments);
    Wakelat::measuring(command(&all))
}

/// Ends the window as Ctrl-C does, and returns the exit code and the document.
pub fn outcome(wakelat: Wakelat) -> (i32, Value) {
    wakelat.signal(Signal::SIGINT);
    document(&wakelat.end())
}

/// The exit code and the document of a run that has ended. Asserts that they report the same verdict.
pub fn document(ended: &RunOutput) -> (i32, Value) {
    let code = ended.status.code().unwrap_or_else(|| panic!("{ended:#?}"));
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    assert_eq!(document["schema"], "wakelat.verify/1", "{document:#}");
    let expected = match document["verdict"].as_str() {
        Some("agree") => 0,
        Some("disagree") => 3,
        Some("not_compared") => 4,
        _ => panic!("{document:#}"),
    };
    assert_eq!(code, expected, "{document:#}");
    assert_eq!(document["comparison"].is_null(), document["not_compared"].is_object(), "{document:#}");
    (code, document)
}

/// The check with this name, which every kernel has.
pub fn check(document: &Value, name: &str) -> Value {
    let mut checks = document["checks"].as_array().expect("a list").iter();
    checks.find(|check| check["name"] == name).expect("a check").clone()
}
