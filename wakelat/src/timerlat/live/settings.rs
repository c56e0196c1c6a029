//! What the tracer is told: a list of settings and values. Pure.

use crate::config::{TIMERLAT_PERIOD_US, Tracer, TracerConfig};

/// A file of `osnoise/`, what to write there, and what is said where the kernel refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Relative to the root of tracefs.
    pub file: &'static str,
    /// What to write.
    pub value: String,
    /// The flag that asks for it.
    pub flag: &'static str,
    /// What the kernel takes.
    pub accepted: &'static str,
}

/// The limits of a period, from 5.14 to 7.2 (`timerlat_min_period`, `timerlat_max_period`, kernel/trace/trace_osnoise.c).
const PERIOD: &str = "the kernel takes 100us to 1s";

/// All settings for `config`, in the order of writing. What a run does not ask for is set as well where another value than
/// the kernel's own would change the figures: a threshold that somebody left there would stop the run.
pub fn of(config: &TracerConfig, online: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut set = |file, value: String, flag, accepted| settings.push(Setting { file, value, flag, accepted });
    let stops = config.stops_in_kernel();
    let us = |limit: Option<u64>| limit.filter(|_| stops).unwrap_or(0).to_string();
    let cpus = config.cpus.as_ref().map_or_else(|| online.to_owned(), ToString::to_string);
    set("osnoise/cpus", cpus, "--cpus", "the kernel takes CPUs that are online");
    let (stop, total) = match config.tracer {
        Tracer::Timerlat => ("--irq", "--thread"),
        Tracer::Osnoise => ("--stop", "--stop-total"),
    };
    set("osnoise/stop_tracing_us", us(config.stop_us), stop, "the kernel takes any number of microseconds");
    set(
        "osnoise/stop_tracing_total_us",
        us(config.stop_total_us),
        total,
        "the kernel takes any number of microseconds",
    );
    match config.tracer {
        Tracer::Timerlat => {
            let period = config.period_us.unwrap_or(TIMERLAT_PERIOD_US).to_string();
            set("osnoise/timerlat_period_us", period, "--period", PERIOD);
            let stack = config.print_stack_us.unwrap_or(0).to_string();
            set("osnoise/print_stack", stack, "--stack", "the kernel takes any number of microseconds");
        }
        Tracer::Osnoise => {
            // Both orders may be refused, by what was there: a runtime is within the period at any time.
            let (runtime, period) = (config.runtime_us.unwrap_or(1_000_000), config.period_us.unwrap_or(1_000_000));
            let accepted = "the kernel takes a runtime that is within the period";
            set("osnoise/runtime_us", runtime.to_string(), "--runtime", accepted);
            set("osnoise/period_us", period.to_string(), "--period", accepted);
            let threshold = config.threshold_us.unwrap_or(0).to_string();
            set("tracing_thresh", threshold, "--noise", "the kernel takes any number of microseconds");
        }
    }
    let workload = if config.user.is_some() { "NO_OSNOISE_WORKLOAD" } else { "OSNOISE_WORKLOAD" };
    for option in std::iter::once(workload).chain(config.options.iter().map(String::as_str)) {
        set("osnoise/options", option.to_owned(), "--options", "see `osnoise/options` for what this kernel knows");
    }
    settings
}
