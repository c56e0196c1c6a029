//! docs/why.svg, the picture in the README, against what the demo prints: neither can change without the other.

use std::{env, fs, process::Command};

use crate::support::{read, root};

const PICTURE: &str = "docs/why.svg";

/// The command line of the picture, as docs/report.md has it, without the file.
const COMMAND: [&str; 7] = ["demo", "why", "--by", "comm", "--max-groups", "8", "--svg"];

/// With `WAKELAT_ACCEPT_PICTURE` set, the test writes the picture.
#[test]
fn the_picture_is_what_the_demo_prints() {
    let directory = tempfile::tempdir().expect("a directory");
    let drawn = directory.path().join("why.svg");
    let mut wakelat = Command::new(env!("CARGO_BIN_EXE_wakelat"));
    let output = wakelat.args(COMMAND).arg(&drawn).arg("-q").output().expect("wakelat");
    assert!(output.status.success(), "{output:?}");
    let drawn = fs::read_to_string(&drawn).expect("a picture");
    if env::var_os("WAKELAT_ACCEPT_PICTURE").is_some() {
        fs::write(root().join(PICTURE), &drawn).expect("the picture can be written");
    }
    assert!(read(PICTURE) == drawn, "{PICTURE} is not that of the demo; set WAKELAT_ACCEPT_PICTURE to write it");
    assert!(read("docs/report.md").contains(&COMMAND.join(" ")), "the documentation has another command");
}

#[test]
fn the_alternative_text_names_what_the_picture_shows() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("![").expect("the README has a picture");
    let (text, _) = rest.split_once("](docs/why.svg)").expect("the picture is the report of why");
    let picture = read(PICTURE);
    for word in ["83.4 %", "cc1", "80.0 %", "postgres"] {
        assert!(text.contains(word) && picture.contains(word), "{word}");
    }
}
