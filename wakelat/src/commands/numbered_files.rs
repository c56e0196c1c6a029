//! Files with numbers in their names, of which only the last are kept.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf, absolute},
};

use anyhow::{Context as _, Result};

/// Files such as `incident-1.wakelat`, `incident-2.wakelat`, also those of earlier runs.
pub struct NumberedFiles {
    directory: PathBuf,
    /// What is before and after the number.
    around: (String, String),
    /// The numbers of the files, ascending.
    numbers: VecDeque<u64>,
    max_files: usize,
}

/// The next file, and those that it replaces.
#[derive(Clone)]
pub struct NumberedFile {
    number: u64,
    path: PathBuf,
    /// The number and the path of each file that it replaces.
    replaced: Vec<(u64, PathBuf)>,
}

impl NumberedFiles {
    /// The files of `path`, of which `max_files` are kept.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn find(path: &Path, max_files: usize) -> Result<Self> {
        let path = absolute(path).with_context(|| format!("cannot find the directory of `{}`", path.display()))?;
        let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        let extension = text(path.extension()).map_or(String::new(), |extension| format!(".{extension}"));
        let around = (format!("{}-", text(path.file_stem()).unwrap_or_default()), extension);
        let unreadable = || format!("cannot read the directory `{}`", directory.display());
        let entries = fs::read_dir(&directory).with_context(unreadable)?;
        let number = |name: String| name.strip_prefix(&around.0)?.strip_suffix(&around.1)?.parse().ok();
        let mut numbers: Vec<u64> =
            entries.flatten().filter_map(|entry| number(entry.file_name().to_string_lossy().into_owned())).collect();
        numbers.sort_unstable();
        Ok(Self { directory, around, numbers: numbers.into(), max_files })
    }

    /// The directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{}{number}{}", self.around.0, self.around.1))
    }

    /// The length of all whole files: bytes.
    pub fn bytes(&self) -> u64 {
        self.numbers.iter().filter_map(|number| fs::metadata(self.path(*number)).ok()).map(|file| file.len()).sum()
    }

    /// Removes the oldest files until the others have at most this length: bytes. Never removes the last file.
    pub fn shrink_to(&mut self, max_bytes: u64) {
        while self.numbers.len() > 1 && self.bytes() > max_bytes {
            let oldest = self.numbers.pop_front();
            // It may be gone already.
            oldest.into_iter().for_each(|number| _ = fs::remove_file(self.path(number)));
        }
    }

    /// Removes files that earlier processes have not finished.
    pub fn remove_parts(&self) {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let is_part = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let number = || name.strip_suffix(PART)?.strip_prefix(&self.around.0)?.strip_suffix(&self.around.1);
            number().is_some_and(|number| number.parse::<u64>().is_ok())
        };
        entries.map(|entry| entry.path()).filter(is_part).for_each(|path| _ = fs::remove_file(path));
    }

    /// The next file.
    pub fn next(&mut self) -> NumberedFile {
        let number = self.numbers.back().map_or(1, |last| last.saturating_add(1));
        let surplus = (self.numbers.len() + 1).saturating_sub(self.max_files);
        let replaced = self.numbers.drain(..surplus).collect::<Vec<_>>();
        let replaced = replaced.into_iter().map(|number| (number, self.path(number))).collect();
        self.numbers.push_back(number);
        NumberedFile { number, path: self.path(number), replaced }
    }

    /// `file` could not be written: the files that it was to replace are still there.
    pub fn put_back(&mut self, file: NumberedFile) {
        self.numbers.retain(|number| *number != file.number);
        file.replaced.into_iter().rev().for_each(|(number, _)| self.numbers.push_front(number));
    }
}

/// The end of the name of a file that is not whole.
const PART: &str = ".part";

impl NumberedFile {
    fn part(&self) -> PathBuf {
        let mut part = self.path.clone().into_os_string();
        part.push(PART);
        part.into()
    }

    /// Creates the file, which does not have its name yet.
    pub fn create(&self) -> io::Result<File> {
        File::create(self.part())
    }

    /// The file that [`Self::create`] has created is whole: gives it its name.
    pub fn finish(&self) -> io::Result<()> {
        // A file that is gone already is removed, too.
        self.replaced.iter().for_each(|(_, path)| _ = fs::remove_file(path));
        fs::rename(self.part(), &self.path)
    }

    /// Removes the file that [`Self::create`] has created.
    pub fn discard(&self) {
        // It may be gone already.
        _ = fs::remove_file(self.part());
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what `write` writes. The file has its name only once it is whole. Returns its length: bytes.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<u64> {
        let whole = || {
            let mut out = BufWriter::new(self.create()?);
            let written = write(&mut out).and_then(|()| out.flush()).and_then(|()| out.get_ref().metadata());
            let bytes = written.inspect_err(|_| self.discard())?.len();
            self.finish()?;
            Ok::<_, io::Error>(bytes)
        };
        whole().with_context(|| format!("cannot write `{}`", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = fs::read_dir(directory).unwrap().flatten().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn only_the_last_files_are_kept_also_of_earlier_runs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("incident.wakelat");
        for name in ["incident-9.wakelat", "incident-10.wakelat", "incident-x.wakelat", "other-3.wakelat"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let mut files = NumberedFiles::find(&path, 2).unwrap();
        assert_eq!(files.next().write(|out| out.write_all(b"whole")).unwrap(), 5);
        assert_eq!(
            names(directory.path()),
            ["incident-10.wakelat", "incident-11.wakelat", "incident-x.wakelat", "other-3.wakelat"]
        );
        files.next().write(|_| Ok(())).unwrap();
        assert!(names(directory.path()).contains(&"incident-12.wakelat".to_owned()));
        assert!(!names(directory.path()).contains(&"incident-10.wakelat".to_owned()));
    }

    #[test]
    fn the_oldest_files_make_room_and_no_other_ones() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a-1", "a-2", "a-3", "a-x", "a-4.part", "b-1", "a-x.part"] {
            fs::write(directory.path().join(name), "12345").unwrap();
        }
        let mut files = NumberedFiles::find(&directory.path().join("a"), usize::MAX).unwrap();
        files.remove_parts();
        assert_eq!(names(directory.path()), ["a-1", "a-2", "a-3", "a-x", "a-x.part", "b-1"]);
        assert_eq!(files.bytes(), 15);
        files.shrink_to(10);
        let next = files.next();
        next.create().unwrap();
        assert_eq!(names(directory.path()), ["a-2", "a-3", "a-4.part", "a-x", "a-x.part", "b-1"]);
        files.shrink_to(0);
        next.finish().unwrap();
        files.shrink_to(0);
        assert_eq!(names(directory.path()), ["a-4", "a-x", "a-x.part", "b-1"]);
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_and_removes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("incident");
        fs::write(directory.path().join("incident-1"), "").unwrap();
        let mut files = NumberedFiles::find(&path, 1).unwrap();
        let next = files.next();
        let error = next.write(|_| Err(io::Error::other("full"))).unwrap_err();
        assert!(format!("{error:#}").contains("incident-2`: full"), "{error:#}");
        assert_eq!(names(directory.path()), ["incident-1"]);
        files.put_back(next);
        files.next().write(|_| Ok(())).unwrap();
        assert_eq!(names(directory.path()), ["incident-2"]);
    }
}
