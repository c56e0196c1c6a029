//! The tracer in a tracefs instance of its own: sets it up, starts it, stops it, and restores everything.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::{
    osnoise_files::{self, Setting},
    saved_settings::{self, SavedSettings},
};
use crate::{
    Instance, Owner, TracefsError, TracefsMount, leftovers,
    osnoise_tracers::{Tracer, TracerEvents, TracerSetup},
};
use wakelat_kernel::{Roots, cpus::Cpus};

/// A tracer that is set up. Dropping it removes the instance and restores the settings.
pub struct TracerSession {
    /// First, because fields are dropped in this order: the tracer must not run when the settings change.
    instance: Instance,
    saved_settings: SavedSettings,
    tracer: Tracer,
    closed: bool,
}

impl TracerSession {
    /// Sets up the tracer in an instance of its own, without starting it. [`clean_up`] comes first: what a
    /// killed run has left may be in the way.
    ///
    /// # Errors
    ///
    /// Fails if the kernel has no such tracer, if the tracer is already in use, or if the kernel rejects a
    /// setting.
    pub fn set_up(setup: &TracerSetup, tracefs: &TracefsMount, roots: &Roots) -> Result<Self> {
        let proc = &roots.proc;
        require_tracer(tracefs, setup.tracer)?;
        require_idle(tracefs)?;
        let owner = Owner::this(proc).context("cannot identify this process")?;
        let instance = Instance::create(tracefs, &owner)?;
        let saved = SavedSettings::new(tracefs, Path::new(saved_settings::STATE_DIR), &owner);
        let mut session = Self { instance, saved_settings: saved, tracer: setup.tracer, closed: false };
        let online = Cpus::read(&roots.sys, "online")?.to_string();
        // Kernels before 6.1 do not have this file.
        let options = tracefs.read(osnoise_files::OPTIONS).unwrap_or_default();
        session.set_all(tracefs, &osnoise_files::of(setup, &online, &options))?;
        session.instance.write("trace_clock", "mono")?;
        session.instance.write("tracing_on", "0")?;
        Ok(session)
    }

    fn set_all(&mut self, tracefs: &TracefsMount, settings: &[Setting]) -> Result<()> {
        for setting in settings {
            self.saved_settings.remember(setting.file)?;
        }
        let mut rejected: Vec<(&Setting, TracefsError)> = Vec::new();
        for setting in settings {
            if let Err(error) = set(tracefs, setting) {
                rejected.push((setting, error));
            }
        }
        // Retry, now that the others are set: a runtime may be valid only with the new period, or a period
        // with the new runtime.
        for (setting, _) in rejected {
            let Setting { file, value, flag, accepted } = setting;
            set(tracefs, setting)
                .with_context(|| format!("`{flag}`: the kernel rejects `{value}` in `{file}`; {accepted}"))?;
        }
        self.saved_settings.record_applied()
    }

    /// The directory of the instance.
    pub fn directory(&self, tracefs: &TracefsMount) -> PathBuf {
        tracefs.root().join(self.instance.file(""))
    }

    /// Enables events in the buffer of the instance, in addition to the samples.
    pub fn enable_events(&self, events: TracerEvents) -> Result<()> {
        events.names().try_for_each(|event| Ok(self.instance.write(&format!("events/osnoise/{event}/enable"), "1")?))
    }

    /// Starts the threads of the tracer. They measure from now on, but nothing is recorded yet.
    pub fn start(&self) -> Result<()> {
        let name = self.tracer.name();
        self.instance.write("current_tracer", name).with_context(|| format!("cannot start the tracer `{name}`"))
    }

    /// Starts recording.
    pub fn record(&self) -> Result<()> {
        Ok(self.instance.write("tracing_on", "1")?)
    }

    /// Whether the tracer is recording. A threshold, or another process, may have stopped it.
    pub fn is_recording(&self) -> Result<bool> {
        Ok(self.instance.read("tracing_on")?.trim() != "0")
    }

    /// Stops recording.
    pub fn pause(&self) -> Result<()> {
        Ok(self.instance.write("tracing_on", "0")?)
    }

