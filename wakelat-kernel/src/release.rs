//! The kernel's release.

use std::fmt;

/// A kernel release, as `uname -r` prints it, with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    text: String,
    version: (u32, u32),
}

impl Release {
    /// The release of the running kernel.
    pub fn running() -> Self {
        Self::parse(&rustix::system::uname().release().to_string_lossy())
    }

    /// Parses a release; missing parts of the version are 0.
    pub fn parse(text: &str) -> Self {
        let mut numbers = text.split(|character: char| !character.is_ascii_digit()).map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten().unwrap_or(0);
        Self { text: text.to_owned(), version: (next(), next()) }
    }

    /// Whether the version is `major.minor` or later.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        self.version >= (major, minor)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let release = Release::parse("5.10.0-32-cloud-amd64");
        assert!(release.is_at_least(5, 8) && release.is_at_least(5, 10) && !release.is_at_least(5, 11));
        assert!(!release.is_at_least(6, 1) && release.is_at_least(4, 20));
        assert!(Release::parse("7.2-rc1").is_at_least(7, 2));
        assert!(!Release::parse("").is_at_least(0, 1));
    }
}
