//! Recordings that the service makes when the waits of a cgroup meet a condition.

use std::{ffi::OsString, fmt, path::PathBuf, str::FromStr};

use glob::Pattern;
use serde::{Serialize, Serializer};
use wakelat_core::service::capture_condition::{CaptureCondition, WaitStatistic};

use super::{
    duration,
    settings_table::{SettingKey, SettingsTable},
    size,
};

/// Maximum number of conditions: each keeps the waits of each cgroup.
const MAX_CONDITIONS: usize = 16;

/// The longest condition: bytes. It is a label of metrics.
const MAX_TEXT: usize = 256;

/// The smallest limit of the size of all recordings: bytes. With less, a recording ends at its first events.
const MIN_SIZE: u64 = 64 << 10;

/// A condition, and the cgroups that it is about: `p99>20ms for 30s in /system.slice/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureRule {
    /// The condition.
    pub condition: CaptureCondition,
    /// A shell pattern of the cgroups, in which `*` also matches `/`; `None` for all.
    cgroups: Option<Pattern>,
    text: String,
}

impl CaptureRule {
    /// Whether the condition is about this cgroup.
    pub fn applies_to(&self, cgroup: &str) -> bool {
        self.cgroups.as_ref().is_none_or(|pattern| pattern.matches(cgroup))
    }
}

impl FromStr for CaptureRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let expected = |why: &str| {
            format!(
                "`{text}` is not a condition: {why}; expected STATISTIC>TIME, `for TIME` and `in PATTERN`, such as \
                 `p99>20ms for 30s in /system.slice/*`"
            )
        };
        if text.len() > MAX_TEXT {
            return Err(format!("the condition is longer than {MAX_TEXT} bytes"));
        }
        let (rest, cgroups) = match text.split_once(" in ") {
            Some((rest, pattern)) => {
                let pattern = Pattern::new(pattern.trim());
                (rest, Some(pattern.map_err(|error| expected(&format!("the pattern is wrong, {}", error.msg)))?))
            }
            None => (text, None),
        };
        let (comparison, hold) = rest.split_once(" for ").map_or((rest, None), |(rest, hold)| (rest, Some(hold)));
        let (name, limit) = comparison.split_once('>').ok_or_else(|| expected("there is no `>`"))?;
        let statistic = WaitStatistic::ALL.into_iter().find(|statistic| statistic.name() == name.trim());
        let statistic = statistic.ok_or_else(|| {
            let names = WaitStatistic::ALL.map(WaitStatistic::name).join(", ");
            expected(&format!("`{}` is not one of {names}", name.trim()))
        })?;
        let limit_ns = duration::with_unit(limit.trim()).map_err(|why| expected(&why))?;
        let hold_ns = hold.map_or(Ok(0), |hold| duration::seconds(hold.trim())).map_err(|why| expected(&why))?;
        let condition = CaptureCondition { statistic, limit_ns, hold_ns };
        Ok(Self { condition, cgroups, text: text.to_owned() })
    }
}

impl fmt::Display for CaptureRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for CaptureRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Parses the limit of the size of all recordings: bytes.
///
/// # Errors
/// As for [`size::parse`], and if a recording has no room.
pub fn recordings_size(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes if bytes < MIN_SIZE => Err(format!("`{text}` has no room for a recording; expected at least `64K`")),
        bytes => Ok(bytes),
    }
}

/// When the service makes recordings, and where it keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaptureSettings {
    /// The conditions, at least one.
    pub conditions: Vec<CaptureRule>,
    /// The directory of the files.
    pub dir: PathBuf,
    /// How long a recording is: ns.
    #[serde(rename = "duration", serialize_with = "span")]
    pub duration_ns: u64,
    /// The least time between two recordings of one condition: ns.
    #[serde(rename = "interval", serialize_with = "span")]
    pub interval_ns: u64,
    /// The most that the files take: bytes.
    #[serde(rename = "size", serialize_with = "bytes")]
    pub max_bytes: u64,
}

