//! The archive that the kernel unpacks as its first root.
//!
//! Format: `newc`, Linux `Documentation/driver-api/early-userspace/buffer-format.rst`. The archive is not
//! compressed: under emulation, unpacking costs more than reading.

use std::collections::BTreeSet;

const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;

/// An archive under construction. Owners are root and times zero, so that the same content gives the same
/// bytes.
#[derive(Default)]
pub struct Initramfs {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    inodes: u32,
}

impl Initramfs {
    /// Adds an executable file. `path` has no leading slash; missing directories are added.
    pub fn program(&mut self, path: &str, content: &[u8]) {
        self.parents_of(path);
        self.entry(path, REGULAR | 0o755, content);
    }

    /// Adds a file of data.
    pub fn data(&mut self, path: &str, content: &[u8]) {
        self.parents_of(path);
        self.entry(path, REGULAR | 0o644, content);
    }

    /// Ends the archive and returns its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, b"");
        self.bytes
    }

    fn parents_of(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            if self.directories.insert(path[..end].to_owned()) {
                self.entry(&path[..end], DIRECTORY | 0o755, b"");
            }
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.inodes += 1;
        let links = 1;
        let size = u32::try_from(content.len()).expect("a file for the archive is below 4 GiB");
        let name_size = u32::try_from(path.len() + 1).expect("a path is short");
        // inode, mode, uid, gid, links, mtime, size, device (2), device number (2), length of name, checksum
        let fields = [self.inodes, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an archive back as the kernel's `init/initramfs.c` does: (path, mode, content).
    fn read(mut archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        loop {
            assert_eq!(&archive[..6], b"070701");
            let field = |i: usize| {
                let digits = std::str::from_utf8(&archive[6 + 8 * i..14 + 8 * i]).unwrap();
                u32::from_str_radix(digits, 16).unwrap() as usize
            };
            let (mode, size, name_size) = (field(1), field(6), field(11));
            let name = String::from_utf8(archive[110..110 + name_size - 1].to_vec()).unwrap();
            let start = (110 + name_size).next_multiple_of(4);
            let content = archive[start..start + size].to_vec();
            archive = &archive[(start + size).next_multiple_of(4)..];
            if name == "TRAILER!!!" {
                assert!(archive.is_empty());
                return entries;
            }
            entries.push((name, mode as u32, content));
        }
    }

    #[test]
    fn an_archive_has_each_directory_once_before_its_files() {
        let mut archive = Initramfs::default();
        archive.program("init", b"\x7fELF");
        archive.program("usr/bin/a", b"12345");
        archive.program("usr/bin/b", b"");
        archive.data("job", b"");
        let entry = |name: &str, mode: u32, content: &[u8]| (name.to_owned(), mode, content.to_vec());
        assert_eq!(
            read(&archive.finish()),
            [
                entry("init", 0o100755, b"\x7fELF"),
                entry("usr", 0o040755, b""),
                entry("usr/bin", 0o040755, b""),
                entry("usr/bin/a", 0o100755, b"12345"),
                entry("usr/bin/b", 0o100755, b""),
                entry("job", 0o100644, b""),
            ]
        );
    }

    #[test]
    fn the_same_content_gives_the_same_bytes() {
        let build = || {
            let mut archive = Initramfs::default();
            archive.program("tests/a", b"x");
            archive.finish()
        };
        assert_eq!(build(), build());
    }
}
