//! Where totals are exported to, by OTLP.

use std::{fmt, str::FromStr};

use hyper::header;
use serde::{Serialize, Serializer};

use super::{
    duration,
    http_url::{self, HttpUrl},
    settings_table::{SettingKey, SettingsTable},
};
use wakelat_core::service::otlp::Temporality;

/// The path of a receiver of metrics, if the URL has none.
const METRICS_PATH: &str = "/v1/metrics";

/// The shortest interval: the kernel's tables are read each second at most.
const MIN_INTERVAL_NS: u64 = 1_000_000_000;

/// The interval, unless another one is given.
const DEFAULT_INTERVAL_NS: u64 = 60_000_000_000;

/// The URL of a receiver of metrics, over plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpEndpoint {
    /// The name or the address of the host, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The path and the query.
    pub path: String,
}

impl OtlpEndpoint {
    /// The host and the port, as in the header `Host`.
    pub fn authority(&self) -> String {
        http_url::authority(&self.host, self.port)
    }
}

impl FromStr for OtlpEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("https://") {
            return Err("TLS is not supported: send to a collector on this machine, such as \
                        http://127.0.0.1:4318, which forwards with TLS"
                .to_owned());
        }
        let wrong = || format!("`{text}` is not a URL of a receiver; expected one such as http://127.0.0.1:4318");
        let url = HttpUrl::parse(text).ok_or_else(wrong)?;
        if url.has_user {
            return Err("a URL with a password is not supported; use OTEL_EXPORTER_OTLP_HEADERS".to_owned());
        }
        let path = if url.path == "/" { METRICS_PATH.to_owned() } else { url.path };
        Ok(Self { host: url.host, port: url.port.unwrap_or(80), path })
    }
}

impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the query, which may have a key.
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "http://{}{path}", self.authority())
    }
}

/// With the query: it is part of the setting.
impl Serialize for OtlpEndpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("http://{}{}", self.authority(), self.path))
    }
}

/// Parses the interval between two exports: ns, at least a second.
///
/// # Errors
/// If it is no time, or shorter.
pub fn interval(text: &str) -> Result<u64, String> {
    match duration::seconds(text)? {
        ns if ns < MIN_INTERVAL_NS => Err(format!("`{text}` is too short; expected at least `1s`")),
        ns => Ok(ns),
    }
}

/// The settings of exports by OTLP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtlpSettings {
    /// The receiver.
    #[serde(rename = "url")]
    pub endpoint: OtlpEndpoint,
    /// Time between two exports: ns.
    #[serde(rename = "interval", serialize_with = "text")]
    pub interval_ns: u64,
    /// What points cover.
    pub temporality: Temporality,
}

fn text<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&duration::text(*ns))
}

/// Settings of exports that are given in one place: as flags, or in a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenOtlp {
    /// The receiver.
    pub endpoint: Option<OtlpEndpoint>,
    /// Time between two exports: ns.
    pub interval_ns: Option<u64>,
    /// What points cover.
    pub temporality: Option<Temporality>,
}

impl GivenOtlp {
    /// The settings of a table.
    ///
    /// # Errors
    /// What is wrong with a setting, and where.
    pub fn of_table(mut table: SettingsTable<'_>) -> Result<Self, String> {
        let key = |name, example| SettingKey { name, example };
        let temporality = |text: &str| match text {
            "cumulative" => Ok(Temporality::Cumulative),
            "delta" => Ok(Temporality::Delta),
            _ => Err(format!("`{text}` is not accepted; expected `cumulative` or `delta`")),
        };
        let given = Self {
            endpoint: table.string(key("url", "\"http://127.0.0.1:4318\""), str::parse)?,
            interval_ns: table.string(key("interval", "\"60s\""), interval)?,
            temporality: table.string(key("temporality", "\"cumulative\""), temporality)?,
        };
        table.finish().map(|()| given)
    }

