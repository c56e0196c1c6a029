//! Asserts that the document of `wakelat verify` reports agreement, as far as this machine's clock allows.

use serde_json::Value;

use crate::machine;

/// Asserts that both sides agree. If the host may stop the guest between two readings of the clock, for
/// any length of time, they have to agree on everything except the lengths of the waits:
/// docs/verify.md.
pub fn assert_agrees(code: i32, document: &Value) {
    if machine::has_own_time() || code == 0 {
        assert_eq!(code, 0, "{document:#}");
        return;
    }
    let comparison = &document["comparison"];
    let counts = ["wakelat", "trigger"].map(|side| comparison[side]["count"].as_u64().expect("a number"));
    assert!(Some(counts[0].abs_diff(counts[1])) <= comparison["tolerated_waits"].as_u64(), "{document:#}");
    let reasons = comparison["reasons"].as_array().expect("a list");
    println!("  lengths, in time that is not the guest's own: {reasons:?}");
    let of_lengths = |reason: &Value| {
        reason.as_str().is_some_and(|text| text.contains("on the other side of") || text.contains("the sums differ"))
    };
    assert!(reasons.iter().all(of_lengths), "{document:#}");
    assert_checks(document);
}

/// Asserts that the checks without triggers agree; lengths are treated as in [`assert_agrees`].
pub fn assert_checks(document: &Value) {
    assert_checks_but_hidden(document, 0);
}

/// The same for a window with so few switches that the `hidden` ones, which no instrument sees, may be many of them: an
/// upper bound by the kernel's own account ([`Supervisor`](crate::supervisor::Supervisor)).
pub fn assert_checks_but_hidden(document: &Value, hidden: u64) {
    for check in document["checks"].as_array().expect("a list") {
        println!("  {}", check["found"]);
        if check["outcome"] == "disagree" && check["name"] == "schedstat" && !machine::has_own_time() {
            let number = |name: &str| check["numbers"][name].as_u64().expect("a number");
            assert!(number("unexplained") <= number("tolerated_waits"), "{document:#}");
        } else if check["outcome"] == "disagree" && check["name"] == "distributions" && !machine::has_own_time() {
            println!("  lengths, in time that is not the guest's own");
        } else if check["outcome"] == "disagree" && check["name"] == "ctxt" {
            let number = |name: &str| check["numbers"][name].as_u64().expect("a number");
            // Absent on a kernel that does not count skipped runs.
            let missed = check["numbers"]["missed"].as_u64().unwrap_or(0);
            assert!(number("untraced") <= hidden && missed == 0, "{hidden} hidden: {document:#}");
        } else if ["queue_clock", "distributions", "run_queues"].iter().any(|name| check["name"] == *name)
            && check["outcome"] == "unknown"
        {
            // Classic tracepoints, no BTF, no waits, a filter, or no `/proc/schedstat`: the reason is in `found`.
            println!("  without {}", check["name"]);
        } else {
            assert_eq!(check["outcome"], "agree", "{document:#}");
        }
    }
}
