//! Parsers of names: policies and grouping keys.

use wakelat_core::{aggregate::key::Key, wait::POLICIES};

/// Parses a scheduling policy; returns its `SCHED_*` number.
pub fn policy(text: &str) -> Result<u32, String> {
    POLICIES
        .iter()
        .find(|(_, name)| *name == text)
        .map(|(number, _)| *number)
        .ok_or_else(|| unknown(text, "policy", POLICIES.iter().map(|(_, name)| *name)))
}

/// Parses a grouping key.
pub fn key(text: &str) -> Result<Key, String> {
    Key::ALL
        .into_iter()
        .find(|key| key.name() == text)
        .ok_or_else(|| unknown(text, "key", Key::ALL.into_iter().map(Key::name)))
}

fn unknown(text: &str, what: &str, accepted: impl Iterator<Item = &'static str>) -> String {
    let accepted: Vec<_> = accepted.collect();
    format!("`{text}` is not a {what}; expected a comma-separated list of {}", accepted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed() {
        for (number, name) in POLICIES {
            assert_eq!(policy(name), Ok(number));
        }
        for each in Key::ALL {
            assert_eq!(key(each.name()), Ok(each));
        }
    }

    #[test]
    fn an_unknown_name_is_rejected_with_the_accepted_ones() {
        assert_eq!(
            policy("normal"),
            Err("`normal` is not a policy; expected a comma-separated list of other, fifo, rr, batch, idle, deadline, ext"
                .to_owned())
        );
        assert!(key("").is_err() && key("PID").is_err());
    }
}
