//! `wakelat serve`

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    ClassName, CommonFlags, FilterFlags, FromEvent, OutputFlags, ResourceFlags, ThresholdFlags, WindowFlags,
    capture::CaptureFlags,
};
use crate::config::{
    ConfigError, GivenKubelet, GivenOtlp, GivenSettings, GroupingConfig, KubeletUrl, ListenAddress, OtlpConfig,
    OtlpEndpoint, ServeConfig, ServeFile, ServiceCollect, ServiceLimit, allowed_host, number, otlp_interval,
};
use wakelat_core::{aggregate::key::Key, report::Mode, service::otlp::Temporality};
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat serve                                  metrics on http://127.0.0.1:9779/metrics
  wakelat serve --listen unix:/run/wakelat.sock  only for processes that may use the socket
  wakelat serve --max-series 200                 at most 200 cgroups with series of their own
  wakelat serve --max-overhead 0.1%              measure less of the time on a busy machine
  wakelat serve --config serve.toml              settings from a file, read again on SIGHUP
  wakelat serve --otlp http://127.0.0.1:4318     also export the metrics to an OpenTelemetry collector
  wakelat serve --kubelet https://$NODE:10250    the names of pods as labels
  wakelat serve --capture 'p99>20ms for 30s' --capture-dir /var/tmp/captures
                                                 record 10 s when a cgroup waits that long
  curl 'http://127.0.0.1:9779/why?last=30s'      what tasks waited for in the last 30 seconds";

/// Measure continuously, and serve the waits of each cgroup and their causes as metrics
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ServeFlags {
    /// Listen on ADDRESS:PORT or unix:PATH [default: 127.0.0.1:9779]
    #[arg(long, value_name = "ADDRESS", help_heading = "Service")]
    listen: Option<ListenAddress>,

    /// Also answer requests for this host name, such as that of a proxy; on a loopback address, others must be for
    /// localhost or an IP address; repeatable
    #[arg(long, value_name = "NAME", value_parser = allowed_host, help_heading = "Service")]
    allow_host: Vec<String>,

    /// Maximum number of cgroups with series of their own; the others are one series, (other) [default: 1000]
    #[arg(long, value_name = "N", value_parser = number::series, allow_hyphen_values = true, help_heading = "Service")]
    max_series: Option<usize>,

    /// Count interrupts and softirqs as a cause of their own (irq), not as time of the task that they interrupt (none);
    /// kernels with CONFIG_IRQ_TIME_ACCOUNTING always do [default: none]
    #[arg(long, value_name = "EVENTS", value_enum, hide_possible_values = true, help_heading = "Service")]
    collect: Option<ServiceCollectName>,

    /// Read settings from FILE (TOML), and again on SIGHUP; each flag overrides one setting of it
    #[arg(long, value_name = "FILE", help_heading = "Service")]
    config: Option<PathBuf>,

    /// Check the settings, print them as a configuration file, and exit
    #[arg(long, help_heading = "Service")]
    check: bool,

    /// Export metrics to this OTLP receiver, over plain HTTP; /v1/metrics if URL has no path
    #[arg(long, value_name = "URL", help_heading = "OpenTelemetry")]
    otlp: Option<OtlpEndpoint>,

    /// Export at this interval, at least 1s [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = otlp_interval, allow_hyphen_values = true, help_heading = "OpenTelemetry")]
    otlp_interval: Option<u64>,

    /// Aggregation temporality of counters and histograms: cumulative (since the series began) or delta (since the
    /// previous export) [default: cumulative]
    #[arg(long, value_name = "KIND", value_enum, hide_possible_values = true, help_heading = "OpenTelemetry")]
    otlp_temporality: Option<TemporalityName>,

    /// Add pod names as labels, read from this kubelet; /pods if URL has no path
    #[arg(long, value_name = "URL", help_heading = "Kubernetes")]
    kubelet: Option<KubeletUrl>,

    /// CA certificates that verify the kubelet, in PEM [default: the CA of the pod's service account]
    #[arg(long, value_name = "FILE", help_heading = "Kubernetes")]
    kubelet_ca: Option<PathBuf>,

    /// File with the bearer token for https:// requests, read again before each one [default: that of the pod's service account]
    #[arg(long, value_name = "FILE", help_heading = "Kubernetes")]
    kubelet_token: Option<PathBuf>,

    /// Accept any certificate: a process that answers in place of the kubelet gets the token and chooses the names
    #[arg(long, conflicts_with = "kubelet_ca", help_heading = "Kubernetes")]
    kubelet_insecure: bool,

    #[command(flatten)]
    captures: CaptureFlags,

    #[command(flatten)]
    resources: ResourceFlags,

    /// Keep overhead below this share of all CPU time by pausing, or `none` [default: 0.5%]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, help_heading = "Resources")]
    max_overhead: Option<ServiceLimit>,

    /// Keep capabilities, file access and system calls that the measurement no longer needs, for debugging
    #[arg(long, help_heading = "Resources")]
    keep_privileges: bool,
}

