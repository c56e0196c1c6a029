//! Finds a cgroup of the v2 hierarchy by its path.

use std::{
    fmt, io,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use super::mounts::{self, Mount};
use wakelat_core::cgroup_path;

/// File system type of the v2 hierarchy.
pub const V2: &str = "cgroup2";

/// A cgroup of the v2 hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// The cgroup's ID, which is the inode number of its directory (`cgroup_id()`, include/linux/cgroup.h,
    /// from 5.5 on).
    pub id: u64,
    /// The cgroup's directory: absolute, without symbolic links.
    pub path: PathBuf,
}

/// Why there is no cgroup at a path.
#[derive(Debug)]
pub enum CgroupError {
    /// This process sees no mounted v2 hierarchy.
    NotMounted,
    /// The path does not exist.
    Missing {
        /// The path as the user gave it.
        path: PathBuf,
        /// Mount point of the v2 hierarchy.
        mounted: PathBuf,
    },
    /// The path exists but is not a directory of the v2 hierarchy.
    Other {
        /// The path as the user gave it.
        path: PathBuf,
        /// What the path is instead.
        what: String,
        /// Mount point of the v2 hierarchy.
        mounted: PathBuf,
    },
    /// The path cannot be accessed.
    Unreadable {
        /// The path as the user gave it.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl fmt::Display for CgroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMounted => write!(
                f,
                "the cgroup v2 hierarchy is not mounted; boot with `systemd.unified_cgroup_hierarchy=1`, or mount it with \
                 `mount -t cgroup2 none DIRECTORY`"
            ),
            Self::Missing { path, mounted } => write!(
                f,
                "there is no cgroup `{}`; expected a directory in the cgroup v2 hierarchy, which is mounted at `{}`",
                path.display(),
                mounted.display()
            ),
            Self::Other { path, what, mounted } => write!(
                f,
                "`{}` is {what}; expected a directory in the cgroup v2 hierarchy, which is mounted at `{}`",
                path.display(),
                mounted.display()
            ),
            Self::Unreadable { path, error } => write!(f, "cannot access `{}`: {error}", path.display()),
        }
    }
}

impl std::error::Error for CgroupError {}

