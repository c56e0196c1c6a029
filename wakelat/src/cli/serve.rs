//! `wakelat serve`

use std::path::PathBuf;

use clap::Args;

use super::{ClassName, CommonFlags, FilterFlags, FromEvent, OutputFlags, ResourceFlags, ThresholdFlags, WindowFlags};
use crate::config::{ConfigError, GroupingConfig, ListenAddress, ServeConfig, ServeFile, ServeSettings, number};
use wakelat_core::{aggregate::key::Key, report::Mode};
use wakelat_kernel::Machine;

const EXAMPLES: &str = "\
Examples:
  wakelat serve                                  metrics on http://127.0.0.1:9779/metrics
  wakelat serve --listen unix:/run/wakelat.sock  only for processes that may use the socket
  wakelat serve --max-series 200                 at most 200 cgroups with series of their own
  wakelat serve --config serve.toml              settings from a file, read again on SIGHUP
  curl 'http://127.0.0.1:9779/why?last=30s'      what tasks waited for in the last 30 seconds";

/// Measure all the time, and serve the waits of each cgroup and their causes as metrics
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ServeFlags {
    /// Listen on ADDRESS:PORT or unix:PATH [default: 127.0.0.1:9779]
    #[arg(long, value_name = "ADDRESS", help_heading = "Service")]
    listen: Option<ListenAddress>,

    /// Maximum number of cgroups with series of their own; the others are one series, (other) [default: 1000]
    #[arg(long, value_name = "N", value_parser = number::series, allow_hyphen_values = true, help_heading = "Service")]
    max_series: Option<usize>,

    /// Read settings from FILE (TOML), and again on SIGHUP; flags override it
    #[arg(long, value_name = "FILE", help_heading = "Service")]
    config: Option<PathBuf>,

    /// Check the settings, print them as a configuration file, and exit
    #[arg(long, help_heading = "Service")]
    check: bool,

    #[command(flatten)]
    resources: ResourceFlags,

    /// Keep capabilities, file access and system calls that the measurement no longer needs, for debugging
    #[arg(long, help_heading = "Resources")]
    keep_privileges: bool,
}

impl ServeFlags {
    pub(super) fn config(self, machine: &Machine) -> Result<ServeConfig, ConfigError> {
        let common = CommonFlags {
            window: WindowFlags::default(),
            filter: FilterFlags { class: vec![ClassName::Runqueue], from: FromEvent::Queued, ..FilterFlags::default() },
            threshold: ThresholdFlags::default(),
            output: OutputFlags::default(),
            resources: self.resources,
            max_overhead: None,
            keep_privileges: self.keep_privileges,
        };
        let mut measurement = common.config(machine)?;
        let (listen, max_series) = (self.listen, self.max_series);
        let (file, settings) = match self.config {
            Some(path) => {
                let file = ServeFile { path, max_series, listen };
                let settings = file.settings().map_err(|why| ConfigError::usage("--config", why))?;
                (Some(file), settings)
            }
            None => {
                let mut settings = ServeSettings::default();
                settings.listen = listen.unwrap_or(settings.listen);
                settings.max_series = max_series.unwrap_or(settings.max_series);
                (None, settings)
            }
        };
        let (by, mode) = (vec![Key::Cgroup], Some(Mode::Aggregate));
        measurement.set_why_counted(GroupingConfig { by, max_groups: settings.max_series, mode }, machine)?;
        measurement.set_service()?;
        Ok(ServeConfig { measurement, settings, file, check: self.check })
    }
}
