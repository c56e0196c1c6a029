//! Finds the BTF of kernels: raw, as in `/sys/kernel/btf/vmlinux`, or inside a kernel image.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use aya_obj::btf::Btf;

/// A file with the BTF of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelFile {
    /// The name to report.
    pub name: String,
    /// The path of the file.
    pub path: PathBuf,
}

/// Returns the given files, and the kernels in the given directories, sorted by path within each.
pub fn find(paths: &[PathBuf]) -> anyhow::Result<Vec<KernelFile>> {
    let mut kernels = vec![];
    for root in paths {
        let inside = || format!("cannot read `{}`", root.display());
        if fs::metadata(root).with_context(inside)?.is_dir() {
            let mut found = vec![];
            walk(root, &mut found).with_context(inside)?;
            kernels.extend(found.into_iter().map(|path| {
                let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                KernelFile { name, path }
            }));
        } else {
            kernels.push(KernelFile { name: root.display().to_string(), path: root.clone() });
        }
    }
    Ok(kernels)
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            walk(&path, found)?;
        // Skips an image with extracted BTF beside it: the BTF is listed by itself and is faster to read.
        } else if is_kernel(&path)?
            && (path.extension() == Some("btf".as_ref()) || !path.with_extension("btf").exists())
        {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether a file begins with BTF or as the image of a kernel.
fn is_kernel(path: &Path) -> anyhow::Result<bool> {
    let mut start = vec![];
    File::open(path)?.take(0x206).read_to_end(&mut start)?;
    Ok(is_btf(&start) || kernel_vm::is_kernel_image(&start))
}

/// BTF begins with 0xeb9f in the byte order of its machine (Linux, `Documentation/bpf/btf.rst`).
fn is_btf(bytes: &[u8]) -> bool {
    matches!(bytes, [0x9f, 0xeb, ..] | [0xeb, 0x9f, ..])
}

/// Reads the BTF of the kernel in a file.
///
/// # Errors
/// Fails if the file has none.
pub fn btf(path: &Path) -> anyhow::Result<Btf> {
    let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let raw = if is_btf(&bytes) { bytes } else { kernel_vm::btf_of_image(&bytes)? };
    Btf::parse(&raw, Default::default()).context("this BTF is broken")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_gives_each_kernel_once() {
        let root = std::env::temp_dir().join(format!("xtask-kernels-{}", std::process::id()));
        fs::create_dir_all(root.join("6.1")).unwrap();
        let mut image = vec![0; 0x300];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        fs::write(root.join("6.1/a.vmlinuz"), &image).unwrap();
        fs::write(root.join("6.1/a.btf"), [0x9f, 0xeb, 1, 0]).unwrap();
        fs::write(root.join("b.vmlinuz"), &image).unwrap();
        fs::write(root.join("README"), "text").unwrap();
        let names: Vec<_> = find(std::slice::from_ref(&root)).unwrap().into_iter().map(|kernel| kernel.name).collect();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(names, ["6.1/a.btf", "b.vmlinuz"]);
    }

    #[test]
    fn a_path_that_does_not_exist_is_named() {
        let error = find(&["/nowhere/vmlinux".into()]).unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot read `/nowhere/vmlinux`"), "{error:#}");
    }
}
