//! Every command that prints has the flags of output that apply to it.

use super::*;

#[test]
fn a_command_that_prints_has_the_flags_of_its_output() {
    const TEXT: &[&str] = &["output", "ascii", "color"];
    const JSON: &[&str] = &["output", "ascii", "color", "json"];
    const TABLES: &[&str] = &["output", "ascii", "color", "json", "csv", "quiet"];
    for (path, expected) in [
        ("hist-trigger print", TEXT),
        ("hist-trigger chart", TEXT),
        ("hist-trigger json", TEXT),
        ("hist-trigger show", JSON),
        ("doctor", JSON),
        ("events", JSON),
        ("timerlat", TABLES),
        ("osnoise", TABLES),
        ("hist", TABLES),
        ("top", TABLES),
        ("trace", TABLES),
    ] {
        let all = command();
        let found = path.split(' ').try_fold(&all, |command, name| command.find_subcommand(name));
        let flags: Vec<_> = found.unwrap().get_arguments().filter_map(|flag| flag.get_long()).collect();
        let missing: Vec<_> = expected.iter().filter(|flag| !flags.contains(flag)).collect();
        assert!(missing.is_empty(), "`{path}` has no {missing:?}: {flags:?}");
    }
}
