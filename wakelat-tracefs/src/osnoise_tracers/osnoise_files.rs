//! Translates the configuration of a run into a list of settings and values. Pure.

use crate::osnoise_tracers::{TIMERLAT_PERIOD_US, Tracer, TracerSetup};

/// A file of the tracers, the value to write, and what to report if the kernel rejects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The path, relative to the root of tracefs.
    pub file: &'static str,
    /// The value to write.
    pub value: String,
    /// The flag that requests the setting.
    pub flag: &'static str,
    /// The values that the kernel accepts.
    pub accepted: &'static str,
}

/// The limits of a period from 5.14 to 7.2 (`timerlat_min_period`, `timerlat_max_period`,
/// kernel/trace/trace_osnoise.c).
const PERIOD: &str = "the kernel accepts 100us to 1s";

/// All settings for `setup`, in the order of writing. Includes settings that the run does not request but
/// that would change its results if they are not at their defaults: a threshold left from another run would
/// stop this one.
pub fn of(setup: &TracerSetup, online: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut set = |file, value: String, flag, accepted| settings.push(Setting { file, value, flag, accepted });
    let stops = setup.stops_in_kernel;
    let us = |limit: Option<u64>| limit.filter(|_| stops).unwrap_or(0).to_string();
    let cpus = setup.cpus.as_ref().map_or_else(|| online.to_owned(), ToString::to_string);
    set("osnoise/cpus", cpus, "--cpus", "the kernel accepts only CPUs that are online");
    let (stop, total) = match setup.tracer {
        Tracer::Timerlat => ("--irq", "--thread"),
        Tracer::Osnoise => ("--stop", "--stop-total"),
    };
    set("osnoise/stop_tracing_us", us(setup.stop_us), stop, "the kernel accepts any number of microseconds");
    set(
        "osnoise/stop_tracing_total_us",
        us(setup.stop_total_us),
        total,
        "the kernel accepts any number of microseconds",
    );
    match setup.tracer {
        Tracer::Timerlat => {
            let period = setup.period_us.unwrap_or(TIMERLAT_PERIOD_US).to_string();
            set("osnoise/timerlat_period_us", period, "--period", PERIOD);
            let stack = setup.print_stack_us.unwrap_or(0).to_string();
            set("osnoise/print_stack", stack, "--stack", "the kernel accepts any number of microseconds");
        }
        Tracer::Osnoise => {
            // The kernel may reject either order, depending on the current values, because the runtime has
            // to be within the period at all times.
            let (runtime, period) = (setup.runtime_us.unwrap_or(1_000_000), setup.period_us.unwrap_or(1_000_000));
            let accepted = "the kernel accepts only a runtime within the period";
            set("osnoise/runtime_us", runtime.to_string(), "--runtime", accepted);
            set("osnoise/period_us", period.to_string(), "--period", accepted);
            let threshold = setup.threshold_us.unwrap_or(0).to_string();
            set("tracing_thresh", threshold, "--noise", "the kernel accepts any number of microseconds");
        }
    }
    let workload = if setup.user.is_some() { "NO_OSNOISE_WORKLOAD" } else { "OSNOISE_WORKLOAD" };
    for option in std::iter::once(workload).chain(setup.options.iter().map(String::as_str)) {
        set("osnoise/options", option.to_owned(), "--options", "see `osnoise/options` for the options of this kernel");
    }
    settings
}
