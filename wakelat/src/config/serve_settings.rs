//! The settings of the service, as its configuration file has them.

use std::{fs, path::Path};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use wakelat_core::service::constant_labels::ConstantLabels;

use super::{CaptureSettings, ConfigError, KubeletSettings, ListenAddress, OtlpSettings, ServiceLimit, number};

/// The largest file that is read: bytes.
const MAX_FILE: u64 = 1 << 20;

/// The settings of the service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct ServeSettings {
    /// Where the service listens.
    pub listen: ListenAddress,
    /// Maximum number of cgroups with series of their own.
    #[serde(deserialize_with = "series")]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceCollect {
    /// Nothing.
    #[default]
    None,
    /// Interrupts and softirqs, if the kernel does not count their time.
    Irq,
}

fn series<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let given = u64::deserialize(deserializer)?;
    number::series(&given.to_string()).map_err(D::Error::custom)
}

impl ServeSettings {
    /// Reads the file at `path`. What it does not set has its default.
    ///
    /// # Errors
    /// What is wrong with the file, and where.
    pub fn read(path: &Path) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot read `{}`: {error}", path.display());
        let length = fs::metadata(path).map_err(|error| failed(&error))?.len();
        if length > MAX_FILE {
            return Err(failed(&"the file is longer than 1 MiB"));
        }
        let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
        Self::parse(&text).map_err(|error| format!("`{}`, {error}", path.display()))
    }

    /// Parses the text of a file.
    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
            let message = error.message().trim_end().replace('\n', "; ");
            format!("line {line}, column {column}: {message}")
        })
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CgroupSelection {
    /// Only these, unless there are none.
    include: Vec<CgroupPattern>,
    /// Not these.
    exclude: Vec<CgroupPattern>,
}

impl CgroupSelection {
    /// Whether the cgroup may have series of its own.
    pub fn selects(&self, cgroup: &str) -> bool {
        let matches = |patterns: &[CgroupPattern]| patterns.iter().any(|pattern| pattern.0.matches(cgroup));
        (self.include.is_empty() || matches(&self.include)) && !matches(&self.exclude)
    }
}

/// A shell pattern, in which `*` also matches `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CgroupPattern(glob::Pattern);

impl<'de> Deserialize<'de> for CgroupPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pattern = glob::Pattern::new(&text);
        pattern.map(Self).map_err(|error| D::Error::custom(format!("`{text}` is not a shell pattern: {}", error.msg)))
    }
}

impl Serialize for CgroupPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "\
listen = \"unix:/run/wakelat/socket\"
max-series = 50
max-overhead = \"0.25%\"
collect = \"irq\"

