//! The files of a release where a system keeps them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context as _, ensure};
use wakelat_build::{Architecture, workspace};

use super::write_file;

/// The documents that a release contains besides `docs`, by their paths in the workspace.
const DOCUMENTS: [&str; 5] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "LICENSE-GPL"];

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
    /// Copies the files below `prefix`, such as `/usr`.
    pub fn install(&self, prefix: &Path) -> anyhow::Result<()> {
        let copy = |from: &Path, to: &str| {
            let content = fs::read(from).with_context(|| format!("cannot read `{}`", from.display()))?;
            write_file(&prefix.join(to), &content)
        };
        copy(self.binary, "bin/wakelat")?;
        for page in fs::read_dir(&self.manual.pages)? {
            let page = page?;
            copy(&page.path(), &format!("share/man/man1/{}", page.file_name().to_string_lossy()))?;
        }
        copy(&workspace::root().join("packaging/wakelat.service"), "lib/systemd/system/wakelat.service")?;
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
        let pages = fs::read_dir(workspace::root().join("docs"))?;
        let pages = pages.map(|page| Ok(format!("docs/{}", page?.file_name().to_string_lossy())));
        let pages: Vec<String> = pages.collect::<io::Result<_>>()?;
        let pages = pages.iter().filter(|page| page.ends_with(".md") || page.ends_with(".svg"));
        for document in DOCUMENTS.into_iter().chain(pages.map(String::as_str)) {
            copy(&workspace::root().join(document), &format!("share/doc/wakelat/{document}"))?;
        }
        Ok(())
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
        let packaging = workspace::root().join("packaging");
        let mut found = vec![];
        let mut open = vec![packaging.clone()];
        while let Some(directory) = open.pop() {
            for path in fs::read_dir(&directory).expect("a directory").map(|entry| entry.expect("an entry").path()) {
                if path.is_dir() {
                    open.push(path);
                } else if directory != packaging {
                    let path = path.strip_prefix(&packaging).expect("a file below it");
                    found.push(path.to_str().expect("UTF-8").to_owned());
                }
            }
        }
        found.sort();
        assert_eq!(found, MONITORING);
    }
}
