//! The command as people type it: what it says, where, and what it exits with. Nothing here needs a privilege.

#[test]
fn the_command_says_what_is_recorded() {
    trycmd::TestCases::new().case("tests/cmd/*.md");
}
