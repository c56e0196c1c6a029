//! Archives of recordings, which `merge` writes: files of tar, uncompressed, so that any of their members is read in place.
//!
//! A member has a path of its own: that of the archive, and its name below it, as if the archive were a directory.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Component, Path, PathBuf},
};

use super::ConfigError;

/// Where a member is in its archive: bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: PathBuf,
    /// Where its contents begin.
    pub begin: u64,
    /// Length of its contents.
    pub length: u64,
}

/// The members of the archive at `path`; `None` if it is no archive.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub fn members(path: &Path) -> io::Result<Option<Vec<Member>>> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() || !is_archive(&mut file)? {
        return Ok(None);
    }
    let length = file.metadata()?.len();
    file.rewind()?;
    let mut archive = tar::Archive::new(file);
    let mut members = Vec::new();
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path()?.into_owned();
        let member = Member { name, begin: entry.raw_file_position(), length: entry.size() };
        if member.begin.checked_add(member.length).is_none_or(|end| end > length) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive is truncated"));
        }
        members.push(member);
    }
    Ok(Some(members))
}

/// The paths of what to read: an archive is replaced by its members. A path that cannot be opened stays: opening it as a
/// recording says why.
///
/// # Errors
/// If an archive is damaged.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ConfigError> {
    let mut expanded = Vec::new();
    for path in paths {
        match members(path) {
            Ok(Some(members)) => expanded.extend(members.iter().map(|member| path.join(below(&member.name)))),
            Err(error) if path.is_file() => {
                return Err(ConfigError::unmet("--input", format!("cannot read `{}`: {error}", path.display())));
            }
            Ok(None) | Err(_) => expanded.push(path.clone()),
        }
    }
    Ok(expanded)
}

/// The path by which a file or a member is known, however it is given; the path itself if there is none.
pub(crate) fn identity(path: &Path) -> PathBuf {
    let known =
        path.ancestors().find_map(|above| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?)));
    known.unwrap_or_else(|| path.to_owned())
}

/// Opens the member at `path`, if what is above it is an archive that has it.
///
/// # Errors
/// If the archive cannot be read.
pub fn open(path: &Path) -> io::Result<Option<(File, Member)>> {
    for above in path.ancestors().skip(1).filter(|above| above.is_file()) {
        let Ok(name) = path.strip_prefix(above) else { continue };
        let found = members(above)?.unwrap_or_default().into_iter().find(|member| below(&member.name) == name);
        if let Some(member) = found {
            return Ok(Some((File::open(above)?, member)));
        }
    }
    Ok(None)
}

/// A name without a root and without `.`, so that it is one below the archive: `tar cf all.tar ./*` makes `./NAME`.
fn below(name: &Path) -> PathBuf {
    name.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir)).collect()
}

/// Whether the header of the first member has the mark of POSIX's tar.
fn is_archive(file: &mut File) -> io::Result<bool> {
    const MARK_AT: u64 = 257;
    let mut mark = [0; 5];
    file.seek(SeekFrom::Start(MARK_AT))?;
    Ok(file.read_exact(&mut mark).is_ok() && mark == *b"ustar")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// An archive with these members.
    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, contents) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(contents.len() as u64);
            header.set_mode(0o600);
            // As it is: the crate would leave out `./`.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, *contents).unwrap();
        }
        archive.into_inner().unwrap()
    }

    #[test]
    fn a_member_is_read_at_a_path_below_the_archive() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("all.wakelat");
        fs::write(&path, archive(&[("a.wakelat", b"first"), ("./host/b.wakelat", b"second one")])).unwrap();
        let expanded = expand(&[directory.path().join("other"), path.clone()]).unwrap();
        let below = |name| path.join(name);
        assert_eq!(expanded, [directory.path().join("other"), below("a.wakelat"), below("host/b.wakelat")]);
        for (name, contents) in [("a.wakelat", &b"first"[..]), ("host/b.wakelat", b"second one")] {
            let (mut file, member) = open(&below(name)).unwrap().unwrap();
            let mut found = vec![0; member.length as usize];
            file.seek(SeekFrom::Start(member.begin)).unwrap();
            file.read_exact(&mut found).unwrap();
            assert_eq!(found, contents);
        }
        assert!(open(&below("c")).unwrap().is_none());
        assert!(open(&directory.path().join("no/such")).unwrap().is_none());
    }

    #[test]
    fn other_files_are_no_archives_and_truncated_ones_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for other in [&b""[..], b"wakelat\n", &[0; 1024]] {
            fs::write(&path, other).unwrap();
            assert_eq!(members(&path).unwrap(), None);
        }
        let whole = archive(&[("a", &[7; 2_000])]);
        for length in [300, 512, 1_000, 2_500] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(members(&path).is_err(), "{length}");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(members(&path).unwrap().unwrap()[0].length, 2_000);
    }
}