    /// These settings; what is not given here is taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            endpoint: self.endpoint.or(other.endpoint),
            interval_ns: self.interval_ns.or(other.interval_ns),
            temporality: self.temporality.or(other.temporality),
        }
    }

    /// All settings: what is not given has its default.
    ///
    /// # Errors
    /// If there is no receiver.
    pub fn settings(self) -> Result<OtlpSettings, String> {
        let endpoint = self.endpoint.ok_or(
            "no URL is given; expected `url = \"http://127.0.0.1:4318\"` in the table `[otlp]`, or \
             `--otlp http://127.0.0.1:4318`",
        )?;
        let interval_ns = self.interval_ns.unwrap_or(DEFAULT_INTERVAL_NS);
        Ok(OtlpSettings { endpoint, interval_ns, temporality: self.temporality.unwrap_or_default() })
    }
}

/// Exports by OTLP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpConfig {
    /// Where to, and how often.
    pub settings: OtlpSettings,
    /// Attributes of the resource from the environment; they replace wakelat's own.
    pub resource: Vec<(String, String)>,
    /// Headers of requests.
    pub headers: Vec<(header::HeaderName, header::HeaderValue)>,
}

impl OtlpConfig {
    /// Reads `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME` and `OTEL_EXPORTER_OTLP_HEADERS` by `variable`, as the
    /// specification of OpenTelemetry defines them.
    ///
    /// # Errors
    /// If a variable is not a list of `KEY=VALUE`, separated by commas, or one of the headers is not valid. An error does
    /// not show the value of a header, which may be a password.
    pub fn new(settings: OtlpSettings, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let list = |name: &str| {
            let text = variable(name).unwrap_or_default();
            pairs(&text).ok_or_else(|| format!("`{name}` is not a list of KEY=VALUE, separated by commas"))
        };
        let mut resource = list("OTEL_RESOURCE_ATTRIBUTES")?;
        resource.extend(
            variable("OTEL_SERVICE_NAME").filter(|name| !name.is_empty()).map(|name| ("service.name".to_owned(), name)),
        );
        let header = |(name, value): (String, String)| {
            let wrong = || format!("`OTEL_EXPORTER_OTLP_HEADERS`: `{name}` is not a valid header");
            let mut value = header::HeaderValue::try_from(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            Ok((header::HeaderName::try_from(name.as_str()).map_err(|_| wrong())?, value))
        };
        let headers = list("OTEL_EXPORTER_OTLP_HEADERS")?.into_iter().map(header).collect::<Result<_, String>>()?;
        Ok(Self { settings, resource, headers })
    }
}

/// Parses `KEY=VALUE,KEY=VALUE`, whose values are percent-encoded.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() { None } else { Some((decoded(key)?, decoded(value)?)) }
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

/// Decodes `%XX`. `None` if a `%` has no two digits, or the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_without_tls_and_password() {
        for (text, shown) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("http://collector/", "http://collector:80/v1/metrics"),
            ("http://[::1]:4318/other?key=secret", "http://[::1]:4318/other"),
        ] {
            let endpoint: OtlpEndpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), shown);
        }
        let wrong = ["", "127.0.0.1:4318", "http://", "ftp://a:1", "http://a:0", "http://a:99999", "http://u:p@a:1"];
        for text in wrong {
            assert!(text.parse::<OtlpEndpoint>().is_err(), "{text}");
        }
        assert!("https://a".parse::<OtlpEndpoint>().unwrap_err().contains("TLS"));
        assert_eq!((interval("1"), interval("5m")), (Ok(1_000_000_000), Ok(300_000_000_000)));
        assert!(interval("999ms").is_err());
    }

    #[test]
    fn the_environment_has_attributes_and_headers_that_are_percent_encoded() {
        let config = |attributes: &str, headers: &str| {
            let endpoint = "http://a:1".parse().unwrap();
            let settings = OtlpSettings { endpoint, interval_ns: 1, temporality: Temporality::Delta };
            OtlpConfig::new(settings, |name| match name {
                "OTEL_RESOURCE_ATTRIBUTES" => Some(attributes.to_owned()),
                "OTEL_EXPORTER_OTLP_HEADERS" => Some(headers.to_owned()),
                _ => None,
            })
        };
        let found = config("a=1, b = x%2Cy,", "authorization=Basic%20secret").unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(found.resource, [pair("a", "1"), pair("b", "x,y")]);
        assert_eq!(found.headers[0].1, "Basic secret");
        for (attributes, headers) in [("a", ""), ("=1", ""), ("a=%2", ""), ("", "a b=1"), ("", "a=secret%0A")] {
            let error = config(attributes, headers).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
