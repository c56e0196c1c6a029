//! How and where the result is shown.

use std::{
    fs,
    io::{self, IsTerminal as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf, absolute},
};

use super::ConfigError;
use wakelat_core::{files::Files, render::OutputFormat};

/// How and where the result is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputConfig {
    /// The output format.
    pub format: OutputFormat,
    /// The file to write to; none for standard output.
    pub path: Option<PathBuf>,
    /// Print only the result: no progress, no notes.
    pub quiet: bool,
    /// Show the wall-clock time of every interval and line.
    pub timestamps: bool,
    /// Use only ASCII, whatever the locale.
    pub ascii: bool,
    /// When to use colour.
    pub colour: Colour,
    /// The recordings that are shown.
    pub files: Files,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl OutputConfig {
    /// Shows the result as text in the default style: in the file at `path`, or on standard output
    /// without a path or with `-`.
    ///
    /// # Errors
    /// If the path is a directory.
    pub(crate) fn to(path: Option<&Path>) -> Result<Self, ConfigError> {
        let path = path.filter(|path| *path != Path::new("-"));
        path.map_or(Ok(()), |path| refuse_directory("--output", path, "a file or `-`"))?;
        Ok(Self { path: path.map(Path::to_owned), ..Self::default() })
    }

    /// Whether the result is shown on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.path.is_none() && io::stdout().is_terminal()
    }

    /// Checks that the argument of `flag` can be read, as a file or `-`, and is not the file that the
    /// result is written to.
    pub(crate) fn check_input(&self, flag: &str, path: &Path) -> Result<(), ConfigError> {
        refuse_directory(flag, path, "a file or `-`")?;
        self.check_distinct(flag, if path == Path::new("-") { Path::new("/dev/stdin") } else { path })
    }

    /// Checks that the argument of `flag` can be written in addition to the result: it must be a file,
    /// because standard output belongs to the result.
    pub(crate) fn check_beside(&self, flag: &str, path: &Path) -> Result<(), ConfigError> {
        if path == Path::new("-") {
            return Err(ConfigError::usage(flag, "`-` is already used for the result; expected a file"));
        }
        refuse_directory(flag, path, "a file")?;
        self.check_distinct(flag, path)
    }

    /// Checks that all `written` files, each with its flag, can be written in addition to the result: each is another
    /// file than the result, than those written before it, and than the `others`, which are read or recorded.
    pub(crate) fn check_all_beside<'a>(
        &self,
        others: impl IntoIterator<Item = (&'a str, &'a Path)>,
        written: impl IntoIterator<Item = (&'a str, Option<&'a Path>)>,
    ) -> Result<(), ConfigError> {
        let mut earlier: Vec<(&str, &Path)> = others.into_iter().collect();
        for (flag, path) in written.into_iter().filter_map(|(flag, path)| Some((flag, path?))) {
            self.check_beside(flag, path)?;
            earlier.iter().try_for_each(|earlier| check_two_files((flag, path), *earlier))?;
            earlier.push((flag, path));
        }
        Ok(())
    }

    /// Checks that the result goes to another file: it would overwrite this one.
    fn check_distinct(&self, flag: &str, path: &Path) -> Result<(), ConfigError> {
        let result = self.path.as_deref().unwrap_or(Path::new("/dev/stdout"));
        check_two_files(("--output", result), (flag, path))
    }
}

/// Checks that a file, which is written, is not the other one. Each comes with its flag.
fn check_two_files((flag, path): (&str, &Path), (other_flag, other): (&str, &Path)) -> Result<(), ConfigError> {
    match (FileIdentity::of(path), FileIdentity::of(other)) {
        (Some(file), Some(other_file)) if file == other_file => {
            let why = format!("`{}` is also the file of `{other_flag}`; expected two different files", path.display());
            Err(ConfigError::usage(flag, why))
        }
        _ => Ok(()),
    }
}

fn refuse_directory(flag: &str, path: &Path, expected: &str) -> Result<(), ConfigError> {
    if path.is_dir() {
        let why = format!("`{}` is a directory; expected {expected}", path.display());
        return Err(ConfigError::usage(flag, why));
    }
    Ok(())
}

