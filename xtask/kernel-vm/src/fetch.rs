//! Fetches kernels as files: downloaded once, checked on each use.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};
use wakelat_build::Architecture;

use super::{
    apt::{DebianSuite, PackageGone},
    kernels::{self, KernelSpec},
};
use crate::vmlinuz;

/// How many builds of a series to try if the mirror has lost the newest ones.
const BUILDS_TRIED: usize = 16;

/// How long not to request a build again that the mirror has lost.
const GONE_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The Debian suite that busybox is from.
const BUSYBOX_SUITE: &str = "bookworm";

/// A kernel that can be booted.
#[derive(Clone, Debug)]
pub struct KernelImage {
    /// The package that contains it: name, version and architecture.
    pub package: String,
    /// The kernel, in a form that the emulator boots.
    pub vmlinuz: PathBuf,
    /// Its BTF, the same bytes as its `/sys/kernel/btf/vmlinux`.
    pub btf: PathBuf,
}

impl KernelImage {
    fn of(dir: &Path, package: &str) -> Self {
        let file = |end: &str| dir.join(format!("{package}.{end}"));
        Self { package: package.to_owned(), vmlinuz: file("vmlinuz"), btf: file("btf") }
    }

    fn is_intact(&self) -> bool {
        is_intact(&self.vmlinuz) && is_intact(&self.btf)
    }
}

/// Returns the user's cache directory. Fetched kernels outlive the checkout and `cargo clean`, because they
/// serve the whole machine.
///
/// # Errors
/// Fails if neither `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache_dir() -> anyhow::Result<PathBuf> {
    let base = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) if !home.is_empty() => PathBuf::from(home).join(".cache"),
        _ => bail!("no place for a cache: set `HOME` or `XDG_CACHE_HOME`"),
    };
    Ok(base.join("wakelat"))
}

/// Locks the cache and returns its directory. Other processes wait until the file is closed.
pub fn lock_cache() -> anyhow::Result<(PathBuf, File)> {
    let cache = cache_dir()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot create `{}`", cache.display()))?;
    let lock = File::create(cache.join("lock")).context("cannot create the cache's lock")?;
    lock.lock().context("cannot lock the cache")?;
    Ok((cache, lock))
}

/// The newest build of each kernel, or the reason why there is none.
pub fn kernels(specs: &[KernelSpec]) -> anyhow::Result<Vec<(KernelSpec, anyhow::Result<KernelImage>)>> {
    let (cache, _lock) = lock_cache()?;
    let mut suites = BTreeMap::new();
    let kernels = specs.iter().map(|spec| {
        // Several kernels share a suite, and without a network each attempt to reach it takes a while.
        let suite = suites
            .entry((&spec.suite, spec.architecture))
            .or_insert_with(|| DebianSuite::open(&cache, &spec.suite, spec.architecture));
        (spec.clone(), kernel(spec, suite.as_ref(), &cache))
    });
    Ok(kernels.collect())
}