/// Finds the cgroup at `path`: a path relative to the mount of the v2 hierarchy (`/kubepods/x`,
/// `kubepods/x`; also as views show one that is not UTF-8), or a path of the file system. A path that begins with `.` or `..` is only taken as a path
/// of the file system.
///
/// # Errors
/// If there is no cgroup at the path.
pub fn find(mounts: &[Mount], path: &Path) -> Result<Cgroup, CgroupError> {
    let first = mounts::of_kind(mounts, V2).next().ok_or(CgroupError::NotMounted)?;
    let dotted = matches!(path.components().next(), Some(Component::CurDir | Component::ParentDir));
    let relative = path.strip_prefix("/").unwrap_or(path);
    let below =
        |path: PathBuf| mounts::of_kind(mounts, V2).filter(move |_| !dotted).map(move |mount| mount.join(&path));
    let shown = relative.to_str().map_or_else(|| relative.to_owned(), cgroup_path::path);
    let mut failure = CgroupError::Missing { path: path.to_owned(), mounted: first.to_owned() };
    for candidate in below(relative.to_owned()).chain([path.to_owned()]).chain(below(shown)) {
        match examine(mounts, &candidate) {
            Ok(Found::Cgroup(cgroup)) => return Ok(cgroup),
            Ok(Found::Other(what)) => {
                failure = CgroupError::Other { path: path.to_owned(), what, mounted: first.to_owned() };
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => failure = CgroupError::Unreadable { path: path.to_owned(), error },
        }
    }
    Err(failure)
}

enum Found {
    Cgroup(Cgroup),
    Other(String),
}

fn examine(mounts: &[Mount], path: &Path) -> io::Result<Found> {
    let path = path.canonicalize()?;
    let metadata = path.metadata()?;
    if !metadata.is_dir() {
        return Ok(Found::Other("a file".to_owned()));
    }
    Ok(match mounts::holding(mounts, &path) {
        Some(mount) if mount.kind == V2 => Found::Cgroup(Cgroup { id: metadata.ino(), path }),
        Some(mount) if mount.kind == "cgroup" => {
            Found::Other(format!("a directory of cgroup v1 ({})", controllers(&mount.options)))
        }
        Some(mount) => Found::Other(format!("an ordinary directory ({})", mount.kind)),
        None => Found::Other("an ordinary directory".to_owned()),
    })
}

/// The controllers of a v1 hierarchy: its mount options without those that any mount may have.
fn controllers(options: &str) -> String {
    let own: Vec<_> =
        options.split(',').filter(|option| !matches!(*option, "rw" | "ro" | "xattr" | "noprefix")).collect();
    own.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hybrid layout in a temporary directory: `v2` and `v1` are the hierarchies, `plain` is neither.
    fn layout() -> (tempfile::TempDir, Vec<Mount>) {
        let root = tempfile::tempdir().unwrap();
        for directory in ["v2/kubepods/pod1", "v2/plain", "v1/kubepods", "plain"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        std::fs::write(root.path().join("v2/cgroup.procs"), "").unwrap();
        std::os::unix::fs::symlink(root.path().join("v2/kubepods"), root.path().join("link")).unwrap();
        let base = root.path().canonicalize().unwrap();
        let mounts = mounts::parse(&format!(
            "1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / {0}/v1 rw - cgroup b rw,cpu,cpuacct\n3 1 0:3 / {0}/v2 rw - cgroup2 c rw\n",
            base.display()
        ));
        (root, mounts)
    }

    #[test]
    fn a_cgroup_is_found_below_the_mount_and_by_its_full_path() {
        let (root, mounts) = layout();
        let expected = root.path().canonicalize().unwrap().join("v2/kubepods/pod1");
        let id = expected.metadata().unwrap().ino();
        for path in [
            PathBuf::from("/kubepods/pod1"),
            PathBuf::from("kubepods/pod1"),
            PathBuf::from("kubepods/pod1/"),
            expected.clone(),
            root.path().join("link/pod1"),
        ] {
            let cgroup = find(&mounts, &path).unwrap();
            assert_eq!(cgroup, Cgroup { id, path: expected.clone() }, "{}", path.display());
        }
    }

    #[test]
    fn a_cgroup_is_found_by_the_path_that_views_show() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
        let (root, mounts) = layout();
        let expected = root.path().canonicalize().unwrap().join("v2").join(OsStr::from_bytes(b"a\xff"));
        std::fs::create_dir(&expected).unwrap();
        for path in [OsStr::new("/a\\xff"), OsStr::from_bytes(b"/a\xff")] {
            assert_eq!(find(&mounts, Path::new(path)).unwrap().path, expected);
        }
    }

    #[test]
    fn the_root_of_the_hierarchy_is_a_cgroup() {
        let (root, mounts) = layout();
        assert_eq!(find(&mounts, Path::new("/")).unwrap().path, root.path().canonicalize().unwrap().join("v2"));
    }

    #[test]
    fn a_v1_directory_is_rejected_and_named_as_such() {
        let (root, mounts) = layout();
        let error = find(&mounts, &root.path().join("v1/kubepods")).unwrap_err().to_string();
        assert!(error.contains("is a directory of cgroup v1 (cpu,cpuacct)"), "{error}");
        assert!(error.contains("which is mounted at") && error.contains("/v2`"), "{error}");
    }

    #[test]
    fn an_ordinary_directory_is_rejected_and_named_as_such() {
        let (root, mounts) = layout();
        let error = find(&mounts, &root.path().join("plain")).unwrap_err().to_string();
        assert!(error.contains("is an ordinary directory (ext4)"), "{error}");
    }

    #[test]
    fn a_file_of_the_hierarchy_is_not_a_cgroup() {
        let (_root, mounts) = layout();
        let error = find(&mounts, Path::new("/cgroup.procs")).unwrap_err().to_string();
        assert!(error.contains("`/cgroup.procs` is a file"), "{error}");
    }

    #[test]
    fn a_missing_path_is_rejected() {
        let (_root, mounts) = layout();
        let error = find(&mounts, Path::new("/no/such")).unwrap_err();
        assert!(matches!(error, CgroupError::Missing { .. }), "{error}");
        assert!(find(&mounts, Path::new("/kubepods/../../plain")).is_err());
    }

    #[test]
    fn a_dotted_path_is_only_taken_as_a_path_of_the_file_system() {
        let (_root, mounts) = layout();
        assert!(find(&mounts, Path::new("./kubepods")).is_err());
        assert!(find(&mounts, Path::new(".")).is_err());
    }

    #[test]
    fn without_a_v2_mount_the_error_has_the_remedy() {
        let error = find(&[], Path::new("/kubepods")).unwrap_err();
        assert!(matches!(error, CgroupError::NotMounted));
        assert!(error.to_string().contains("mount -t cgroup2"));
    }
}