/// The identity of a file, whatever its name.
#[derive(PartialEq)]
enum FileIdentity {
    /// Its device and inode.
    Existing(u64, u64),
    /// Its path, if the file does not exist yet.
    Missing(PathBuf),
}

impl FileIdentity {
    /// The identity of the file at `path`. None if it stores nothing: a pipe, a terminal, `/dev/null`.
    fn of(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(file) => file.is_file().then(|| Self::of_file(&file)),
            Err(_) => Self::archive(path).or_else(|| Self::missing(path).ok()),
        }
    }

    fn of_file(file: &fs::Metadata) -> Self {
        Self::Existing(file.dev(), file.ino())
    }

    /// The identity of the archive that has `path` as a member.
    fn archive(path: &Path) -> Option<Self> {
        let above = path.ancestors().skip(1).find_map(|above| fs::metadata(above).ok())?;
        above.is_file().then(|| Self::of_file(&above))
    }

    fn missing(path: &Path) -> io::Result<Self> {
        let path = absolute(path)?;
        let directory = path.parent().unwrap_or(Path::new("/")).canonicalize()?;
        Ok(Self::Missing(directory.join(path.file_name().unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(output: &Path) -> OutputConfig {
        OutputConfig::to(Some(output)).unwrap()
    }

    fn refused(checked: Result<(), ConfigError>) -> String {
        match checked {
            Err(ConfigError::Usage(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_file_under_two_names_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "").unwrap();
        fs::create_dir(path("below")).unwrap();
        fs::hard_link(path("file"), path("hard")).unwrap();
        std::os::unix::fs::symlink("file", path("soft")).unwrap();
        for [one, other] in [
            ["file", "file"],
            ["file", "below/../file"],
            ["file", "hard"],
            ["soft", "file"],
            ["new", "new"],
            ["new", "below/../new"],
            // A member of an archive.
            ["file", "file/member"],
            ["soft", "hard/member"],
        ] {
            for checked in [
                to(&path(one)).check_input("--input", &path(other)),
                to(&path(one)).check_beside("--trace", &path(other)),
            ] {
                let error = refused(checked);
                assert!(error.starts_with("`--output`: ") && error.contains("expected two different files"), "{error}");
            }
        }
        for [one, other] in [["file", "new"], ["new", "newer"], ["new", "below/new"], ["file", "nowhere/file"]] {
            to(&path(one)).check_beside("--trace", &path(other)).unwrap();
        }
        to(Path::new("/dev/null")).check_beside("--trace", Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn each_file_that_is_written_is_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let check = |others: &[&str], names: &[&str]| {
            let others: Vec<_> = others.iter().map(|name| path(name)).collect();
            let paths: Vec<_> = names.iter().map(|name| (!name.is_empty()).then(|| path(name))).collect();
            let flags = ["--report", "--svg", "--folded"];
            to(&path("result")).check_all_beside(
                others.iter().map(|path| ("--record", &**path)),
                flags.into_iter().zip(paths.iter().map(Option::as_deref)),
            )
        };
        for (others, names, flag, other) in [
            (&["a"][..], &["b", "", "a"][..], "--folded", "--record"),
            (&[], &["a", "b", "a"], "--folded", "--report"),
            (&[], &["a", "a"], "--svg", "--report"),
            (&["a", "b"], &["b"], "--report", "--record"),
            (&[], &["result"], "--output", "--report"),
        ] {
            let error = refused(check(others, names));
            assert!(error.starts_with(&format!("`{flag}`: ")), "{error}");
            assert!(error.contains(&format!("the file of `{other}`; expected two different files")), "{error}");
        }
        check(&["a", "a"], &["b", "", "c"]).unwrap();
    }

    #[test]
    fn a_directory_or_standard_output_is_rejected_before_anything_starts() {
        let directory = tempfile::tempdir().unwrap();
        let output = to(&directory.path().join("file"));
        assert!(refused(output.check_input("--input", directory.path())).ends_with("expected a file or `-`"));
        assert!(refused(output.check_beside("--trace", directory.path())).ends_with("is a directory; expected a file"));
        assert!(refused(output.check_beside("--trace", Path::new("-"))).starts_with("`--trace`: `-`"));
    }
}
