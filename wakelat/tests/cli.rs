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
