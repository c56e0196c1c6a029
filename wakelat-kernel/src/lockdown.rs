//! The kernel's lockdown mode.

/// The lockdown mode, which restricts even root's access to the kernel (`kernel_lockdown(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    /// No restriction, or the kernel has no lockdown.
    None,
    /// The kernel cannot be modified.
    Integrity,
    /// The kernel cannot be modified or read: BPF programs cannot read its memory
    /// (`LOCKDOWN_BPF_READ_KERNEL`, include/linux/security.h).
    Confidentiality,
}

impl Lockdown {
    /// Parses the word in brackets in `none [integrity] confidentiality`
    /// (/sys/kernel/security/lockdown).
    pub fn parse(text: &str) -> Self {
        match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
            Some(("integrity", _)) => Self::Integrity,
            Some(("confidentiality", _)) => Self::Confidentiality,
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lockdown_mode_is_the_word_in_brackets() {
        assert_eq!(Lockdown::parse("[none] integrity confidentiality\n"), Lockdown::None);
        assert_eq!(Lockdown::parse("none [integrity] confidentiality\n"), Lockdown::Integrity);
        assert_eq!(Lockdown::parse("none integrity [confidentiality]\n"), Lockdown::Confidentiality);
        assert_eq!(Lockdown::parse(""), Lockdown::None);
    }
}
