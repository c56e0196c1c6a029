//! Labels that all series have, such as the name of a cluster.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
};

use serde::Serialize;

use super::pod_labels::POD_NAME_LABELS;

/// The labels that metrics have by themselves.
const RESERVED: [&str; 13] = [
    "cgroup",
    "container",
    "pod",
    "cause",
    "by",
    "running",
    "class",
    "result",
    "condition",
    "file",
    "version",
    "kernel",
    "le",
];

/// The longest value: bytes. It is repeated in each series.
const MAX_VALUE: usize = 256;

/// Most labels.
const MAX_LABELS: usize = 16;

/// The value of a label, escaped.
pub struct EscapedValue<'a>(pub &'a str);

impl Display for EscapedValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['\\', '"', '\n']) {
            let (before, special) = rest.split_at(at);
            f.write_str(before)?;
            f.write_str(match special.as_bytes()[0] {
                b'\n' => "\\n",
                b'"' => "\\\"",
                _ => "\\\\",
            })?;
            rest = &special[1..];
        }
        f.write_str(rest)
    }
}

/// Labels with the same values in all series, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConstantLabels(BTreeMap<String, String>);

impl ConstantLabels {
    /// Checks the names and values.
    ///
    /// # Errors
    /// What is wrong with a label.
    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, String> {
        if labels.len() > MAX_LABELS {
            return Err(format!("{} labels; at most {MAX_LABELS} are allowed", labels.len()));
        }
        for (name, value) in &labels {
            let is_name = name
                .chars()
                .enumerate()
                .all(|(at, c)| c == '_' || c.is_ascii_alphabetic() || at > 0 && c.is_ascii_digit());
            if name.is_empty() || !is_name {
                return Err(format!("`{name}` is not a label name; expected letters, digits and `_`, no digit first"));
            }
            if name.starts_with("__") || RESERVED.iter().chain(&POD_NAME_LABELS).any(|reserved| reserved == name) {
                return Err(format!("the label `{name}` is reserved"));
            }
            if value.len() > MAX_VALUE {
                return Err(format!("the value of the label `{name}` is longer than {MAX_VALUE} bytes"));
            }
        }
        Ok(Self(labels))
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `name="value"` pairs, separated by commas.
impl fmt::Display for ConstantLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}=\"{}\"", if index == 0 { "" } else { "," }, EscapedValue(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Result<ConstantLabels, String> {
        ConstantLabels::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn names_are_those_that_prometheus_allows_and_wakelat_does_not_use() {
        assert_eq!(labels(&[("zone", "a\"b\n"), ("_c2", "")]).unwrap().to_string(), "_c2=\"\",zone=\"a\\\"b\\n\"");
        for name in ["", "2a", "a-b", "ä", "__name__", "cgroup", "le", "namespace"] {
            assert!(labels(&[(name, "x")]).is_err(), "{name}");
        }
        assert!(labels(&[("a", &"x".repeat(257))]).is_err());
    }
}