    /// Stops the tracer, and restores everything.
    ///
    /// # Errors
    ///
    /// Returns the first error, after trying all steps.
    pub fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let stopped = self.instance.write("current_tracer", "nop");
        let closed = self.instance.close();
        let restored = self.saved_settings.restore();
        Ok(stopped.and(closed).and(restored)?)
    }
}

impl Drop for TracerSession {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            log::warn!("{error:#}");
        }
    }
}

fn set(tracefs: &TracefsMount, Setting { file, value, .. }: &Setting) -> Result<(), TracefsError> {
    if tracefs.read(file)?.trim_end() == value { Ok(()) } else { saved_settings::set(tracefs, file, value) }
}

/// Removes what killed runs have left, the instances before the settings. Returns what was removed and restored,
/// as messages.
pub fn clean_up(tracefs: &TracefsMount, proc: &Path) -> Vec<String> {
    let mut done = Vec::new();
    for (leftover, removed) in leftovers::remove(tracefs, proc) {
        match removed {
            Ok(()) => done.push(format!("removed the {leftover}")),
            Err(error) => log::warn!("cannot remove the {leftover}: {error}"),
        }
    }
    for (owner, restored) in saved_settings::restore_leftovers(tracefs, Path::new(saved_settings::STATE_DIR), proc) {
        match restored {
            Ok(files) if files.is_empty() => {}
            Ok(files) => done.push(format!(
                "restored `{}`, which process {} had changed before it was killed",
                files.join("`, `"),
                owner.pid
            )),
            Err(error) => log::warn!("cannot restore what process {} changed: {error}", owner.pid),
        }
    }
    done
}

fn require_tracer(tracefs: &TracefsMount, tracer: Tracer) -> Result<()> {
    let (name, option) = (tracer.name(), tracer.option());
    let available = tracefs.read("available_tracers")?;
    if !available.split_whitespace().any(|other| other == name) {
        bail!("this kernel has no tracer `{name}`; use one built with `{option}=y`, such as Debian's `-rt` kernels");
    }
    Ok(())
}

/// Fails if a tracer is already in use. The settings apply to the whole machine, so two runs would spoil
/// each other's results.
fn require_idle(tracefs: &TracefsMount) -> Result<()> {
    let instances = std::fs::read_dir(tracefs.root().join("instances")).into_iter().flatten().flatten();
    let names = instances.filter_map(|entry| entry.file_name().into_string().ok());
    let files = names.map(|name| format!("instances/{name}/current_tracer"));
    for file in std::iter::once("current_tracer".to_owned()).chain(files) {
        let current = tracefs.read(&file).unwrap_or_default();
        let current = current.trim();
        if Tracer::ALL.iter().any(|tracer| tracer.name() == current) {
            let path = tracefs.root().join(&file);
            bail!(
                "the tracer `{current}` is already running in `{}`, and its settings apply to the whole machine; end that \
                 run, or stop it with `echo nop > {}`",
                path.display(),
                path.display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_kernel_without_the_tracer_is_an_error_that_names_the_option() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("available_tracers"), "function nop\n").unwrap();
        let error = require_tracer(&TracefsMount::at(directory.path()), Tracer::Timerlat).unwrap_err().to_string();
        assert!(error.contains("CONFIG_TIMERLAT_TRACER"), "{error}");
    }

    #[test]
    fn a_tracer_that_is_already_running_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let tracefs = TracefsMount::at(directory.path());
        fs::write(directory.path().join("current_tracer"), "nop\n").unwrap();
        let instance = directory.path().join("instances/rtla");
        fs::create_dir_all(&instance).unwrap();
        fs::write(instance.join("current_tracer"), "nop\n").unwrap();
        require_idle(&tracefs).unwrap();
        fs::write(instance.join("current_tracer"), "osnoise\n").unwrap();
        let error = require_idle(&tracefs).unwrap_err().to_string();
        assert!(error.contains("instances/rtla/current_tracer"), "{error}");
    }
}
