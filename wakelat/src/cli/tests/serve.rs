//! The flags of `serve` beside its configuration file.

use std::io::Write as _;

use super::*;

/// The settings that `--check` prints for these flags and a file with this text.
fn settings(flags: &str, file: &str) -> String {
    let (_directory, machine) = testing::arbitrary();
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(file.as_bytes()).unwrap();
    match read(&format!("wakelat serve --config {} {flags}", written.path().display()), &machine) {
        Ok(Command::Serve(config)) => config.settings.to_toml().unwrap(),
        other => panic!("{flags}: {other:?}"),
    }
}

#[test]
fn a_flag_overrides_one_setting_of_the_configuration_file() {
    const FILE: &str = "\
        [otlp]\nurl = \"http://a:1/b\"\ninterval = \"10s\"\n\
        [kubelet]\nurl = \"https://192.0.2.1:10250/pods\"\nca = \"/ca\"\n\
        [capture]\nconditions = [\"max>1s\"]\ndir = \"/a\"\nsize = \"1M\"\n";
    let shown = settings("", FILE);
    for (flags, from, to) in [
        ("--otlp http://c:1/b", "http://a:1/b", "http://c:1/b"),
        ("--otlp-interval 5s", "\"10s\"\ntemporality", "\"5s\"\ntemporality"),
        ("--otlp-temporality delta", "cumulative", "delta"),
        ("--kubelet https://192.0.2.2:10250/pods", "192.0.2.1", "192.0.2.2"),
        ("--kubelet-ca /d", "\"/ca\"", "\"/d\""),
        ("--capture 'max>2s'", "max>1s", "max>2s"),
        ("--capture-dir /e", "\"/a\"", "\"/e\""),
        ("--capture-interval 1m", "interval = \"10m\"", "interval = \"1m\""),
        ("--capture-size 2M", "\"1M\"", "\"2M\""),
    ] {
        let expected = shown.replace(from, to);
        assert_ne!(expected, shown, "{flags}");
        assert_eq!(settings(flags, FILE), expected, "{flags}");
    }
}
