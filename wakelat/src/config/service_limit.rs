//! The limit of the overhead of a service.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

use super::number;

/// The limit of the overhead of a service. By default, it has one: it runs all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceLimit(Option<u32>);

impl ServiceLimit {
    /// Millionths of the time of all CPUs; `None` for no limit.
    pub fn ppm(self) -> Option<u32> {
        self.0
    }
}

impl Default for ServiceLimit {
    fn default() -> Self {
        Self(Some(5_000))
    }
}

impl FromStr for ServiceLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        number::percent_as_ppm(text)
            .map(|ppm| Self(Some(ppm)))
            .map_err(|error| error.replacen("expected a percentage", "expected `none` or a percentage", 1))
    }
}

impl fmt::Display for ServiceLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(ppm) => write!(f, "{}%", f64::from(ppm) / 1e4),
            None => f.write_str("none"),
        }
    }
}

impl Serialize for ServiceLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_percentage_or_none() {
        for (text, ppm, shown) in [
            ("0.5%", Some(5_000), "0.5%"),
            ("2", Some(20_000), "2%"),
            ("0.01 %", Some(100), "0.01%"),
            ("none", None, "none"),
        ] {
            let limit: ServiceLimit = text.parse().unwrap();
            assert_eq!((limit.ppm(), limit.to_string().as_str()), (ppm, shown));
        }
        let error = "off".parse::<ServiceLimit>().unwrap_err();
        assert!(error.contains("expected `none` or a percentage from `0.01%`"), "{error}");
    }
}