[cgroups]
include = [\"/kubepods.slice/*\"]
exclude = [\"*.scope\"]

[labels]
cluster = \"a\"

[otlp]
url = \"http://collector:4318/v1/metrics?key=a\"
interval = \"10s\"
temporality = \"delta\"

[kubelet]
url = \"https://192.0.2.1:10250/pods\"
ca = \"/etc/ca.crt\"
token = \"/etc/token\"
insecure = false

[capture]
conditions = [\"p99>20ms for 30s\", \"max>1s in /system.slice/*\"]
dir = \"/captures\"
duration = \"5s\"
interval = \"2m\"
size = \"50M\"
";

    #[test]
    fn a_file_has_the_settings_that_are_shown() {
        let settings = ServeSettings::parse(EXAMPLE).unwrap();
        assert_eq!(settings.to_toml().unwrap(), EXAMPLE);
        assert!(settings.cgroups.selects("/kubepods.slice/a/b"));
        assert!(!settings.cgroups.selects("/kubepods.slice/a.scope") && !settings.cgroups.selects("/user.slice"));
        let empty = ServeSettings::parse("").unwrap();
        assert_eq!(empty, ServeSettings::default());
        assert!(empty.cgroups.selects("/any"));
        assert_eq!(ServeSettings::parse(&empty.to_toml().unwrap()), Ok(empty));
        let short = ServeSettings::parse("[capture]\nconditions = [\"max>1s\"]\ndir = \"a\"").unwrap();
        assert!(short.to_toml().unwrap().ends_with("duration = \"10s\"\ninterval = \"10m\"\nsize = \"200M\"\n"));
        let plain = ServeSettings::parse("otlp.url = \"http://[::1]:4318\"").unwrap();
        let shown = "[otlp]\nurl = \"http://[::1]:4318/v1/metrics\"\ninterval = \"1m\"\ntemporality = \"cumulative\"\n";
        assert!(plain.to_toml().unwrap().ends_with(shown), "{}", plain.to_toml().unwrap());
        let plain = ServeSettings::parse("kubelet.url = \"http://localhost\"").unwrap();
        assert_eq!(ServeSettings::parse(&plain.to_toml().unwrap()), Ok(plain));
    }

    #[test]
    fn a_path_that_no_file_can_have_is_an_error() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
        let mut settings = ServeSettings::parse("[capture]\nconditions = [\"max>1s\"]\ndir = \"a\"").unwrap();
        settings.capture.as_mut().unwrap().dir = OsStr::from_bytes(b"/tmp/\xff").into();
        let error = settings.to_toml().unwrap_err().to_string();
        assert!(error.contains("invalid UTF-8"), "{error}");
    }

    #[test]
    fn every_setting_of_the_packaged_file_can_be_used() {
        const PACKAGED: &str = include_str!("../../../packaging/serve.toml");
        assert_eq!(ServeSettings::parse(PACKAGED), Ok(ServeSettings::default()));
        let is_setting = |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase() || c == '[');
        let settings: Vec<&str> =
            PACKAGED.lines().filter_map(|line| line.strip_prefix('#')).filter(is_setting).collect();
        let settings = ServeSettings::parse(&settings.join("\n")).unwrap();
        assert!(settings.cgroups.selects("/system.slice/a.service") && !settings.labels.is_empty(), "{settings:?}");
        assert!(settings.otlp.is_some_and(|otlp| otlp.interval_ns == 60_000_000_000));
        assert!(settings.kubelet.is_some_and(|kubelet| !kubelet.insecure));
        assert!(settings.capture.is_some_and(|capture| capture.dir.starts_with("/var/lib/wakelat")));
    }

    #[test]
    fn errors_say_where_and_what() {
        for (text, expected) in [
            ("max-series = 0", "line 1, column 14: `0` is not accepted; expected a number from 1"),
            ("\nmax_series = 5", "line 2, column 1: unknown field `max_series`, expected one of"),
            ("[cgroups]\ninclude = [\"a[\"]", "line 2, column 11: `a[` is not a shell pattern"),
            ("[labels]\ncgroup = \"x\"", "line 1, column 1: the label `cgroup` is reserved"),
            ("listen = \"9779\"", "line 1, column 10: `9779` is not an address"),
            ("collect = \"idle\"", "line 1, column 11: unknown variant `idle`, expected `none` or `irq`"),
            ("max-overhead = \"0\"", "line 1, column 16: `0` is not accepted; expected `none` or a percentage"),
            ("[capture]\nconditions = [\"max\"]\ndir = \"a\"", "line 2, column 14: `max` is not a condition"),
            ("[capture]\nconditions = []\ndir = \"a\"", "line 1, column 1: 0 conditions are given"),
            ("capture.conditions = [\"max>1s\"]", "line 1, column 1: missing field `dir`"),
            ("listen = ", "line 1, column 10: "),
            ("[otlp]\ninterval = \"10s\"", "line 1, column 1: missing field `url`"),
            ("[otlp]\nurl = \"https://a\"", "line 2, column 7: TLS is not supported"),
            ("otlp = { url = \"http://a\", interval = \"10ms\" }", "line 1, column 39: `10ms` is too short"),
            ("otlp = { url = \"http://a\", temporality = \"x\" }", "line 1, column 42: unknown variant `x`, expected"),
            ("[kubelet]\nca = \"/ca\"", "line 1, column 1: missing field `url`"),
            ("[kubelet]\nurl = \"a\"", "line 2, column 7: `a` is not a URL of a kubelet"),
            ("[kubelet]\nurl = \"http://a\"\ninsecure = true", "line 1, column 1: `http://a:10255/pods` has no TLS"),
        ] {
            let error = ServeSettings::parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
