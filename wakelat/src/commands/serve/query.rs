//! The query of `/why`.

use crate::config::duration;
use wakelat_core::service::recent::MAX_LAST_NS;

/// What `/why` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WhyQuery {
    /// How far back: ns.
    pub last_ns: u64,
    /// Whether JSON is requested; `None` to let the `Accept` header decide.
    pub as_json: Option<bool>,
}

/// The default of `last`.
const DEFAULT_LAST_NS: u64 = 30_000_000_000;

/// Parses `last=30s&format=json`.
///
/// # Errors
/// In words, if a parameter is unknown or has a wrong value.
pub fn parse(query: &str) -> Result<WhyQuery, String> {
    let mut parsed = WhyQuery { last_ns: DEFAULT_LAST_NS, as_json: None };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("last", value) => {
                let last_ns = duration::seconds(value).map_err(|why| format!("`last`: {why}"))?;
                if last_ns > MAX_LAST_NS {
                    return Err("`last`: only the last 60s are kept".to_owned());
                }
                parsed.last_ns = last_ns;
            }
            ("format", "json") => parsed.as_json = Some(true),
            ("format", "text") => parsed.as_json = Some(false),
            ("format", _) => return Err("`format`: expected `text` or `json`".to_owned()),
            _ => return Err("unknown parameter; expected `last` and `format`".to_owned()),
        }
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_defaults_and_limits() {
        let seconds = |s: u64, as_json| Ok(WhyQuery { last_ns: s * 1_000_000_000, as_json });
        assert_eq!(parse(""), seconds(30, None));
        assert_eq!(parse("last=60s&format=json"), seconds(60, Some(true)));
        assert_eq!(parse("format=text&last=1m"), seconds(60, Some(false)));
        for wrong in ["last=61s", "last=", "last=-1s", "last=0s", "last=x", "format=xml", "first=1s", "last"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