fn span<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&duration::text(*ns))
}

fn bytes<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&size::text(*bytes))
}

impl CaptureSettings {
    /// The settings with these conditions and this directory, and defaults otherwise.
    ///
    /// # Errors
    /// If there is no condition, or if there are too many or two of the same text.
    pub fn new(conditions: Vec<CaptureRule>, dir: PathBuf) -> Result<Self, String> {
        if conditions.is_empty() || conditions.len() > MAX_CONDITIONS {
            let found = conditions.len();
            return Err(format!("{found} conditions are given; expected at least 1 and at most {MAX_CONDITIONS}"));
        }
        for (at, rule) in conditions.iter().enumerate() {
            if conditions[..at].iter().any(|other| other.text == rule.text) {
                return Err(format!("`{rule}` is given more than once; give it once"));
            }
        }
        let (duration_ns, interval_ns, max_bytes) = (10_000_000_000, 600_000_000_000, 200 << 20);
        Ok(Self { conditions, dir, duration_ns, interval_ns, max_bytes })
    }
}

/// Settings of captures that are given in one place: as flags, or in a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenCapture {
    /// The conditions.
    pub conditions: Option<Vec<CaptureRule>>,
    /// The directory of the files.
    pub dir: Option<PathBuf>,
    /// How long a recording is: ns.
    pub duration_ns: Option<u64>,
    /// The least time between two recordings of one condition: ns.
    pub interval_ns: Option<u64>,
    /// The most that the files take: bytes.
    pub max_bytes: Option<u64>,
}

impl GivenCapture {
    /// The settings of a table.
    ///
    /// # Errors
    /// What is wrong with a setting, and where.
    pub fn of_table(mut table: SettingsTable<'_>) -> Result<Self, String> {
        let key = |name, example| SettingKey { name, example };
        let given = Self {
            conditions: table.strings(key("conditions", "[\"p99>20ms for 30s\"]"), str::parse)?,
            dir: table.string(key("dir", "\"/var/lib/wakelat/captures\""), |text| Ok(PathBuf::from(text)))?,
            duration_ns: table.string(key("duration", "\"10s\""), duration::seconds)?,
            interval_ns: table.string(key("interval", "\"10m\""), duration::seconds_or_zero)?,
            max_bytes: table.string(key("size", "\"200M\""), recordings_size)?,
        };
        table.finish().map(|()| given)
    }

    /// These settings; what is not given here is taken from `other`. The conditions are one setting.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            conditions: self.conditions.or(other.conditions),
            dir: self.dir.or(other.dir),
            duration_ns: self.duration_ns.or(other.duration_ns),
            interval_ns: self.interval_ns.or(other.interval_ns),
            max_bytes: self.max_bytes.or(other.max_bytes),
        }
    }

    /// All settings: what is not given has its default.
    ///
    /// # Errors
    /// If there is no condition or no directory, and errors of [`CaptureSettings::new`].
    pub fn settings(self) -> Result<CaptureSettings, String> {
        let conditions = self.conditions.ok_or(
            "no condition is given; expected `conditions = [\"p99>20ms for 30s\"]` in the table `[capture]`, or \
             `--capture 'p99>20ms for 30s'`",
        )?;
        let dir = self.dir.ok_or(
            "no directory is given; expected `dir = \"/var/lib/wakelat/captures\"` in the table `[capture]`, or \
             `--capture-dir /var/lib/wakelat/captures`",
        )?;
        let default = CaptureSettings::new(conditions, dir)?;
        Ok(CaptureSettings {
            duration_ns: self.duration_ns.unwrap_or(default.duration_ns),
            interval_ns: self.interval_ns.unwrap_or(default.interval_ns),
            max_bytes: self.max_bytes.unwrap_or(default.max_bytes),
            ..default
        })
    }
}

/// The process that makes the recordings of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureProcessConfig {
    /// When it makes recordings, and where it keeps them.
    pub settings: CaptureSettings,
    /// Arguments of `wakelat record`: the same resources as for the service.
    pub record_arguments: Vec<OsString>,
    /// Whether it keeps all privileges.
    pub keep_privileges: bool,
}

