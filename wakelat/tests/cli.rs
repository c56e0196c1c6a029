//! The command line as users type it: its output and exit code. Nothing here needs privileges.

use std::{fs, process::Command};

#[test]
fn output_and_exit_codes_match_the_transcripts() {
    trycmd::TestCases::new().case("tests/cmd/*.md");
}

#[test]
fn the_coverage_of_a_tracer_goes_to_standard_error_beside_csv() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.txt");
    let text = "\
CPU:0 [LOST 12 EVENTS]
      timerlat/0-9 [000] .....  10.000005: #1 context thread timer_latency 4000 ns
       osnoise/0-9 [000] .....  11.000005: 1000000     250000  75.00000       9      1      2      3      4      5
";
    fs::write(&trace, text).expect("a trace");
    for (tracer, views) in [("timerlat", &["hist", "top", "trace", "why"][..]), ("osnoise", &["hist", "top"])] {
        for view in views {
            let run = |flags: &[&str]| {
                let mut command = Command::new(env!("CARGO_BIN_EXE_wakelat"));
                let output = command.args([tracer, *view, "--csv", "--from"]).arg(&trace).args(flags).output();
                let output = output.expect("wakelat");
                let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
                (text(output.stdout), text(output.stderr))
            };
            let (rows, coverage) = run(&[]);
            assert!(rows.contains(',') && !rows.contains("coverage"), "{tracer} {view}: {rows}");
            assert!(coverage.contains("12 events lost on CPU 0"), "{tracer} {view}: {coverage}");
            assert_eq!(run(&["-q"]), (rows, String::new()), "{tracer} {view}");
        }
    }
}

/// The two histograms of this log are documents of one line each; its other lines are counted in one message.
#[test]
fn the_histograms_of_a_log_are_lines_of_json_and_a_message_counts_the_others() {
    let log =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../wakelat-tracefs/tests/fixtures/hist/hist-triggers-6.1-cloud.txt");
    for arguments in
        [["hist-trigger", "json", "--excerpt", log].as_slice(), &["hist-trigger", "show", "--json", "--excerpt", log]]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wakelat"));
        let output = command.args(arguments).env_remove("RUST_LOG").output().expect("wakelat");
        let [json, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        assert!(output.status.success(), "{arguments:?}: {said}");
        let documents: Vec<serde_json::Value> = json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: `{line}`")))
            .collect();
        assert_eq!(documents.len(), 2, "{arguments:?}: {json}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(said.starts_with("wakelat: skipped "), "{arguments:?}: {said}");
        let first = format!(" lines of `{log}` without hist trigger output; the first is line 1: `VMLAB");
        assert!(said.contains(&first), "{arguments:?}: {said}");
    }
}
