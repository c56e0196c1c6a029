//! A merged file shows what its recordings show together.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

fn wakelat(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_wakelat")).args(arguments).output().expect("wakelat");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn document(arguments: &[&str]) -> Value {
    let (is_success, shown, said) = wakelat(arguments);
    assert!(is_success, "{arguments:?}: {said}");
    serde_json::from_str(shown.trim()).expect("a document")
}

/// Two copies of the demo recording in `directory`, whose paths are returned, and the path of a file that has both.
fn merged(directory: &Path) -> [String; 3] {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/demo.wakelat");
    let [one, two, both] = ["one.wakelat", "two.wakelat", "both.wakelat"].map(|name| directory.join(name));
    for copy in [&one, &two] {
        fs::copy(&demo, copy).expect("a copy");
    }
    let paths = [one, two, both].map(|path| path.to_str().expect("a path").to_owned());
    let [one, two, both] = &paths;
    let (is_success, _, said) = wakelat(&["merge", "-q", "-i", one, "-i", two, "-o", both]);
    assert!(is_success, "{said}");
    paths
}

/// The document without the name of a file.
fn without_files(mut document: Value, names: &[&str]) -> String {
    document.as_object_mut().expect("an object").remove("files");
    names.iter().fold(document.to_string(), |text, name| text.replace(name, "FILE"))
}

#[test]
fn a_merged_file_shows_what_its_recordings_show_together() {
    let directory = tempfile::tempdir().expect("a directory");
    let [one, two, both] = merged(directory.path());
    let members = [format!("{both}/one.wakelat"), format!("{both}/two.wakelat")];
    for view in [&["why", "--by", "comm"][..], &["hist", "--by", "file,comm"], &["top", "--by", "host"]] {
        let of = |inputs: &[&str]| {
            let inputs = inputs.iter().flat_map(|input| ["-i", input]);
            document(&view.iter().copied().chain(inputs).chain(["-q", "--json"]).collect::<Vec<_>>())
        };
        let names = [&*members[0], &members[1], &one, &two];
        let [apart, together, listed] = [&[&*one, &*two][..], &[&*both], &[&*members[0], &*members[1]]]
            .map(|inputs| without_files(of(inputs), &names));
        assert_eq!(apart, together, "{view:?}");
        assert_eq!(apart, listed, "{view:?}");
    }
    let one_of_them = document(&["why", "-q", "--json", "-i", &members[1]]);
    assert_eq!(one_of_them, document(&["why", "-q", "--json", "-i", &two]));
    let part = ["--since", "1s", "--until", "2s", "-q", "--json", "-i"];
    let of_part = |file: &str| document(&[&["hist"][..], &part, &[file]].concat());
    assert_eq!(of_part(&members[0]), of_part(&one), "a part of the time");
}

#[test]
fn a_merged_file_can_be_merged_again_and_is_an_archive_of_its_recordings() {
    let directory = tempfile::tempdir().expect("a directory");
    let [one, _, both] = merged(directory.path());
    let all = directory.path().join("all.wakelat");
    let three = directory.path().join("three.wakelat");
    fs::copy(&one, &three).expect("a copy");
    let [all, three] = [all, three].map(|path| path.to_str().expect("a path").to_owned());
    let (is_success, _, said) = wakelat(&["merge", "-q", "-i", &both, "-i", &three, "-o", &all]);
    assert!(is_success, "{said}");
    let report = document(&["hist", "-q", "--json", "--by", "file", "-i", &all]);
    assert_eq!(report["files"].as_array().map(Vec::len), Some(3), "{report}");
    let unpacked = directory.path().join("unpacked");
    fs::create_dir(&unpacked).expect("a directory");
    let tar = Command::new("tar").args(["xf", &all, "-C", unpacked.to_str().expect("a path")]).status().expect("tar");
    assert!(tar.success());
    for name in ["one.wakelat", "two.wakelat", "three.wakelat"] {
        assert_eq!(fs::read(unpacked.join(name)).expect(name), fs::read(&one).expect("the recording"), "{name}");
    }
}

#[test]
fn what_is_no_recording_is_not_merged() {
    let directory = tempfile::tempdir().expect("a directory");
    let [one, two, both] = merged(directory.path());
    let other = directory.path().join("other");
    fs::write(&other, "hello\n").expect("a file");
    let output = directory.path().join("output");
    let [other, output] = [other, output].map(|path| path.to_str().expect("a path").to_owned());
    for (inputs, why) in [
        (&[&one, &other][..], "neither a recording"),
        (&[&one, &one], "is given more than once"),
        (&[&both, &format!("{both}/one.wakelat")], "is given more than once"),
        (&[&format!("{both}/three.wakelat")], "Not a directory"),
        (&[&format!("{other}.absent")], "No such file"),
    ] {
        let inputs = inputs.iter().flat_map(|input| ["-i", input.as_str()]);
        let arguments: Vec<_> = ["merge"].into_iter().chain(inputs).chain(["-o", &output]).collect();
        let (is_success, _, said) = wakelat(&arguments);
        assert!(!is_success && said.contains(why), "{arguments:?}: {said}");
        assert!(!fs::exists(&output).expect("a directory"), "{arguments:?} left a file");
    }
    let whole = fs::read(&both).expect("the file");
    fs::write(&both, &whole[..whole.len() / 2]).expect("a file");
    let (is_success, _, said) = wakelat(&["hist", "-i", &both]);
    assert!(!is_success && said.contains("the archive is truncated"), "{said}");
    drop(two);
}