impl CaptureProcessConfig {
    /// The arguments of the command that is this process.
    pub fn arguments(&self) -> Vec<OsString> {
        let CaptureSettings { conditions, dir, duration_ns, interval_ns, max_bytes } = &self.settings;
        let mut arguments = vec!["capture-process".into()];
        arguments.extend(conditions.iter().map(|rule| format!("--capture={rule}").into()));
        arguments.extend(["--capture-dir".into(), dir.clone().into_os_string()]);
        arguments.push(format!("--capture-duration={}", duration::text(*duration_ns)).into());
        arguments.push(format!("--capture-interval={}", duration::text(*interval_ns)).into());
        arguments.push(format!("--capture-size={}", size::text(*max_bytes)).into());
        arguments.extend(self.keep_privileges.then(|| "--keep-privileges".into()));
        arguments.push("--".into());
        arguments.extend(self.record_arguments.iter().cloned());
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_has_a_statistic_a_limit_a_time_and_cgroups() {
        for (text, name, limit_ns, hold_ns, other_applies) in [
            ("p99>20ms for 30s", "p99", 20_000_000, 30_000_000_000, true),
            (" p99.9 > 1.5ms for 2m ", "p99.9", 1_500_000, 120_000_000_000, true),
            ("max>1s", "max", 1_000_000_000, 0, true),
            ("p50>100us for 5 in /a/*", "p50", 100_000, 5_000_000_000, false),
            ("max>1s in /a/b", "max", 1_000_000_000, 0, false),
        ] {
            let rule: CaptureRule = text.parse().unwrap();
            let CaptureCondition { statistic, .. } = rule.condition;
            assert_eq!((statistic.name(), rule.condition.limit_ns, rule.condition.hold_ns), (name, limit_ns, hold_ns));
            assert_eq!((rule.applies_to("/a/b"), rule.applies_to("/c")), (true, other_applies), "{text}");
            assert_eq!(rule.to_string(), text.trim());
        }
    }

    #[test]
    fn what_is_wrong_with_a_condition_is_in_the_error() {
        for (text, expected) in [
            ("", "there is no `>`"),
            ("p99<20ms", "there is no `>`"),
            ("p98>20ms", "`p98` is not one of p50, p90, p99, p99.9, max"),
            ("p99>20", "has no unit"),
            ("p99>20ms for", "`20ms for` is not a time"),
            ("p99>20ms for ever", "`ever` is not a time"),
            ("p99>20ms for 0s", "must be greater than zero"),
            ("p99>20ms in a[", "the pattern is wrong"),
        ] {
            let error = text.parse::<CaptureRule>().unwrap_err();
            assert!(error.contains(expected) && error.contains("such as `p99>20ms for 30s"), "{text}: {error}");
        }
    }

    #[test]
    fn the_size_has_room_for_a_recording() {
        assert_eq!((recordings_size("64K"), recordings_size("1M")), (Ok(MIN_SIZE), Ok(1 << 20)));
        for text in ["1", "65535", "63K"] {
            assert!(recordings_size(text).unwrap_err().contains("expected at least `64K`"), "{text}");
        }
        assert!(recordings_size("x").unwrap_err().contains("is not a size"));
    }

    #[test]
    fn conditions_are_different_and_few() {
        let new = |texts: &[&str]| {
            CaptureSettings::new(texts.iter().map(|text| text.parse().unwrap()).collect(), "/captures".into())
        };
        assert!(new(&["max>1s", "max>2s"]).is_ok());
        assert!(new(&[]).is_err());
        assert!(new(&["max>1s", "max>1s"]).unwrap_err().contains("more than once"));
        let many: Vec<String> = (1..=MAX_CONDITIONS + 1).map(|ms| format!("max>{ms}ms")).collect();
        assert!(new(&many.iter().map(String::as_str).collect::<Vec<_>>()).is_err());
    }
}
