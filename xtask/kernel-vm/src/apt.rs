//! A private apt root. It reads other suites of the Debian mirror that this machine uses, with apt's own
//! checks of signatures and hashes, and leaves the machine's sources and package state alone.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, bail};
use wakelat_build::Architecture;

/// Debian's archive keys, for every suite that is still served.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// How old a suite's index may be before it is fetched again.
const INDEX_IS_FRESH_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// One suite with an apt root of its own, so that a package name always means this suite's package for one
/// architecture.
pub struct DebianSuite {
    root: PathBuf,
    architecture: Architecture,
}

/// One version of a package, as in the suite's index.
pub struct Package {
    /// The package's name.
    pub name: String,
    /// The file's name up to `.deb`: name, version and architecture.
    pub stem: String,
}

impl DebianSuite {
    /// Prepares the root under `cache`, for the packages of one architecture, and updates its index. Without a network,
    /// an older index is used.
    ///
    /// # Errors
    /// Fails if there is no apt, no Debian mirror among its sources, or neither a network nor an older
    /// index.
    pub fn open(cache: &Path, name: &str, architecture: Architecture) -> anyhow::Result<Self> {
        let root = cache.join("apt").join(format!("{name}-{}", architecture.debian()));
        let suite = Self { root, architecture };
        for dir in ["lists/partial", "cache/archives/partial"] {
            let dir = suite.root.join(dir);
            fs::create_dir_all(&dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
        }
        let fetched = suite.root.join("fetched");
        let age = fs::metadata(&fetched).and_then(|file| file.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age < INDEX_IS_FRESH_FOR) {
            return Ok(suite);
        }
        match suite.update(name) {
            Ok(()) => fs::write(&fetched, "").context("cannot note when the index was fetched")?,
            Err(why) if age.is_some() => eprintln!("vm: {name}: keeping the older index: {why:#}"),
            Err(why) => return Err(why.context(format!("no index of `{name}`"))),
        }
        Ok(suite)
    }

    fn update(&self, name: &str) -> anyhow::Result<()> {
        let targets = output(Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(REPO_URI) $(RELEASE) $(ORIGIN)",
            "Identifier: Packages",
        ]))?;
        let mirror = mirror_for(name, &targets).with_context(|| {
            format!("apt has no index of a Debian mirror that would hold `{name}`; run `apt-get update`")
        })?;
        let sources = format!("deb [signed-by={KEYRING}] {mirror} {name} main\n");
        fs::write(self.root.join("sources.list"), sources).context("cannot write the sources list")?;
        output(self.apt("apt-get").args(["-qq", "update"]))?;
        Ok(())
    }

    /// The names of the suite's packages that begin with `linux-`.
    pub fn package_names(&self) -> anyhow::Result<Vec<String>> {
        let names = output(self.apt("apt-cache").args(["pkgnames", "linux-"]))?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// The version of package `name` that [`Self::download`] would fetch. Needs no network.
    pub fn package(&self, name: &str) -> anyhow::Result<Package> {
        // 'http://…/linux-image-…_amd64.deb' linux-image-…_amd64.deb 21500000 SHA256:…
        let uris = output(self.apt("apt-get").args(["-qq", "download", "--print-uris", name]))?;
        let stem = uris.split_whitespace().nth(1).and_then(|file| file.strip_suffix(".deb"));
        let stem = stem.with_context(|| format!("apt names no file for `{name}`, but prints `{uris}`"))?;
        Ok(Package { name: name.to_owned(), stem: stem.to_owned() })
    }

    /// Fetches the package into `dir`; apt compares its hash with the signed index.
    ///
    /// # Errors
    /// Fails with [`PackageGone`] if the mirror no longer has the file.
    pub fn download(&self, package: &Package, dir: &Path) -> anyhow::Result<PathBuf> {
        let fetched = output(self.apt("apt-get").args(["-qq", "download", &package.name]).current_dir(dir));
        match fetched {
            Err(why) if format!("{why:#}").contains("404") => Err(why.context(PackageGone)),
            Err(why) => Err(why),
            Ok(_) => Ok(dir.join(format!("{}.deb", package.stem))),
        }
    }

    fn apt(&self, tool: &str) -> Command {
        let mut command = Command::new(tool);
        let path = |name: &str| self.root.join(name).display().to_string();
        for option in [
            format!("Dir::Etc::sourcelist={}", path("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", path("lists")),
            "Dir::State::status=/dev/null".to_owned(),
            format!("Dir::Cache={}", path("cache")),
            format!("APT::Architecture={}", self.architecture.debian()),
            format!("APT::Architectures={}", self.architecture.debian()),
            // Only the index of packages: a tenth of what apt fetches by default.
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false".to_owned(),
            // The signature is what matters: the index of an old suite is no longer renewed, but its
            // kernels are still needed.
            "Acquire::Check-Valid-Until=false".to_owned(),
            "Acquire::http::Timeout=20".to_owned(),
            "APT::Update::Error-Mode=any".to_owned(),
            // The user `_apt` may not write to a cache in a home directory.
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        command
    }
}

/// The mirror no longer has a package that its index names.
#[derive(Debug)]
pub struct PackageGone;

impl std::fmt::Display for PackageGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the mirror no longer holds this build")
    }
}

/// Returns the address that serves `suite`, from lines of `address release origin` of the configured
/// sources. Debian serves its security suites from a separate repository.
fn mirror_for<'a>(suite: &str, targets: &'a str) -> Option<&'a str> {
    let wants_security = suite.ends_with("-security");
    targets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (address, release, origin) = (words.next()?, words.next()?, words.next()?);
        (origin == "Debian" && release.ends_with("-security") == wants_security).then_some(address)
    })
}

/// Runs a command and returns its output. If it fails, the error has what it wrote to standard error.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.env("LC_ALL", "C").output().with_context(|| format!("cannot run `{program}`"))?;
    if !done.status.success() {
        let stderr = String::from_utf8_lossy(&done.stderr);
        let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        bail!("`{program}` failed with {}: {}", done.status, lines.join("; "));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: &str = "\
https://packages.example.org/ nodistro Example
http://mirror.example.org/debian/ bookworm Debian
http://mirror.example.org/debian-security/ bookworm-security Debian
";

    #[test]
    fn a_security_suite_comes_from_the_security_repository() {
        assert_eq!(mirror_for("bullseye-security", TARGETS), Some("http://mirror.example.org/debian-security/"));
        assert_eq!(mirror_for("trixie-backports", TARGETS), Some("http://mirror.example.org/debian/"));
    }

    #[test]
    fn a_machine_without_debian_sources_has_no_mirror() {
        assert_eq!(mirror_for("trixie-backports", "http://archive.example.org/ubuntu/ noble Ubuntu\n"), None);
        assert_eq!(mirror_for("trixie-backports", "http://mirror.example.org/debian/ bookworm\n"), None);
    }

    #[test]
    fn the_error_of_a_failed_command_has_its_output() {
        let error = output(Command::new("sh").args(["-c", "echo no such suite >&2; exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh` failed with exit status: 3: no such suite");
    }
}
