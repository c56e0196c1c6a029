//! The settings of the service, as its configuration file has them.

use std::str::FromStr;

use serde::{Serialize, Serializer};
use wakelat_core::service::{constant_labels::ConstantLabels, host::AcceptedHosts};

use super::{
    CaptureSettings, ConfigError, KubeletSettings, ListenAddress, OtlpSettings, ServiceLimit,
    settings_table::{SettingKey, SettingsTable},
};

/// The settings of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ServeSettings {
    /// Where the service listens.
    pub listen: ListenAddress,
    /// Host names that requests may have, beside addresses and `localhost`.
    pub allow_hosts: Vec<String>,
    /// Maximum number of cgroups with series of their own.
    pub max_series: usize,
    /// The limit of the overhead.
    pub max_overhead: ServiceLimit,
    /// What is collected besides switches.
    pub collect: ServiceCollect,
    /// The cgroups that may have series of their own.
    pub cgroups: CgroupSelection,
    /// Labels that all series have.
    pub labels: ConstantLabels,
    /// Where totals are exported to, if anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<OtlpSettings>,
    /// How the kubelet is asked for the names of pods, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletSettings>,
    /// When recordings are made, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureSettings>,
}

impl Default for ServeSettings {
    fn default() -> Self {
        let listen = ListenAddress::Tcp(([127, 0, 0, 1], 9779).into());
        Self {
            listen,
            allow_hosts: Vec::new(),
            max_series: 1_000,
            max_overhead: ServiceLimit::default(),
            collect: ServiceCollect::default(),
            cgroups: CgroupSelection::default(),
            labels: ConstantLabels::default(),
            otlp: None,
            kubelet: None,
            capture: None,
        }
    }
}

/// What a service collects besides switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceCollect {
    /// Nothing.
    #[default]
    None,
    /// Interrupts and softirqs, if the kernel does not count their time.
    Irq,
}

impl FromStr for ServiceCollect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "irq" => Ok(Self::Irq),
            _ => Err(format!("`{text}` is not accepted; expected `none` or `irq`")),
        }
    }
}

impl ServeSettings {
    /// The values of `Host` with which requests are answered. On an address that other machines can reach, names are only
    /// restricted if some are given; no page in a browser can request anything of a Unix socket.
    pub fn accepted_hosts(&self) -> AcceptedHosts {
        let is_any = match &self.listen {
            ListenAddress::Unix(_) => true,
            ListenAddress::Tcp(_) => self.listen.is_remote() && self.allow_hosts.is_empty(),
        };
        if is_any { AcceptedHosts::Any } else { AcceptedHosts::Named(self.allow_hosts.clone()) }
    }

    /// The text of a file with these settings.
    ///
    /// # Errors
    /// If a path is not UTF-8: a file cannot have it.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        toml::to_string(self)
            .map_err(|error| ConfigError::Usage(format!("cannot print these settings as a file: {error}")))
    }
}

/// The cgroups that may have series of their own, by the path below the cgroup mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CgroupSelection {
    /// Only these, unless there are none.
    include: Vec<CgroupPattern>,
    /// Not these.
    exclude: Vec<CgroupPattern>,
}

impl CgroupSelection {
    /// The patterns of a table.
    ///
    /// # Errors
    /// What is wrong with a setting, and where.
    pub fn of_table(mut table: SettingsTable<'_>) -> Result<Self, String> {
        let key = |name, example| SettingKey { name, example };
        let include = table.strings(key("include", "[\"/system.slice/*\"]"), str::parse)?.unwrap_or_default();
        let exclude = table.strings(key("exclude", "[\"*.scope\"]"), str::parse)?.unwrap_or_default();
        table.finish().map(|()| Self { include, exclude })
    }

    /// Whether the cgroup may have series of its own.
    pub fn selects(&self, cgroup: &str) -> bool {
        let matches = |patterns: &[CgroupPattern]| patterns.iter().any(|pattern| pattern.0.matches(cgroup));
        (self.include.is_empty() || matches(&self.include)) && !matches(&self.exclude)
    }
}

/// A shell pattern, in which `*` also matches `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CgroupPattern(glob::Pattern);

impl FromStr for CgroupPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pattern = glob::Pattern::new(text);
        pattern.map(Self).map_err(|error| format!("`{text}` is not a shell pattern: {}", error.msg))
    }
}

impl Serialize for CgroupPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}
