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

/// The file of the tracers' options, since Linux 6.1. It lists all options, those that are off with `NO_`
/// (`osnoise_options_show`, kernel/trace/trace_osnoise.c).
pub const OPTIONS: &str = "osnoise/options";
/// The only option that is on by default (`OSN_DEFAULT_OPTIONS`).
const WORKLOAD: &str = "OSNOISE_WORKLOAD";
const NO_WORKLOAD: &str = "NO_OSNOISE_WORKLOAD";

/// All settings for `setup`, in the order of writing, on a machine with these CPUs online and these options set.
/// Includes settings that the run does not request but that would change its results if they are not at their
/// defaults: a threshold left from another run would stop this one.
pub fn of(setup: &TracerSetup, online: &str, options: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    let mut set = |file, value: String, flag, accepted| settings.push(Setting { file, value, flag, accepted });
    let stops = setup.stops_in_kernel;
    let us = |limit: Option<u64>| limit.filter(|_| stops).unwrap_or(0).to_string();
    let cpus = setup.cpus.as_ref().map_or_else(|| online.to_owned(), ToString::to_string);
    set("osnoise/cpus", cpus, "--cpus", "expected possible CPUs; some kernels accept a list of at most 255 characters");
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
    let see = "see `osnoise/options` for the options of this kernel";
    for option in options_to_set(setup, options) {
        set(OPTIONS, option, "--options", see);
    }
    settings
}

/// The words to write to [`OPTIONS`], which now lists `options`: nothing by default on a kernel without that file.
fn options_to_set(setup: &TracerSetup, options: &str) -> Vec<String> {
    let workload = if setup.user.is_some() { NO_WORKLOAD } else { WORKLOAD };
    let is_left = |option: &&str| {
        let is_on = !option.starts_with("NO_") && ![WORKLOAD, "DEFAULTS"].contains(option);
        is_on && !setup.options.iter().any(|wanted| wanted == option)
    };
    let needs_workload = setup.user.is_some() || !options.is_empty();
    let off = options.split_whitespace().filter(is_left).map(|option| format!("NO_{option}"));
    needs_workload.then(|| workload.to_owned()).into_iter().chain(off).chain(setup.options.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osnoise_tracers::UserThreadsConfig;

    fn words(setup: &TracerSetup, options: &str) -> Vec<String> {
        of(setup, "0-3", options)
            .into_iter()
            .filter(|setting| setting.file == OPTIONS)
            .map(|setting| setting.value)
            .collect()
    }

    #[test]
    fn options_that_another_run_has_left_are_reset_and_wanted_ones_stay() {
        let mut setup = TracerSetup::new(Tracer::Timerlat);
        let usual = "DEFAULTS OSNOISE_WORKLOAD NO_PANIC_ON_STOP NO_OSNOISE_PREEMPT_DISABLE NO_OSNOISE_IRQ_DISABLE";
        assert_eq!(words(&setup, usual), ["OSNOISE_WORKLOAD"]);
        let left = "NO_OSNOISE_WORKLOAD PANIC_ON_STOP NO_OSNOISE_PREEMPT_DISABLE OSNOISE_IRQ_DISABLE";
        assert_eq!(words(&setup, left), ["OSNOISE_WORKLOAD", "NO_PANIC_ON_STOP", "NO_OSNOISE_IRQ_DISABLE"]);
        setup.options = vec!["OSNOISE_IRQ_DISABLE".to_owned()];
        setup.user = Some(UserThreadsConfig::default());
        assert_eq!(words(&setup, left), ["NO_OSNOISE_WORKLOAD", "NO_PANIC_ON_STOP", "OSNOISE_IRQ_DISABLE"]);
    }

    #[test]
    fn a_kernel_without_the_file_of_options_gets_only_what_is_requested() {
        let mut setup = TracerSetup::new(Tracer::Osnoise);
        assert!(words(&setup, "").is_empty());
        setup.options = vec!["OSNOISE_IRQ_DISABLE".to_owned()];
        assert_eq!(words(&setup, ""), ["OSNOISE_IRQ_DISABLE"]);
    }
}
