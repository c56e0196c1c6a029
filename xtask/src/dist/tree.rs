//! The files of a release where a system keeps them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context as _, ensure};
use wakelat_build::{Architecture, workspace};

use super::write_file;

/// The documents that a release contains besides `docs`, by their paths in the workspace.
const DOCUMENTS: [&str; 7] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE-APACHE", "LICENSE-GPL", "LICENSE-MIT", "README.md"];

/// What runs and evaluates the service elsewhere, by the paths in `packaging`: `share/wakelat` has the same.
const MONITORING: [&str; 16] = [
    "grafana/wakelat.json",
    "helm/wakelat/Chart.yaml",
    "helm/wakelat/files/wakelat.rules.yml",
    "helm/wakelat/templates/NOTES.txt",
    "helm/wakelat/templates/configmap.yaml",
    "helm/wakelat/templates/daemonset.yaml",
    "helm/wakelat/templates/kubelet-rbac.yaml",
    "helm/wakelat/templates/podmonitor.yaml",
    "helm/wakelat/templates/prometheusrule.yaml",
    "helm/wakelat/templates/serviceaccount.yaml",
    "helm/wakelat/values.schema.json",
    "helm/wakelat/values.yaml",
    "kubernetes/Containerfile",
    "kubernetes/daemonset.yaml",
    "prometheus/wakelat.rules.test.yml",
    "prometheus/wakelat.rules.yml",
];

/// The manual pages and completions, which `wakelat/examples/manual.rs` makes from the flags.
pub struct Manual {
    pages: PathBuf,
    completions: PathBuf,
}

impl Manual {
    /// Writes them below `directory`, which is emptied first.
    pub fn write(directory: &Path) -> anyhow::Result<Self> {
        let manual = Self { pages: directory.join("man1"), completions: directory.join("completions") };
        _ = fs::remove_dir_all(directory);
        let mut cargo = workspace::cargo();
        cargo.args(["run", "--quiet", "--package=wakelat", "--example=manual", "--"]);
        run(cargo.args([&manual.pages, &manual.completions]))?;
        // As Debian wants them (Debian Policy 12.1), without the time, so that equal pages are equal files.
        let pages = fs::read_dir(&manual.pages)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        run(Command::new("gzip").arg("-9n").args(pages))?;
        Ok(manual)
    }
}

/// What a package for one architecture is made of.
pub struct ReleaseFiles<'a> {
    pub architecture: Architecture,
    /// The static program.
    pub binary: &'a Path,
    pub manual: &'a Manual,
}

impl ReleaseFiles<'_> {
    /// Copies the files below `directory`, whose content will be that of `place`.
    pub fn install(&self, directory: &Path, place: InstallPlace) -> anyhow::Result<()> {
        let copy = |from: &Path, to: &str| {
            let content = fs::read(from).with_context(|| format!("cannot read `{}`", from.display()))?;
            write_file(&directory.join(to), &content)
        };
        copy(self.binary, "bin/wakelat")?;
        for page in fs::read_dir(&self.manual.pages)? {
            let page = page?;
            copy(&page.path(), &format!("share/man/man1/{}", page.file_name().to_string_lossy()))?;
        }
        let unit = fs::read_to_string(workspace::root().join("packaging/wakelat.service")).context("no unit")?;
        write_file(&directory.join("lib/systemd/system/wakelat.service"), place.unit(&unit).as_bytes())?;
        for (file, to) in [
            ("wakelat.bash", "share/bash-completion/completions/wakelat"),
            ("wakelat.fish", "share/fish/vendor_completions.d/wakelat.fish"),
            ("_wakelat", "share/zsh/vendor-completions/_wakelat"),
        ] {
            copy(&self.manual.completions.join(file), to)?;
        }
        for file in MONITORING {
            copy(&workspace::root().join("packaging").join(file), &format!("share/wakelat/{file}"))?;
        }
        for document in DOCUMENTS.into_iter().map(PathBuf::from).chain(files_below("docs")?) {
            let to = Path::new("share/doc/wakelat").join(&document);
            copy(&workspace::root().join(document), &to.to_string_lossy())?;
        }
        Ok(())
    }
}

/// The paths of all files below a directory of the workspace, relative to the workspace.
fn files_below(directory: &str) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut open) = (Vec::new(), vec![PathBuf::from(directory)]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(workspace::root().join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// Where a release is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallPlace {
    /// `/usr` and `/etc`, by a package.
    System,
    /// `/usr/local`, by hand.
    Local,
}

impl InstallPlace {
    /// The systemd unit, whose paths are those of [`Self::System`].
    fn unit(self, unit: &str) -> String {
        match self {
            Self::System => unit.to_owned(),
            Self::Local => unit.replace("/usr/", "/usr/local/").replace("/etc/", "/usr/local/etc/"),
        }
    }
}

/// The configuration file of the service, below `/etc`.
pub const CONFIGURATION: &str = "wakelat/serve.toml";

/// Copies the configuration file below `etc`, such as `/etc`.
pub fn install_configuration(etc: &Path) -> anyhow::Result<()> {
    let content = fs::read(workspace::root().join("packaging/serve.toml")).context("no configuration file")?;
    write_file(&etc.join(CONFIGURATION), &content)
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot run `{program}`"))?;
    ensure!(status.success(), "`{program}` failed: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_contains_every_file_for_monitoring() {
        let found = files_below("packaging").expect("a directory");
        let found = found.iter().map(|path| path.strip_prefix("packaging").expect("a file below it"));
        let found: Vec<_> = found.filter(|path| path.components().count() > 1).collect();
        assert_eq!(found, MONITORING.map(Path::new));
    }

    #[test]
    fn the_unit_has_the_paths_of_the_place() {
        let unit = fs::read_to_string(workspace::root().join("packaging/wakelat.service")).expect("the unit");
        assert_eq!(InstallPlace::System.unit(&unit), unit);
        let local = InstallPlace::Local.unit(&unit);
        let start = "\nExecStart=/usr/local/bin/wakelat serve --config /usr/local/etc/wakelat/serve.toml\n";
        assert!(local.contains(start), "{local}");
        assert!(!local.contains("/usr/bin") && !local.contains(" /etc/") && !local.contains("/usr/share"), "{local}");
    }
}
