//! The service that measures all the time.

use std::{ffi::OsString, fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{
    CaptureSettings, Config, KubeletSettings, OtlpConfig, OtlpSettings, ServeSettings, ServiceCollect, ServiceLimit,
};

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

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for ListenAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
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

/// A configuration file that is read again on SIGHUP.
#[derive(Clone, Debug)]
pub struct ServeFile {
    /// Its path.
    pub path: PathBuf,
    /// The flags that override it.
    pub flags: ServeOverrides,
}

impl ServeFile {
    /// The settings of the file as it is now, overridden by the flags.
    ///
    /// # Errors
    /// If the file cannot be read, or what is wrong with it.
    pub fn settings(&self) -> Result<ServeSettings, String> {
        ServeSettings::read(&self.path).map(|settings| self.flags.over(settings))
    }
}

/// The settings that were given as flags.
#[derive(Clone, Debug, Default)]
pub struct ServeOverrides {
    /// `--listen`
    pub listen: Option<ListenAddress>,
    /// `--max-series`
    pub max_series: Option<usize>,
    /// `--max-overhead`
    pub max_overhead: Option<ServiceLimit>,
    /// `--collect`
    pub collect: Option<ServiceCollect>,
    /// `--otlp` and the flags that need it
    pub otlp: Option<OtlpSettings>,
    /// `--kubelet` and the flags that need it
    pub kubelet: Option<KubeletSettings>,
    /// `--capture` and the flags that need it
    pub capture: Option<CaptureSettings>,
}

impl ServeOverrides {
    /// These settings instead of those in `settings`.
    pub fn over(&self, settings: ServeSettings) -> ServeSettings {
        ServeSettings {
            listen: self.listen.clone().unwrap_or(settings.listen),
            max_series: self.max_series.unwrap_or(settings.max_series),
            max_overhead: self.max_overhead.unwrap_or(settings.max_overhead),
            collect: self.collect.unwrap_or(settings.collect),
            otlp: self.otlp.clone().or(settings.otlp),
            kubelet: self.kubelet.clone().or(settings.kubelet),
            capture: self.capture.clone().or(settings.capture),
            ..settings
        }
    }
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
}