fn kernel(spec: &KernelSpec, suite: Result<&DebianSuite, &anyhow::Error>, cache: &Path) -> anyhow::Result<KernelImage> {
    let dir = cache.join("kernels").join(spec.to_string());
    fs::create_dir_all(&dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    let found = suite.map_err(|why| anyhow::anyhow!("{why:#}")).and_then(|suite| newest(spec, suite, &dir, cache));
    found.or_else(|why| match kept(&dir) {
        Some(kernel) => {
            eprintln!("vm: {spec}: {why:#}; using the kept `{}`", kernel.package);
            Ok(kernel)
        }
        None => Err(why),
    })
}

/// The newest build that the mirror still has, from the cache if possible.
fn newest(spec: &KernelSpec, suite: &DebianSuite, dir: &Path, cache: &Path) -> anyhow::Result<KernelImage> {
    let builds = kernels::packages_of(spec, &suite.package_names()?);
    let losses = LostBuilds { dir: cache.join("gone") };
    let mut gone = None;
    for name in builds.iter().take(BUILDS_TRIED) {
        let package = suite.package(name)?;
        let kernel = KernelImage::of(dir, &package.stem);
        if kernel.is_intact() {
            eprintln!("vm: {spec}: {} (cached)", kernel.package);
            return Ok(kernel);
        }
        if losses.has(&package.stem) {
            gone = Some(anyhow::anyhow!("{}: {PackageGone}", package.stem));
            continue;
        }
        let staging = dir.join("staging");
        let _ = fs::remove_dir_all(&staging);
        fs::create_dir_all(&staging).with_context(|| format!("cannot create `{}`", staging.display()))?;
        let deb = match suite.download(&package, &staging) {
            Err(why) if why.is::<PackageGone>() => {
                eprintln!("vm: {spec}: {}: {PackageGone}", package.stem);
                losses.note(&package.stem)?;
                gone = Some(why);
                continue;
            }
            other => other?,
        };
        let image = file_in(&deb, is_kernel).with_context(|| format!("cannot unpack `{}`", package.stem))?;
        let btf = vmlinuz::btf(&image).with_context(|| format!("cannot take BTF from `{}`", package.stem))?;
        let image = vmlinuz::bootable(&image).with_context(|| format!("cannot unpack `{}`", package.stem))?;
        // Only one build of each kernel is kept, because its name changes with every security update.
        fs::remove_dir_all(dir).and_then(|()| fs::create_dir_all(dir)).context("cannot clear older builds")?;
        store(&kernel.vmlinuz, &image)?;
        store(&kernel.btf, &btf)?;
        eprintln!("vm: {spec}: {} (fetched)", kernel.package);
        return Ok(kernel);
    }
    Err(gone.unwrap_or_else(|| anyhow::anyhow!("`{}` has no package of {spec}", spec.suite)))
}

/// Builds that an index names but its mirror has lost: one empty file each, last modified when the mirror
/// reported the loss.
struct LostBuilds {
    dir: PathBuf,
}

impl LostBuilds {
    fn note(&self, stem: &str) -> anyhow::Result<()> {
        let file = self.dir.join(stem);
        fs::create_dir_all(&self.dir)
            .and_then(|()| fs::write(&file, ""))
            .with_context(|| format!("cannot write `{}`", file.display()))
    }

    fn has(&self, stem: &str) -> bool {
        let noted = fs::metadata(self.dir.join(stem)).and_then(|file| file.modified());
        noted.ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age < GONE_FOR)
    }
}

/// A kernel of an earlier run, of any build.
fn kept(dir: &Path) -> Option<KernelImage> {
    let mut files = fs::read_dir(dir).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    files.find_map(|file| {
        let kernel = KernelImage::of(dir, file.strip_suffix(".vmlinuz")?);
        kernel.is_intact().then_some(kernel)
    })
}

/// A static busybox for commands and shells in guests of an architecture.
pub fn busybox(architecture: Architecture) -> anyhow::Result<PathBuf> {
    let dir = cache_dir()?.join("busybox").join(architecture.debian());
    let busybox = dir.join("busybox");
    if is_intact(&busybox) {
        return Ok(busybox);
    }
    let (cache, _lock) = lock_cache()?;
    let staging = dir.join("staging");
    fs::create_dir_all(&staging).with_context(|| format!("cannot create `{}`", staging.display()))?;
    let suite = DebianSuite::open(&cache, BUSYBOX_SUITE, architecture)?;
    let deb = suite.download(&suite.package("busybox-static")?, &staging)?;
    store(&busybox, &file_in(&deb, |path| path.ends_with("bin/busybox"))?)?;
    let _ = fs::remove_dir_all(&staging);
    Ok(busybox)
}

/// Whether a path in a package is that of the compressed kernel: in `boot` up to 6.18, in `usr/lib/modules`
/// from 6.19 on.
fn is_kernel(path: &str) -> bool {
    path.starts_with("boot/vmlinuz-") || path.starts_with("usr/lib/modules/") && path.ends_with("/vmlinuz")
}

