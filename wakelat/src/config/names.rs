//! Words that stand for something.

use crate::{aggregate::key::Key, wait::POLICIES};

/// A scheduling policy: its `SCHED_*` number.
///
/// # Errors
/// Where there is none of that name.
pub fn policy(text: &str) -> Result<u32, String> {
    POLICIES
        .iter()
        .find(|(_, name)| *name == text)
        .map(|(number, _)| *number)
        .ok_or_else(|| unknown(text, "policy", POLICIES.iter().map(|(_, name)| *name)))
}

/// A grouping key.
///
/// # Errors
/// Where there is none of that name.
pub fn key(text: &str) -> Result<Key, String> {
    Key::ALL
        .into_iter()
        .find(|key| key.name() == text)
        .ok_or_else(|| unknown(text, "key", Key::ALL.into_iter().map(Key::name)))
}

fn unknown(text: &str, what: &str, accepted: impl Iterator<Item = &'static str>) -> String {
    let accepted: Vec<_> = accepted.collect();
    format!("`{text}` is not a {what}; expected some of {}, separated by commas", accepted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_for_itself() {
        for (number, name) in POLICIES {
            assert_eq!(policy(name), Ok(number));
        }
        for each in Key::ALL {
            assert_eq!(key(each.name()), Ok(each));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_there_are() {
        assert_eq!(
            policy("normal"),
            Err("`normal` is not a policy; expected some of other, fifo, rr, batch, idle, deadline, ext, separated by commas"
                .to_owned())
        );
        assert!(key("").is_err() && key("PID").is_err());
    }
}
