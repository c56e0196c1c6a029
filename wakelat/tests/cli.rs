//! The command line as users type it: its output and exit code. Nothing here needs privileges.

#[test]
fn output_and_exit_codes_match_the_transcripts() {
    trycmd::TestCases::new().case("tests/cmd/*.md");
}