/// Reads the first regular file of a Debian package whose path is `wanted`.
fn file_in(deb: &Path, wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<u8>> {
    let mut unpack = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(deb)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run `dpkg-deb`")?;
    let content = find_in_tar(unpack.stdout.take().context("`dpkg-deb` has no output")?, wanted);
    // The kernel comes before a hundred megabytes of modules, which do not have to be read.
    let _ = unpack.kill();
    unpack.wait().context("cannot wait for `dpkg-deb`")?;
    content
}

fn find_in_tar(tar: impl std::io::Read, wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries().context("not a tar archive")? {
        let mut entry = entry.context("the archive is cut short")?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
        if entry.header().entry_type().is_file() && wanted(&path) {
            let mut content = Vec::new();
            std::io::copy(&mut entry, &mut content).context("the archive is cut short")?;
            return Ok(content);
        }
    }
    bail!("the package does not hold the file that was looked for")
}

/// Writes a file, and then its hash beside it in the format of `sha256sum`. The hash is written last, so
/// that a truncated file does not pass as complete.
fn store(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    ensure!(!content.is_empty(), "`{}` would be empty", path.display());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    fs::write(path, content).with_context(|| format!("cannot write `{}`", path.display()))?;
    let sums = hash_file(path);
    fs::write(&sums, format!("{}  {name}\n", hash(content)))
        .with_context(|| format!("cannot write `{}`", sums.display()))
}

/// Whether the file is unchanged since [`store`] wrote it.
fn is_intact(path: &Path) -> bool {
    let (Ok(content), Ok(sum)) = (fs::read(path), fs::read_to_string(hash_file(path))) else { return false };
    sum.split_whitespace().next() == Some(hash(&content).as_str())
}

fn hash_file(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".sha256");
    name.into()
}

fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary_dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("wakelat-fetch-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_stored_file_is_intact_until_a_byte_changes() {
        let dir = temporary_dir("intact");
        let path = dir.join("a.vmlinuz");
        store(&path, b"kernel").unwrap();
        assert!(is_intact(&path));
        fs::write(&path, b"kernal").unwrap();
        assert!(!is_intact(&path));
        fs::remove_file(&path).unwrap();
        assert!(!is_intact(&path));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn only_a_kernel_with_the_right_hash_is_kept() {
        let dir = temporary_dir("kept");
        assert!(kept(&dir).is_none());
        fs::write(dir.join("cut_1_amd64.vmlinuz"), "half").unwrap();
        assert!(kept(&dir).is_none());
        store(&dir.join("linux_2_amd64.vmlinuz"), b"whole").unwrap();
        assert!(kept(&dir).is_none());
        store(&dir.join("linux_2_amd64.btf"), b"types").unwrap();
        assert_eq!(kept(&dir).unwrap().package, "linux_2_amd64");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_lost_build_is_not_requested_again_for_a_day() {
        let losses = LostBuilds { dir: temporary_dir("gone").join("gone") };
        assert!(!losses.has("linux_1_amd64"));
        losses.note("linux_1_amd64").unwrap();
        assert!(losses.has("linux_1_amd64") && !losses.has("linux_2_amd64"));
        let file = File::options().write(true).open(losses.dir.join("linux_1_amd64")).unwrap();
        file.set_modified(std::time::SystemTime::now() - GONE_FOR).unwrap();
        assert!(!losses.has("linux_1_amd64"));
        fs::remove_dir_all(losses.dir.parent().unwrap()).unwrap();
    }

    #[test]
    fn the_hash_is_the_one_sha256sum_prints() {
        assert_eq!(hash(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn the_kernel_is_found_in_both_directories_and_links_are_ignored() {
        let archive = |path: &str| {
            let mut builder = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, "./boot/vmlinuz-link", "elsewhere").unwrap();
            let mut header = tar::Header::new_gnu();
            header.set_size(3);
            builder.append_data(&mut header, path, &b"abc"[..]).unwrap();
            builder.into_inner().unwrap()
        };
        for path in ["./boot/vmlinuz-6.1.0-56-rt-amd64", "./usr/lib/modules/7.2.12+deb13-rt-amd64/vmlinuz"] {
            assert_eq!(find_in_tar(archive(path).as_slice(), is_kernel).unwrap(), b"abc");
        }
        assert!(find_in_tar(archive("./boot/config-6.1").as_slice(), is_kernel).is_err());
    }
}
