//! The tracer in an instance of its own: set, started, stopped, and everything as it was afterwards.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::{
    former::{self, SavedSettings},
    settings::{self, Setting},
};
use crate::{
    config::{Tracer, TracerConfig, TracerEvents},
    kernel::{Roots, cpus::Cpus},
    say::status,
    tracefs::{Instance, Owner, TracefsError, TracefsMount, leftovers},
};

/// A tracer that is set up, and runs or not. Dropped, it is gone and its settings are as they were.
pub struct TracerSession {
    /// First, as fields are dropped in this order: no tracer runs when settings change.
    instance: Instance,
    saved_settings: SavedSettings,
    tracer: Tracer,
    closed: bool,
}

impl TracerSession {
    /// Sets the tracer up in an instance of its own; it does not run yet. What killed runs have left is removed first, and
    /// said.
    ///
    /// # Errors
    /// Where this kernel has no such tracer, somebody uses it, or the kernel refuses a setting.
    pub fn set_up(config: &TracerConfig, tracefs: &TracefsMount, roots: &Roots) -> Result<Self> {
        let proc = &roots.proc;
        clean_up(tracefs, Path::new(former::STATE_DIR), proc);
        require_tracer(tracefs, config.tracer)?;
        require_idle(tracefs)?;
        let owner = Owner::this(proc).context("cannot tell this process from others")?;
        let instance = Instance::create(tracefs, &owner)?;
        let former = SavedSettings::new(tracefs, Path::new(former::STATE_DIR), &owner);
        let mut session = Self { instance, saved_settings: former, tracer: config.tracer, closed: false };
        let online = Cpus::read(&roots.sys, "online")?.to_string();
        session.set_all(tracefs, &settings::of(config, &online))?;
        session.instance.write("trace_clock", "mono")?;
        session.instance.write("tracing_on", "0")?;
        Ok(session)
    }

    fn set_all(&mut self, tracefs: &TracefsMount, settings: &[Setting]) -> Result<()> {
        for setting in settings {
            self.saved_settings.remember(setting.file)?;
        }
        let mut refused: Vec<(&Setting, TracefsError)> = Vec::new();
        for setting in settings {
            if let Err(error) = set(tracefs, setting) {
                refused.push((setting, error));
            }
        }
        // Once more, now that the others are set: of a runtime and a period the one may have to wait for the other.
        for (setting, _) in refused {
            let Setting { file, value, flag, accepted } = setting;
            set(tracefs, setting)
                .with_context(|| format!("`{flag}`: the kernel refuses `{value}` in `{file}`; {accepted}"))?;
        }
        self.saved_settings.record_applied()
    }

    /// The instance's directory.
    pub fn directory(&self, tracefs: &TracefsMount) -> PathBuf {
        tracefs.root().join(self.instance.file(""))
    }

    /// Has the kernel record this in the instance's buffer, beside the samples.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn enable_events(&self, events: TracerEvents) -> Result<()> {
        events.names().try_for_each(|event| Ok(self.instance.write(&format!("events/osnoise/{event}/enable"), "1")?))
    }

    /// Starts the tracer's threads, which measure from now on, but record nothing yet.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn start(&self) -> Result<()> {
        let name = self.tracer.name();
        self.instance.write("current_tracer", name).with_context(|| format!("cannot start the tracer `{name}`"))
    }

    /// Records from now on.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn record(&self) -> Result<()> {
        Ok(self.instance.write("tracing_on", "1")?)
    }

    /// Whether it records: a threshold, or somebody else, may have stopped it.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn is_recording(&self) -> Result<bool> {
        Ok(self.instance.read("tracing_on")?.trim() != "0")
    }

    /// Records nothing any more.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn pause(&self) -> Result<()> {
        Ok(self.instance.write("tracing_on", "0")?)
    }

    /// Ends the tracer, and puts everything back.
    ///
    /// # Errors
    /// The first that came up; all is tried.
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
    if tracefs.read(file)?.trim_end() == value { Ok(()) } else { former::set(tracefs, file, value) }
}

/// Removes what killed runs have left, the instances before the settings, and says so.
fn clean_up(tracefs: &TracefsMount, notes: &Path, proc: &Path) {
    for (leftover, removed) in leftovers::remove(tracefs, proc) {
        match removed {
            Ok(()) => status(format_args!("removed the {leftover}")),
            Err(error) => log::warn!("cannot remove the {leftover}: {error}"),
        }
    }
    for (owner, restored) in former::restore_leftovers(tracefs, notes, proc) {
        match restored {
            Ok(files) if files.is_empty() => {}
            Ok(files) => status(format_args!(
                "put back `{}`, which process {} had changed and left, being killed",
                files.join("`, `"),
                owner.pid
            )),
            Err(error) => log::warn!("cannot put back what process {} has changed: {error}", owner.pid),
        }
    }
}

fn require_tracer(tracefs: &TracefsMount, tracer: Tracer) -> Result<()> {
    let (name, option) = (tracer.name(), tracer.option());
    let available = tracefs.read("available_tracers")?;
    if !available.split_whitespace().any(|other| other == name) {
        bail!("this kernel has no tracer `{name}`; it takes one with `{option}=y`, such as Debian's `-rt` kernels");
    }
    Ok(())
}

/// The settings are one for the whole machine: two runs would spoil each other's figures.
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
                "the tracer `{current}` runs already, in `{}`, and its settings are one for the whole machine; end that \
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
    fn a_kernel_without_the_tracer_says_what_it_takes() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("available_tracers"), "function nop\n").unwrap();
        let error = require_tracer(&TracefsMount::at(directory.path()), Tracer::Timerlat).unwrap_err().to_string();
        assert!(error.contains("CONFIG_TIMERLAT_TRACER"), "{error}");
    }

    #[test]
    fn a_tracer_that_runs_elsewhere_is_left_alone() {
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
