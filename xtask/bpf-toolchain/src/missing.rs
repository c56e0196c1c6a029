//! The error for missing build tools.

use std::fmt;

use crate::prebuilt::PREBUILT;

/// The tools that this machine lacks to compile for BPF. Its text is one sentence with every remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTools {
    /// The requested BPF target.
    pub target: String,
    /// The toolchain that the user chose, if any.
    pub choice: Option<String>,
    /// Whether no compiler has `core` for the target.
    pub compiler: bool,
    /// Whether bpf-linker is missing.
    pub linker: bool,
}

impl MissingTools {
    /// The commands that install what is missing without xtask, in order. They need internet access but not
    /// Debian.
    pub fn by_hand(&self) -> Vec<&'static str> {
        let compiler = self.compiler.then_some("rustup toolchain install nightly --component rust-src");
        let linker = self.linker.then_some("cargo install bpf-linker");
        compiler.into_iter().chain(linker).collect()
    }
}

impl std::error::Error for MissingTools {}

impl fmt::Display for MissingTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compiler = self.compiler.then(|| format!("no Rust compiler with `core` for {}", self.target));
        let linker = self.linker.then(|| "no bpf-linker".to_owned());
        let missing: Vec<_> = compiler.into_iter().chain(linker).collect();
        write!(f, "the BPF programs cannot be built here: found {}", missing.join(" and "))?;
        if let (Some(choice), true) = (&self.choice, self.compiler) {
            write!(f, " in `{choice}`, which {} names", crate::CHOICE)?;
        }
        let by_hand: Vec<_> = self.by_hand().iter().map(|command| format!("`{command}`")).collect();
        write!(f, "; on Debian run `cargo xtask setup`, elsewhere {}", by_hand.join(" and "))?;
        write!(f, "; or set {PREBUILT} to an object that `cargo xtask dist` made from these sources on another machine")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(choice: Option<&str>, compiler: bool, linker: bool) -> String {
        let choice = choice.map(str::to_owned);
        MissingTools { target: "bpfel-unknown-none".to_owned(), choice, compiler, linker }.to_string()
    }

    #[test]
    fn one_line_names_the_missing_tools_and_both_remedies() {
        assert_eq!(
            missing(None, true, true),
            "the BPF programs cannot be built here: found no Rust compiler with `core` for bpfel-unknown-none and \
             no bpf-linker; on Debian run `cargo xtask setup`, elsewhere `rustup toolchain install nightly \
             --component rust-src` and `cargo install bpf-linker`; or set WAKELAT_BPF_OBJECT to an object that \
             `cargo xtask dist` made from these sources on another machine"
        );
    }

    #[test]
    fn only_missing_tools_are_requested() {
        assert_eq!(
            missing(None, false, true),
            "the BPF programs cannot be built here: found no bpf-linker; on Debian run `cargo xtask setup`, \
             elsewhere `cargo install bpf-linker`; or set WAKELAT_BPF_OBJECT to an object that `cargo xtask dist` \
             made from these sources on another machine"
        );
    }

    #[test]
    fn a_chosen_toolchain_is_named() {
        let text = missing(Some("stable"), true, false);
        assert!(text.contains("in `stable`, which WAKELAT_BPF_TOOLCHAIN names"), "{text}");
    }
}
