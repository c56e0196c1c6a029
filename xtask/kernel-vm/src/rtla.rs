//! The files of rtla for the guests, in which tests compare timerlat's figures with rtla's: the installed
//! one, or Debian's package in the cache of kernels.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use wakelat_build::program_in_path;

use super::{apt::output, deb_unpack, fetch::lock_cache};

/// The name of the program and of its Debian package.
const NAME: &str = "rtla";

/// The program, its libraries and its loader: the path of each in a guest, and on this machine.
///
/// # Errors
/// Fails if there is none and Debian's packages do not provide one.
pub fn files() -> anyhow::Result<Vec<(String, PathBuf)>> {
    let (program, libraries) = match program_in_path(NAME) {
        Some(installed) => (installed, String::new()),
        None => {
            let (cache, _lock) = lock_cache()?;
            let root = cache.join(NAME);
            let runs = |root: &Path| needed(&program(root), &deb_unpack::libraries(root)).is_ok();
            if !runs(&root) {
                eprintln!("vm: fetching {NAME} (1.5 MB, kept in `{}`)", cache.display());
                deb_unpack::fetch(&root, NAME, NAME, runs)?;
            }
            (program(&root), deb_unpack::libraries(&root))
        }
    };
    let mut files = needed(&program, &libraries)?;
    files.push((format!("bin/{NAME}"), program));
    Ok(files)
}

fn program(root: &Path) -> PathBuf {
    root.join("usr/bin").join(NAME)
}

/// The libraries that `program` is linked with, found as the loader finds them.
fn needed(program: &Path, libraries: &str) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let printed = output(Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", libraries))?;
    linked(&printed)
}

/// Parses lines such as `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f…)`, and
/// `/lib64/ld-linux-x86-64.so.2 (0x7f…)` for the loader, which must be at exactly that path. The vDSO
/// (`linux-vdso.so.1`) is not a file.
fn linked(printed: &str) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let file = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [name, "=>", "not", "found"] => Some(Err(anyhow::anyhow!("`{name}` is missing"))),
            [name, "=>", path, _] => Some(Ok((format!("lib/{name}"), PathBuf::from(path)))),
            [loader, _] if loader.starts_with('/') => {
                Some(Ok((loader.trim_start_matches('/').to_owned(), PathBuf::from(loader))))
            }
            _ => None,
        }
    };
    printed.lines().filter_map(file).collect::<anyhow::Result<_>>().with_context(|| format!("`{NAME}` cannot be run"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_go_where_the_loader_looks() {
        let printed = "\tlinux-vdso.so.1 (0x00007fc67fad2000)\n\
            \tlibtracefs.so.1 => /cache/rtla/usr/lib/x86_64-linux-gnu/libtracefs.so.1 (0x00007fc67fa97000)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007fc67fad4000)\n";
        let files = [
            ("lib/libtracefs.so.1", "/cache/rtla/usr/lib/x86_64-linux-gnu/libtracefs.so.1"),
            ("lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
        ];
        let owned = files.map(|(path, file)| (path.to_owned(), PathBuf::from(file)));
        assert_eq!(linked(printed).unwrap(), owned);
    }

    #[test]
    fn a_library_that_is_missing_is_named() {
        let error = linked("\tlibtracefs.so.1 => not found\n").unwrap_err();
        assert_eq!(format!("{error:#}"), "`rtla` cannot be run: `libtracefs.so.1` is missing");
    }
}
