//! What a client requests of the service, from the parts of an HTTP request.

use std::fmt;

use super::{accept::preferred, metrics_format::MetricsFormat, recent::MAX_LAST_NS};
use crate::duration;

/// The longest request that the service reads: bytes.
pub const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// The most headers of a request.
pub const MAX_HEADERS: usize = 64;

/// The media type of JSON.
pub const JSON: &str = "application/json";

/// A request that the service answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceRequest {
    /// `/metrics`.
    Metrics(MetricsFormat),
    /// `/healthz`.
    Health,
    /// `/report.json`.
    Report,
    /// `/why`.
    Why {
        /// How far back: ns.
        last_ns: u64,
        /// As JSON instead of text.
        as_json: bool,
    },
    /// `/`.
    StartPage,
}

impl ServiceRequest {
    /// Whether the answer shows totals, which should be as new as the request.
    pub const fn needs_new_totals(&self) -> bool {
        matches!(self, Self::Metrics(_) | Self::Report | Self::Why { .. })
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The service does not answer requests for this host: [`super::host`].
    Host,
    /// The method is not one that only reads.
    Method,
    /// There is nothing at the path.
    Path,
    /// The client accepts no format that the service has.
    Format,
    /// A parameter is unknown or has a wrong value; in words.
    Parameter(String),
}

impl RequestError {
    /// The methods that are answered, if the refused one is none of them: the value of the header `Allow`.
    pub const fn allowed_methods(&self) -> Option<&'static str> {
        match self {
            Self::Method => Some("GET, HEAD"),
            Self::Host | Self::Path | Self::Format | Self::Parameter(_) => None,
        }
    }

    /// The status code of HTTP.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Parameter(_) => 400,
            Self::Host => 403,
            Self::Path => 404,
            Self::Method => 405,
            Self::Format => 406,
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "the header `Host` must be localhost, an IP address, or a name given with --allow-host",
            Self::Method => "only GET and HEAD are supported",
            Self::Path => "expected /metrics, /why, /report.json, /healthz or /",
            Self::Format => "only OpenMetrics, the text format 0.0.4 and protobuf are available",
            Self::Parameter(why) => why,
        })
    }
}

impl ServiceRequest {
    /// Interprets a request. `query` is what follows the question mark, and `accept` the header of this name; either may
    /// be empty.
    ///
    /// # Errors
    /// If the service does not answer such a request.
    pub fn parse(method: &str, path: &str, query: &str, accept: &str) -> Result<Self, RequestError> {
        if !["GET", "HEAD"].contains(&method) {
            return Err(RequestError::Method);
        }
        match path {
            "/metrics" => MetricsFormat::preferred(accept).map(Self::Metrics).ok_or(RequestError::Format),
            "/healthz" => Ok(Self::Health),
            "/report.json" => Ok(Self::Report),
            "/why" => {
                let WhyQuery { last_ns, as_json } = why_query(query).map_err(RequestError::Parameter)?;
                let prefers_json = || preferred(accept, &["text/plain", JSON]) == Some(1);
                Ok(Self::Why { last_ns, as_json: as_json.unwrap_or_else(prefers_json) })
            }
            "/" => Ok(Self::StartPage),
            _ => Err(RequestError::Path),
        }
    }
}

/// The query of `/why`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WhyQuery {
    /// How far back: ns.
    last_ns: u64,
    /// Whether JSON is requested; `None` to let the `Accept` header decide.
    as_json: Option<bool>,
}

/// The default of `last`.
const DEFAULT_LAST_NS: u64 = 30_000_000_000;

/// Parses `last=30s&format=json`.
fn why_query(query: &str) -> Result<WhyQuery, String> {
    let (mut last_ns, mut as_json) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_repeated = match name {
            "last" => last_ns.replace(last(value)?).is_some(),
            "format" => as_json.replace(is_json(value)?).is_some(),
            _ => return Err("unknown parameter; expected `last` and `format`".to_owned()),
        };
        if is_repeated {
            return Err(format!("`{name}` is given more than once; give it once"));
        }
    }
    Ok(WhyQuery { last_ns: last_ns.unwrap_or(DEFAULT_LAST_NS), as_json })
}

/// The value of `last`: ns.
fn last(value: &str) -> Result<u64, String> {
    let last_ns = duration::seconds(value).ok().filter(|last_ns| *last_ns <= MAX_LAST_NS);
    last_ns
        .ok_or_else(|| "`last`: expected seconds, or a number with a unit such as `30s`, and at most `60s`".to_owned())
}

/// The value of `format`.
fn is_json(value: &str) -> Result<bool, String> {
    match value {
        "json" => Ok(true),
        "text" => Ok(false),
        _ => Err("`format`: expected `text` or `json`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_defaults_and_limits() {
        let seconds = |s: u64, as_json| Ok(WhyQuery { last_ns: s * 1_000_000_000, as_json });
        assert_eq!(why_query(""), seconds(30, None));
        assert_eq!(why_query("last=60s&format=json"), seconds(60, Some(true)));
        assert_eq!(why_query("format=text&last=1m"), seconds(60, Some(false)));
        // As the error says.
        assert_eq!(why_query("last=5"), seconds(5, None));
        assert!(why_query("last=5x").is_err_and(|why| why.contains("expected seconds, or a number with a unit")));
        for wrong in ["last=61s", "last=", "last=-1s", "last=0s", "last=x", "format=xml", "first=1s", "last"] {
            assert!(why_query(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_parameter_is_given_once() {
        for wrong in ["last=5s&last=30s", "last=5s&format=json&last=5s", "format=json&format=text"] {
            assert!(why_query(wrong).is_err_and(|why| why.contains("more than once")), "{wrong}");
        }
    }

    #[test]
    fn the_header_decides_the_format_of_causes_unless_the_query_does() {
        let as_json = |query: &str, accept: &str| match ServiceRequest::parse("GET", "/why", query, accept) {
            Ok(ServiceRequest::Why { as_json, .. }) => as_json,
            other => panic!("{query}, {accept}: {other:?}"),
        };
        assert!(as_json("", JSON) && as_json("format=json", "text/plain"));
        assert!(!as_json("", "*/*") && !as_json("", "") && !as_json("format=text", JSON));
    }

    #[test]
    fn only_methods_that_read_are_answered() {
        let status = |method: &str| ServiceRequest::parse(method, "/", "", "").map_err(|error| error.status());
        assert_eq!(["GET", "HEAD"].map(status), [Ok(ServiceRequest::StartPage); 2]);
        assert_eq!(["POST", "PUT", "DELETE", "get", ""].map(status), [Err(405); 5]);
        assert_eq!(RequestError::Method.allowed_methods(), Some("GET, HEAD"));
        assert_eq!(RequestError::Path.allowed_methods(), None);
    }
}
