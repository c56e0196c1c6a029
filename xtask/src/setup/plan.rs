//! Decides what to do on a machine, given its state. Pure: changes nothing.

use bpf_toolchain::MissingTools;

use super::{
    facts::MachineFacts,
    packages::{self, COMPILER_PACKAGES, LINKER_PACKAGES},
};

/// What the machine is set up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To build and run wakelat.
    Build,
    /// To run every test as well.
    Test,
}

/// The version of LLVM that Debian's compiler for BPF and bpf-linker share, because they exchange bitcode.
pub const LLVM: &str = "22";

/// The version of bpf-linker; it supports [`LLVM`].
pub const BPF_LINKER: &str = "0.13.0";

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupStep {
    /// Install Debian packages.
    Packages {
        /// The names of the packages.
        names: Vec<&'static str>,
        /// Whether the build is impossible without them.
        essential: bool,
    },
    /// Build bpf-linker against Debian's LLVM.
    BpfLinker,
    /// Add components of the Rust toolchain with rustup.
    Components(Vec<&'static str>),
    /// Add the standard library of Rust for these targets with rustup.
    Targets(Vec<String>),
    /// Mount tracefs where the kernel expects it.
    Tracefs,
    /// Print what the user can do about something that this process cannot do.
    Advise(String),
}

impl SetupStep {
    /// Whether setup must stop if this step fails.
    pub fn is_essential(&self) -> bool {
        match self {
            Self::Packages { essential, .. } => *essential,
            Self::BpfLinker => true,
            Self::Components(_) | Self::Targets(_) | Self::Tracefs | Self::Advise(_) => false,
        }
    }
}

/// Returns the steps to take, in order.
///
/// # Errors
/// Fails if the build needs something that cannot be installed here; the error has the remedy.
pub fn plan(facts: &MachineFacts, purpose: Purpose) -> anyhow::Result<Vec<SetupStep>> {
    let mut steps = vec![];
    if let Some(missing) = &facts.missing {
        steps.extend(build_steps(facts, missing)?);
    }
    if !facts.tracefs {
        steps.push(if facts.root {
            SetupStep::Tracefs
        } else {
            SetupStep::Advise(
                "tracefs is not mounted; run `sudo mount -t tracefs nodev /sys/kernel/tracing`".to_owned(),
            )
        });
    }
    if purpose == Purpose::Test {
        steps.extend(test_steps(facts));
    }
    Ok(steps)
}

fn build_steps(facts: &MachineFacts, missing: &MissingTools) -> anyhow::Result<Vec<SetupStep>> {
    // A toolchain that the user chose is not replaced by another.
    anyhow::ensure!(facts.debian && !(missing.compiler && missing.choice.is_some()), "{missing}");
    let mut names = vec![];
    if missing.compiler {
        names.extend(facts.not_installed(COMPILER_PACKAGES));
    }
    if missing.linker {
        names.extend(facts.not_installed(LINKER_PACKAGES));
    }
    let mut steps = vec![];
    if !names.is_empty() {
        anyhow::ensure!(
            facts.root,
            "building needs packages that are not installed; run `sudo apt-get install {}`",
            names.join(" ")
        );
        steps.push(SetupStep::Packages { names, essential: true });
    }
    if missing.linker {
        steps.push(SetupStep::BpfLinker);
    }
    Ok(steps)
}

fn test_steps(facts: &MachineFacts) -> Vec<SetupStep> {
    let mut steps = vec![];
    if !facts.components.is_empty() {
        let names = facts.components.join(" ");
        steps.push(if facts.rustup {
            SetupStep::Components(facts.components.clone())
        } else {
            SetupStep::Advise(format!("{names} missing; install them beside `cargo`"))
        });
    }
    if !facts.targets.is_empty() {
        steps.push(if facts.rustup {
            SetupStep::Targets(facts.targets.clone())
        } else {
            let targets = facts.targets.join(" ");
            SetupStep::Advise(format!("no standard library for {targets}: guests of that architecture will be skipped"))
        });
    }
    let names = facts.not_installed(&packages::for_tests());
    if !names.is_empty() {
        steps.push(match (facts.debian, facts.root) {
            (true, true) => SetupStep::Packages { names, essential: false },
            (true, false) => SetupStep::Advise(format!(
                "tests that need other tools will be skipped; run `sudo apt-get install {}`",
                names.join(" ")
            )),
            (false, _) => SetupStep::Advise(format!(
                "tests that need other tools may be skipped; Debian has them as {}",
                names.join(", ")
            )),
        });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(compiler: bool, linker: bool) -> Option<MissingTools> {
        Some(MissingTools { target: "bpfel-unknown-none".to_owned(), choice: None, compiler, linker })
    }

    /// A fresh Debian with rustup's stable toolchain, as root.
    fn fresh() -> MachineFacts {
        MachineFacts {
            root: true,
            debian: true,
            rustup: true,
            tracefs: false,
            missing: missing(true, true),
            components: vec![],
            targets: vec!["aarch64-unknown-linux-gnu".to_owned()],
            installed: vec![],
        }
    }

    /// A machine on which setup has finished.
    fn ready() -> MachineFacts {
        let installed = crate::setup::packages::all().map(str::to_owned).collect();
        MachineFacts { tracefs: true, missing: None, targets: vec![], installed, ..fresh() }
    }

    fn essential(names: &[&'static str]) -> SetupStep {
        SetupStep::Packages { names: names.to_vec(), essential: true }
    }

    #[test]
    fn a_fresh_debian_gets_everything_in_order() {
        assert_eq!(
            plan(&fresh(), Purpose::Test).unwrap(),
            [
                essential(&["rustc-web", "libstd-rust-web-dev-bpf", "llvm-22-dev"]),
                SetupStep::BpfLinker,
                SetupStep::Tracefs,
                SetupStep::Targets(vec!["aarch64-unknown-linux-gnu".to_owned()]),
                SetupStep::Packages { names: packages::for_tests(), essential: false },
            ]
        );
    }

    #[test]
    fn a_machine_that_has_everything_needs_nothing() {
        assert_eq!(plan(&ready(), Purpose::Test).unwrap(), []);
    }

    #[test]
    fn without_rustup_the_guests_of_another_architecture_are_skipped() {
        let facts = MachineFacts { rustup: false, targets: fresh().targets, ..ready() };
        let steps = plan(&facts, Purpose::Test).unwrap();
        assert!(
            matches!(&steps[..], [SetupStep::Advise(text)] if text.contains("for aarch64-unknown-linux-gnu: guests")),
            "{steps:?}"
        );
    }

    #[test]
    fn building_installs_no_test_tools() {
        let facts =
            MachineFacts { installed: vec![], components: vec!["rustfmt"], targets: fresh().targets, ..ready() };
        assert_eq!(plan(&facts, Purpose::Build).unwrap(), []);
    }

    #[test]
    fn a_nightly_that_can_build_for_bpf_replaces_debians_compiler() {
        let facts = MachineFacts { missing: missing(false, true), ..fresh() };
        let steps = plan(&facts, Purpose::Build).unwrap();
        assert_eq!(steps[0], essential(&["llvm-22-dev"]));
    }

    #[test]
    fn a_user_without_root_gets_the_command() {
        let error = plan(&MachineFacts { root: false, ..fresh() }, Purpose::Build).unwrap_err();
        assert_eq!(
            error.to_string(),
            "building needs packages that are not installed; run `sudo apt-get install rustc-web \
             libstd-rust-web-dev-bpf llvm-22-dev`"
        );
    }

    #[test]
    fn missing_test_tools_are_not_an_error() {
        let facts = MachineFacts { root: false, installed: vec![], ..ready() };
        let steps = plan(&facts, Purpose::Test).unwrap();
        assert!(
            matches!(&steps[..], [SetupStep::Advise(text)] if text.contains("linux-perf libbpf-tools")),
            "{steps:?}"
        );
    }

    #[test]
    fn on_other_distributions_the_remedies_are_printed() {
        let error = plan(&MachineFacts { debian: false, ..fresh() }, Purpose::Build).unwrap_err().to_string();
        assert!(error.contains("rustup toolchain install nightly"), "{error}");
        assert!(error.contains("cargo install bpf-linker"), "{error}");
    }

    #[test]
    fn a_chosen_toolchain_is_not_replaced_by_debians() {
        let choice = Some("nightly".to_owned());
        let missing = fresh().missing.map(|missing| MissingTools { choice, ..missing });
        let error = plan(&MachineFacts { missing, ..fresh() }, Purpose::Build).unwrap_err();
        assert!(error.to_string().contains("WAKELAT_BPF_TOOLCHAIN"), "{error}");
    }

    #[test]
    fn the_linkers_llvm_is_the_one_that_is_installed() {
        assert!(LINKER_PACKAGES.contains(&format!("llvm-{LLVM}-dev").as_str()));
    }
}