/// What is collected besides switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServiceCollectName {
    /// Nothing
    None,
    /// IRQs and softirqs
    Irq,
}

impl From<ServiceCollectName> for ServiceCollect {
    fn from(name: ServiceCollectName) -> Self {
        match name {
            ServiceCollectName::None => Self::None,
            ServiceCollectName::Irq => Self::Irq,
        }
    }
}

/// Which values an exported point has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TemporalityName {
    /// Since the series began
    Cumulative,
    /// Since the previous export
    Delta,
}

impl From<TemporalityName> for Temporality {
    fn from(name: TemporalityName) -> Self {
        match name {
            TemporalityName::Cumulative => Self::Cumulative,
            TemporalityName::Delta => Self::Delta,
        }
    }
}

impl ServeFlags {
    pub(super) fn config(self, machine: &Machine) -> Result<ServeConfig, ConfigError> {
        let otlp = GivenOtlp {
            endpoint: self.otlp,
            interval_ns: self.otlp_interval,
            temporality: self.otlp_temporality.map(Into::into),
        };
        let kubelet = GivenKubelet {
            url: self.kubelet,
            ca: self.kubelet_ca,
            token: self.kubelet_token,
            insecure: self.kubelet_insecure.then_some(true),
        };
        let flags = GivenSettings {
            listen: self.listen,
            allow_hosts: Some(self.allow_host).filter(|names| !names.is_empty()),
            max_series: self.max_series,
            max_overhead: self.max_overhead,
            collect: self.collect.map(Into::into),
            otlp: given(otlp),
            kubelet: given(kubelet),
            capture: given(self.captures.given()),
            ..GivenSettings::default()
        };
        let record_arguments = self.resources.of_recording();
        let (file, settings) = match self.config {
            Some(path) => {
                let file = ServeFile { path, flags };
                let settings = file.settings().map_err(|why| ConfigError::usage("--config", why))?;
                (Some(file), settings)
            }
            None => {
                let settings = flags.settings();
                (None, settings.map_err(|error| ConfigError::usage(&format!("--{}", error.table), error.why))?)
            }
        };
        let common = CommonFlags {
            command: Vec::new(),
            window: WindowFlags::default(),
            filter: FilterFlags { class: vec![ClassName::Runqueue], from: FromEvent::Queued, ..FilterFlags::default() },
            threshold: ThresholdFlags::default(),
            output: OutputFlags::default(),
            resources: self.resources,
            max_overhead: settings.max_overhead.ppm(),
            keep_privileges: self.keep_privileges,
        };
        let mut measurement = common.config(machine)?;
        let (by, mode) = (vec![Key::Cgroup], Some(Mode::Aggregate));
        measurement.set_why_counted(GroupingConfig { by, max_groups: settings.max_series, mode }, machine)?;
        measurement.traces_interrupts = settings.collect == ServiceCollect::Irq;
        measurement.set_service()?;
        let variable = |name: &str| std::env::var(name).ok();
        let otlp = settings.otlp.clone().map(|settings| OtlpConfig::new(settings, variable));
        let otlp = otlp.transpose().map_err(ConfigError::Usage)?;
        Ok(ServeConfig { measurement, settings, file, otlp, record_arguments, check: self.check })
    }
}

/// The settings of a table, if any is given.
fn given<T: Default + PartialEq>(table: T) -> Option<T> {
    (table != T::default()).then_some(table)
}
