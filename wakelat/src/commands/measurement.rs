//! Runs a measurement: checks that this machine can measure, prepares it, and starts the session.

use anyhow::Result;

use crate::{
    config::{Config, OutputConfig, Resources},
    session::{self, Environment, StopReason, View},
    status::status,
};
use wakelat_core::report::Mode;
use wakelat_kernel::{Features, privilege};

/// Measures as `config` says, and passes the results to `view`.
///
/// # Errors
/// Errors of [`prepare`] and [`session::run`].
pub fn measure(config: &Config, view: &mut dyn View) -> Result<StopReason> {
    session::run(config, &prepare(config)?, view)
}

/// Prepares the machine for a run, and checks that it can measure.
///
/// # Errors
/// Errors of [`prepare_machine`], or if the filter or a key needs more than classic tracepoints record.
pub fn prepare(config: &Config) -> Result<Environment> {
    let features = prepare_machine(&config.resources, config.mode, &config.output, &config.notes)?;
    if features.uses_classic_tracepoints(config.resources.attach) {
        config.check_classic_tracepoints()?;
    }
    Ok(Environment::new(features))
}

/// Checks that this kernel and this user can measure in `mode`, prints the notes on the settings, and raises the limit
/// of locked memory. Returns what the kernel offers.
///
/// # Errors
/// If they cannot measure, or the limit cannot be raised.
pub fn prepare_machine(resources: &Resources, mode: Mode, output: &OutputConfig, notes: &[String]) -> Result<Features> {
    let features = Features::detect(resources.btf.as_deref());
    features.check_can_measure(resources.attach, resources.rt_priority, mode)?;
    if !output.quiet {
        notes.iter().for_each(status);
    }
    privilege::raise_memory_limit(&features.release)?;
    Ok(features)
}
