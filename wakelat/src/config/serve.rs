//! The service that measures all the time.

use std::{ffi::OsString, fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use serde::{Serialize, Serializer};

use super::{Config, OtlpConfig, ServeFile, ServeSettings};

/// Where the service listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Whether other machines may reach it.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            let is_file = !path.is_empty() && !path.ends_with('/');
            return if is_file { Ok(Self::Unix(path.into())) } else { Err("expected a path after `unix:`".to_owned()) };
        }
        let address = text.parse().map(Self::Tcp);
        address.map_err(|_| {
            format!(
                "`{text}` is not an address; expected ADDRESS:PORT, such as 127.0.0.1:9779 or [::1]:9779, or unix:PATH"
            )
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for ListenAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Parses a host name that requests may have.
///
/// # Errors
/// If it is not a name without a port.
pub fn allowed_host(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        format!("`{text}` is not a host name; expected one without a port, such as `metrics.example.com`")
    })
}

/// The service that measures all the time.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// What is measured.
    pub measurement: Config,
    /// Everything else.
    pub settings: ServeSettings,
    /// The configuration file and the flags that override it, if there is one.
    pub file: Option<ServeFile>,
    /// Where totals are exported to, if anywhere.
    pub otlp: Option<OtlpConfig>,
    /// Arguments of `wakelat record` for captures: the same resources as for the measurement.
    pub record_arguments: Vec<OsString>,
    /// Whether only to check and show the settings.
    pub check: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ports_or_paths() {
        for (text, remote) in [
            ("127.0.0.1:9779", false),
            ("[::1]:9779", false),
            ("0.0.0.0:80", true),
            ("[::]:80", true),
            ("192.168.0.1:1", true),
            ("unix:/run/wakelat.sock", false),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!((address.to_string(), address.is_remote()), (text.to_owned(), remote));
        }
        for text in ["", "9779", "localhost:9779", "127.0.0.1", "127.0.0.1:99999", "unix:", "unix:/run/"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
    #[test]
    fn a_host_is_a_name_without_a_port() {
        assert_eq!(allowed_host("metrics_1.example-2.com").as_deref(), Ok("metrics_1.example-2.com"));
        for text in ["", "*", "*.example.com", "a:80", "http://a", "[::1]", "a b"] {
            assert!(allowed_host(text).unwrap_err().contains("is not a host name"), "{text}");
        }
    }
}
