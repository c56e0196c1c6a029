//! Settings of the service that are given in one place: as flags, or in a configuration file.

use wakelat_core::service::constant_labels::ConstantLabels;

use super::{
    CgroupSelection, GivenCapture, GivenKubelet, GivenOtlp, ListenAddress, ServeSettings, ServiceCollect, ServiceLimit,
    serve::allowed_host,
    settings_table::{SettingKey, SettingsTable},
};

/// Settings of the service that are given in one place. What is `None` is not given there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenSettings {
    /// Where the service listens.
    pub listen: Option<ListenAddress>,
    /// Host names that requests may have.
    pub allow_hosts: Option<Vec<String>>,
    /// Maximum number of cgroups with series of their own.
    pub max_series: Option<usize>,
    /// The limit of the overhead.
    pub max_overhead: Option<ServiceLimit>,
    /// What is collected besides switches.
    pub collect: Option<ServiceCollect>,
    /// The cgroups that may have series of their own. No flag has it.
    pub cgroups: Option<CgroupSelection>,
    /// Labels that all series have. No flag has it.
    pub labels: Option<ConstantLabels>,
    /// Exports.
    pub otlp: Option<GivenOtlp>,
    /// Names of pods.
    pub kubelet: Option<GivenKubelet>,
    /// Recordings.
    pub capture: Option<GivenCapture>,
}

/// Why the settings of a table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    /// The name of the table, which is also that of its first flag.
    pub table: &'static str,
    /// What is wrong.
    pub why: String,
}

impl GivenSettings {
    /// The settings that a file has. Call `finish` of the table afterwards: it checks that all keys have been read.
    ///
    /// # Errors
    /// What is wrong with a setting, and where.
    pub fn of_file(file: &mut SettingsTable<'_>) -> Result<Self, String> {
        let key = |name, example| SettingKey { name, example };
        Ok(Self {
            listen: file.string(key("listen", "\"127.0.0.1:9779\""), str::parse)?,
            allow_hosts: file.strings(key("allow-hosts", "[\"metrics.example.com\"]"), allowed_host)?,
            max_series: file.integer(key("max-series", "1000"), super::number::series)?,
            max_overhead: file.string(key("max-overhead", "\"0.5%\""), str::parse)?,
            collect: file.string(key("collect", "\"irq\""), str::parse)?,
            cgroups: file.table("cgroups")?.map(CgroupSelection::of_table).transpose()?,
            labels: file.table("labels")?.map(labels).transpose()?,
            otlp: file.table("otlp")?.map(GivenOtlp::of_table).transpose()?,
            kubelet: file.table("kubelet")?.map(GivenKubelet::of_table).transpose()?,
            capture: file.table("capture")?.map(GivenCapture::of_table).transpose()?,
        })
    }

    /// These settings; what is not given here is taken from `other`, one by one, also in tables.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            listen: self.listen.or(other.listen),
            allow_hosts: self.allow_hosts.or(other.allow_hosts),
            max_series: self.max_series.or(other.max_series),
            max_overhead: self.max_overhead.or(other.max_overhead),
            collect: self.collect.or(other.collect),
            cgroups: self.cgroups.or(other.cgroups),
            labels: self.labels.or(other.labels),
            otlp: merged(self.otlp, other.otlp, GivenOtlp::or),
            kubelet: merged(self.kubelet, other.kubelet, GivenKubelet::or),
            capture: merged(self.capture, other.capture, GivenCapture::or),
        }
    }

    /// All settings: what is not given has its default.
    ///
    /// # Errors
    /// If a table has not all that it needs, or contradicts itself.
    pub fn settings(self) -> Result<ServeSettings, TableError> {
        let in_table = |table| move |why| TableError { table, why };
        let default = ServeSettings::default();
        Ok(ServeSettings {
            listen: self.listen.unwrap_or(default.listen),
            allow_hosts: self.allow_hosts.unwrap_or(default.allow_hosts),
            max_series: self.max_series.unwrap_or(default.max_series),
            max_overhead: self.max_overhead.unwrap_or(default.max_overhead),
            collect: self.collect.unwrap_or(default.collect),
            cgroups: self.cgroups.unwrap_or(default.cgroups),
            labels: self.labels.unwrap_or(default.labels),
            otlp: self.otlp.map(GivenOtlp::settings).transpose().map_err(in_table("otlp"))?,
            kubelet: self.kubelet.map(GivenKubelet::settings).transpose().map_err(in_table("kubelet"))?,
            capture: self.capture.map(GivenCapture::settings).transpose().map_err(in_table("capture"))?,
        })
    }
}

fn labels(table: SettingsTable<'_>) -> Result<ConstantLabels, String> {
    let place = table.place();
    ConstantLabels::new(table.into_strings()?).map_err(|why| format!("{place}: {why}"))
}

fn merged<T>(first: Option<T>, second: Option<T>, or: impl FnOnce(T, T) -> T) -> Option<T> {
    match (first, second) {
        (Some(first), Some(second)) => Some(or(first, second)),
        (first, second) => first.or(second),
    }
}
