//! The source tree, as the tests of its documentation and invariants read it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The workspace directory.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a member lies in its workspace")
}

/// The text of a file, by its path relative to the workspace.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files with this extension in and below a directory, as sorted paths relative to the workspace.
pub fn files(directory: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root().join(directory)];
    while let Some(directory) = open.pop() {
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        for path in paths {
            if path.is_dir() && !path.ends_with("target") {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let path = path.strip_prefix(root()).expect("below the workspace");
                found.push(path.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    found.sort();
    found
}
