//! Shell patterns for task names, compiled to bit masks. A match costs the same few instructions per
//! character whatever the pattern: no backtracking, no branches on the data, nothing for the verifier to
//! explore twice.
//!
//! Bit *i* of the state means "the first *i* characters of the pattern have matched". Each character of
//! the name moves every set bit up by one if the pattern accepts it there, and a `*` keeps its bit.
//! Several patterns share the 64 bits.

use crate::sample::COMM_LEN;

/// One or more compiled patterns.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Glob {
    /// For each character, the bits that it may move up.
    pub accepts: [u64; 256],
    /// The bits that are set before any character is read.
    pub initial: u64,
    /// The bits that a `*` keeps alive.
    pub stays: u64,
    /// The bits that mean a whole pattern has matched.
    pub matched: u64,
}

impl Glob {
    /// A set of no patterns: matches nothing.
    pub const fn new() -> Self {
        Self { accepts: [0; 256], initial: 0, stays: 0, matched: 0 }
    }

    /// Whether a NUL-terminated name matches any of the patterns.
    #[inline(always)]
    pub fn matches(&self, comm: &[u8; COMM_LEN]) -> bool {
        let mut state = self.initial;
        let mut i = 0;
        while i < COMM_LEN && comm[i] != 0 {
            state = (state & self.accepts[comm[i] as usize]) << 1 | state & self.stays;
            i += 1;
        }
        state & self.matched != 0
    }
}

impl Default for Glob {
    fn default() -> Self {
        Self::new()
    }
}

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobError {
    /// All patterns together have more characters than fit in 64 bits.
    TooLong,
    /// A `[` without its `]`, or with nothing between them.
    Bracket,
    /// An empty pattern.
    Empty,
}

impl core::fmt::Display for GlobError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::TooLong => {
                "the patterns are too long in total; expected at most 63 characters, less one for each further pattern"
            }
            Self::Bracket => "`[` has no matching `]`; write `[[]` to match a literal `[`",
            Self::Empty => "the pattern is empty; write `*` for any name",
        })
    }
}

impl core::error::Error for GlobError {}

impl Glob {
    /// Adds a pattern: `*` matches any characters, `?` any one, `[a-z]` one of a set, `[!a-z]` one not
    /// in the set; all other characters match themselves.
    ///
    /// Fails if the pattern is malformed or no longer fits.
    pub fn add(&mut self, pattern: &[u8]) -> Result<(), GlobError> {
        if pattern.is_empty() {
            return Err(GlobError::Empty);
        }
        // The next free bit is above every bit in use.
        let used = self.initial | self.stays | self.matched;
        let mut at = 64 - used.leading_zeros();
        if at > 63 {
            return Err(GlobError::TooLong);
        }
        let mut next = *self;
        next.initial |= 1 << at;
        let mut rest = pattern;
        while let [first, tail @ ..] = rest {
            rest = tail;
            if *first == b'*' {
                next.stays |= 1 << at;
                continue;
            }
            if at >= 63 {
                return Err(GlobError::TooLong);
            }
            let bit = 1u64 << at;
            match first {
                b'?' => next.accepts.iter_mut().for_each(|mask| *mask |= bit),
                b'[' => rest = next.add_bracket(rest, bit)?,
                byte => next.accepts[*byte as usize] |= bit,
            }
            at += 1;
        }
        next.matched |= 1 << at;
        *self = next;
        Ok(())
    }

    /// Adds the set between `[` and `]`; returns the rest of the pattern.
    fn add_bracket<'a>(&mut self, set: &'a [u8], bit: u64) -> Result<&'a [u8], GlobError> {
        let (negated, set) = match set {
            [b'!' | b'^', rest @ ..] => (true, rest),
            _ => (false, set),
        };
        // A `]` right at the start is a literal, as in a shell.
        let end =
            1 + set.get(1..).and_then(|rest| rest.iter().position(|byte| *byte == b']')).ok_or(GlobError::Bracket)?;
        let (mut members, rest) = (&set[..end], &set[end + 1..]);
        let mut accepted = [false; 256];
        while let [first, tail @ ..] = members {
            let (last, tail) = match tail {
                [b'-', last, tail @ ..] => (last, tail),
                _ => (first, tail),
            };
            for byte in *first..=*last {
                accepted[byte as usize] = true;
            }
            members = tail;
        }
        for (mask, accepted) in self.accepts.iter_mut().zip(accepted) {
            if accepted != negated {
                *mask |= bit;
            }
        }
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn comm(name: &str) -> [u8; COMM_LEN] {
        let mut comm = [0; COMM_LEN];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        comm
    }

    fn matches(pattern: &str, name: &str) -> bool {
        let mut glob = Glob::new();
        glob.add(pattern.as_bytes()).unwrap();
        glob.matches(&comm(name))
    }

    #[test]
    fn a_pattern_matches_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("sched-pipe", "sched-pipe", true),
            ("sched-pipe", "sched-pipes", false),
            ("sched-*", "sched-pipe", true),
            ("sched-*", "sched-", true),
            ("*pipe", "sched-pipe", true),
            ("*e*p*e", "sched-pipe", true),
            ("*x*", "sched-pipe", false),
            ("kworker/?:*", "kworker/0:1", true),
            ("kworker/?:*", "kworker/u:1", true),
            ("kworker/[0-9]:*", "kworker/u:1", false),
            ("[!a-m]*", "nginx", true),
            ("[!a-m]*", "java", false),
            ("[]x]", "]", true),
            ("*", "", true),
            ("?", "", false),
            ("**a**", "bab", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn any_of_several_patterns_is_enough() {
        let mut glob = Glob::new();
        glob.add(b"nginx").unwrap();
        glob.add(b"redis-*").unwrap();
        assert!(glob.matches(&comm("nginx")) && glob.matches(&comm("redis-server")));
        assert!(!glob.matches(&comm("nginxredis-x")) && !glob.matches(&comm("postgres")));
    }

    #[test]
    fn an_invalid_pattern_is_rejected() {
        let mut glob = Glob::new();
        assert_eq!(glob.add(b""), Err(GlobError::Empty));
        assert_eq!(glob.add(b"a[b"), Err(GlobError::Bracket));
        assert_eq!(glob.add(b"[]"), Err(GlobError::Bracket));
        assert_eq!(glob.add(&[b'a'; 64]), Err(GlobError::TooLong));
        assert_eq!(glob.add(&[b'a'; 63]), Ok(()));
        assert_eq!(glob.add(b"a"), Err(GlobError::TooLong));
    }

    /// The textbook definition, for comparison.
    fn reference(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| reference(rest, &name[skipped..])),
            ([b'?', rest @ ..], [_, tail @ ..]) => reference(rest, tail),
            ([first, rest @ ..], [byte, tail @ ..]) => first == byte && reference(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn masks_agree_with_the_textbook(pattern in "[ab*?]{1,12}", name in "[ab]{0,15}") {
            prop_assert_eq!(matches(&pattern, &name), reference(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
