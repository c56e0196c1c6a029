//! The mounts that this process sees. The crate procfs-core (0.18) parses them too, but does not decode
//! escaped mount points.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount point.
    pub point: PathBuf,
    /// The file system type, as for `mount -t`.
    pub kind: String,
    /// The file system's own options, separated by commas; for cgroup v1 they include the controllers.
    pub options: String,
}

/// Parses `/proc/PID/mountinfo` (Documentation/filesystems/proc.rst, 3.5). Skips malformed lines.
pub fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    // 36 35 98:0 /root /point options [optional fields] - type source super-options
    let (before, after) = line.split_once(" - ")?;
    let point = before.split(' ').nth(4)?;
    let mut after = after.split(' ');
    let (kind, _source) = (after.next()?, after.next()?);
    Some(Mount { point: unescape(point), kind: kind.to_owned(), options: after.next().unwrap_or("").to_owned() })
}

/// Decodes space, tab, newline and backslash, which the kernel writes as three octal digits (`mangle()`,
/// fs/proc_namespace.c).
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => bytes.push(*first),
        }
    }
    OsString::from_vec(bytes).into()
}

/// The mount that contains `path`, which is absolute and without symbolic links. Of several mounts at the
/// same point, the last one covers the others.
pub fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts.iter().filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.components().count())
}

/// The mount points of file systems of this type, in mount order.
pub fn of_kind<'a>(mounts: &'a [Mount], kind: &str) -> impl Iterator<Item = &'a Path> {
    mounts.iter().filter(move |mount| mount.kind == kind).map(|mount| mount.point.as_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
50 27 0:50 / /mnt/a\\040b\\134c rw - tmpfs none rw
broken line
";

    #[test]
    fn a_mount_is_parsed_with_and_without_optional_fields() {
        let mounts = parse(HYBRID);
        assert_eq!(mounts.len(), 6);
        assert_eq!(mounts[1].point, Path::new("/"));
        assert_eq!(mounts[1].kind, "ext4");
        assert_eq!(mounts[3].options, "rw,cpu");
    }

    #[test]
    fn an_escaped_mount_point_is_decoded() {
        assert_eq!(parse(HYBRID)[5].point, Path::new("/mnt/a b\\c"));
    }

    #[test]
    fn a_path_belongs_to_the_innermost_mount() {
        let mounts = parse(HYBRID);
        let kind = |path| holding(&mounts, Path::new(path)).map(|mount| mount.kind.as_str());
        assert_eq!(kind("/sys/fs/cgroup/unified/x"), Some("cgroup2"));
        assert_eq!(kind("/sys/fs/cgroup/unifiedx"), Some("tmpfs"));
        assert_eq!(kind("/sys/fs/cgroup/cpu"), Some("cgroup"));
        assert_eq!(kind("/home"), Some("ext4"));
    }

    #[test]
    fn a_mount_over_another_covers_it() {
        let mounts = parse("1 0 0:1 / /x rw - tmpfs a rw\n2 1 0:2 / /x rw - cgroup2 b rw\n");
        assert_eq!(holding(&mounts, Path::new("/x/y")).map(|mount| mount.kind.as_str()), Some("cgroup2"));
    }

    #[test]
    fn the_v2_hierarchy_is_found_in_a_hybrid_layout() {
        let mounts = parse(HYBRID);
        assert_eq!(of_kind(&mounts, "cgroup2").collect::<Vec<_>>(), [Path::new("/sys/fs/cgroup/unified")]);
    }
}
