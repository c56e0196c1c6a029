//! Saves and restores the settings of the tracers: `osnoise/*` applies to the whole machine, whatever the
//! instance.
//!
//! While a run changes them, a state file below `/run` has their previous values. If the run is killed, the
//! next run finds the file, and restores the settings that nothing else has changed since.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::osnoise_files::OPTIONS;
use crate::{Owner, TracefsError, TracefsMount};

/// The directory of state files, on every Linux that follows the Filesystem Hierarchy Standard 3.0. It is
/// emptied at boot, when the settings are reset, too.
pub const STATE_DIR: &str = "/run/wakelat";

/// Settings that need care when they are restored: the runtime has to be within the period at all times,
/// and options are written one by one.
const RUNTIME: &str = "osnoise/runtime_us";
const PERIOD: &str = "osnoise/period_us";

/// A saved setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedSetting {
    /// The value before the run.
    before: String,
    /// The value after the run had set it, as the kernel reports it. `None` until that is known.
    applied: Option<String>,
}

/// The settings that a run has changed. Dropping this restores them.
#[derive(Debug)]
pub struct SavedSettings {
    tracefs: TracefsMount,
    state_file: PathBuf,
    settings: BTreeMap<String, SavedSetting>,
}

/// Why the state file could not be written.
#[derive(Debug)]
pub struct StateFileError {
    path: PathBuf,
    error: io::Error,
}

impl std::fmt::Display for StateFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        write!(f, "cannot save the tracer's settings to `{path}` for restoring them: {}", self.error)
    }
}

impl std::error::Error for StateFileError {}

impl SavedSettings {
    /// Creates an empty set of settings.
    pub fn new(tracefs: &TracefsMount, state_dir: &Path, owner: &Owner) -> Self {
        let state_file = state_dir.join(owner.instance());
        Self { tracefs: tracefs.clone(), state_file, settings: BTreeMap::new() }
    }

    /// Saves the current value of `file`, before it is changed for the first time.
    pub fn remember(&mut self, file: &str) -> anyhow::Result<()> {
        if !self.settings.contains_key(file) {
            let before = self.tracefs.read(file)?.trim_end().to_owned();
            self.settings.insert(file.to_owned(), SavedSetting { before, applied: None });
            self.write_state_file()?;
        }
        Ok(())
    }

    /// Reads the values of all settings once the run has set them, to recognize later changes by others.
    pub fn record_applied(&mut self) -> anyhow::Result<()> {
        for (file, setting) in &mut self.settings {
            setting.applied = Some(self.tracefs.read(file)?.trim_end().to_owned());
        }
        Ok(self.write_state_file()?)
    }

    /// Restores all settings that still have the value that this run set, and removes the state file.
    ///
    /// # Errors
    ///
    /// Returns the first error, after trying to restore all settings.
    pub fn restore(&mut self) -> Result<(), TracefsError> {
        let settings = std::mem::take(&mut self.settings);
        if settings.is_empty() {
            return Ok(());
        }
        restore_settings(&self.tracefs, &settings).map(|_| ())?;
        // A state file without settings would do no harm.
        _ = fs::remove_file(&self.state_file);
        Ok(())
    }

    fn write_state_file(&self) -> Result<(), StateFileError> {
        let failed = |error| StateFileError { path: self.state_file.clone(), error };
        let directory = self.state_file.parent().unwrap_or(Path::new(STATE_DIR));
        fs::create_dir_all(directory).map_err(failed)?;
        let text = serde_json::to_vec_pretty(&self.settings).map_err(io::Error::other).map_err(failed)?;
        // Replaced atomically, so that a run that is killed here leaves either the old or the new file. The
        // new name is not that of an owner.
        let next = self.state_file.with_extension("new");
        fs::write(&next, text).and_then(|()| fs::rename(&next, &self.state_file)).map_err(failed)
    }
}

impl Drop for SavedSettings {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            log::warn!("cannot restore tracefs: {error}; the next run tries again");
        }
    }
}

/// Restores the settings that killed runs left changed. Returns, for each run, the settings that were
/// restored, or an error.
pub fn restore_leftovers(
    tracefs: &TracefsMount,
    state_dir: &Path,
    proc: &Path,
) -> Vec<(Owner, Result<Vec<String>, String>)> {
    let gone = |entry: fs::DirEntry| {
        let owner = Owner::of(entry.file_name().to_str()?)?;
        (owner.is_gone(proc) == Some(true)).then(|| (owner, entry.path()))
    };
    let entries = fs::read_dir(state_dir).into_iter().flatten().flatten();
    entries.filter_map(gone).map(|(owner, file)| (owner, restore_state_file(tracefs, &file))).collect()
}

/// The killed processes whose settings are still in force.
pub fn leftovers(state_dir: &Path, proc: &Path) -> Vec<Owner> {
    let names = fs::read_dir(state_dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let owners = names.filter_map(|name| Owner::of(name.to_str()?));
    owners.filter(|owner| owner.is_gone(proc) == Some(true)).collect()
}

fn restore_state_file(tracefs: &TracefsMount, file: &Path) -> Result<Vec<String>, String> {
    let text = fs::read(file).map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
    let settings: BTreeMap<String, SavedSetting> =
        serde_json::from_slice(&text).map_err(|error| format!("cannot parse `{}`: {error}", file.display()))?;
    let restored = restore_settings(tracefs, &settings).map_err(|error| error.to_string())?;
    fs::remove_file(file).map_err(|error| format!("cannot remove `{}`: {error}", file.display()))?;
    Ok(restored)
}

/// Restores the settings that still have the value that was set. Returns their names.
fn restore_settings(
    tracefs: &TracefsMount,
    settings: &BTreeMap<String, SavedSetting>,
) -> Result<Vec<String>, TracefsError> {
    let mut result = Ok(());
    let mut restored = Vec::new();
    let changed = |file: &str, setting: &SavedSetting| {
        let now = tracefs.read(file).unwrap_or_default().trim_end().to_owned();
        now != setting.before && setting.applied.as_ref().is_none_or(|ours| *ours == now)
    };
    let mut files: Vec<&String> = settings.keys().collect();
    files.sort_by_key(|file| file.as_str() == PERIOD && !period_goes_first(tracefs, settings));
    for file in files {
        let setting = &settings[file];
        if !changed(file, setting) {
            continue;
        }
        match set(tracefs, file, &setting.before) {
            Ok(()) => restored.push(file.clone()),
            Err(error) => result = result.and(Err(error)),
        }
    }
    result.map(|()| restored)
}

/// Whether to restore the period before the runtime. The kernel requires the runtime to be within the
/// period at all times.
fn period_goes_first(tracefs: &TracefsMount, settings: &BTreeMap<String, SavedSetting>) -> bool {
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or(0);
    let runtime = number(&tracefs.read(RUNTIME).unwrap_or_default());
    settings.get(PERIOD).is_none_or(|period| number(&period.before) >= runtime)
}

/// Writes a setting in the format of [`TracefsMount::read`]. `options` takes one word at a time, and
/// options that are already set are not written.
pub fn set(tracefs: &TracefsMount, file: &str, value: &str) -> Result<(), TracefsError> {
    if file != OPTIONS {
        // An empty list of CPUs means all CPUs, but the file does not accept an empty list.
        return if value.is_empty() { Ok(()) } else { tracefs.append(file, value) };
    }
    let now = tracefs.read(OPTIONS)?;
    let missing = value.split_whitespace().filter(|word| !now.split_whitespace().any(|other| other == *word));
    // `DEFAULTS` resets all other options, and is shown if nothing has been changed.
    missing.filter(|word| *word != "DEFAULTS").try_for_each(|word| tracefs.append(OPTIONS, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> (tempfile::TempDir, TracefsMount, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("osnoise")).unwrap();
        for (file, value) in [("cpus", "0-3\n"), ("stop_tracing_us", "0\n")] {
            fs::write(directory.path().join("osnoise").join(file), value).unwrap();
        }
        let tracefs = TracefsMount::at(directory.path());
        let state_dir = directory.path().join("run");
        (directory, tracefs, state_dir)
    }

    /// Replaces the content of a file, as the kernel does; [`set`] would append to an ordinary file.
    fn set_file(tracefs: &TracefsMount, file: &str, value: &str) {
        fs::write(tracefs.root().join(file), value).unwrap();
    }

    fn last_line(tracefs: &TracefsMount, file: &str) -> String {
        tracefs.read(file).unwrap().lines().last().unwrap_or_default().to_owned()
    }

    #[test]
    fn changed_settings_are_restored_and_the_state_file_is_removed() {
        let (_directory, tracefs, state_dir) = machine();
        let owner = Owner::this(Path::new("/proc")).unwrap();
        let mut saved = SavedSettings::new(&tracefs, &state_dir, &owner);
        saved.remember("osnoise/cpus").unwrap();
        set_file(&tracefs, "osnoise/cpus", "2\n");
        saved.record_applied().unwrap();
        assert!(state_dir.join(owner.instance()).exists());
        drop(saved);
        assert_eq!(last_line(&tracefs, "osnoise/cpus"), "0-3");
        assert_eq!(fs::read_dir(&state_dir).unwrap().count(), 0);
    }

    #[test]
    fn settings_that_others_have_changed_since_are_kept() {
        let (_directory, tracefs, state_dir) = machine();
        let mut saved = SavedSettings::new(&tracefs, &state_dir, &Owner::this(Path::new("/proc")).unwrap());
        saved.remember("osnoise/cpus").unwrap();
        set_file(&tracefs, "osnoise/cpus", "2\n");
        saved.record_applied().unwrap();
        set_file(&tracefs, "osnoise/cpus", "1\n");
        saved.restore().unwrap();
        assert_eq!(tracefs.read("osnoise/cpus").unwrap(), "1\n");
    }

    #[test]
    fn only_the_state_file_of_a_killed_run_is_restored() {
        let (_directory, tracefs, state_dir) = machine();
        let living = Owner::this(Path::new("/proc")).unwrap();
        let dead = Owner { start_ticks: living.start_ticks + 1, ..living };
        for (owner, file) in [(&living, "osnoise/stop_tracing_us"), (&dead, "osnoise/cpus")] {
            let mut saved = SavedSettings::new(&tracefs, &state_dir, owner);
            saved.remember(file).unwrap();
            set_file(&tracefs, file, "2\n");
            // Simulates a killed process: nothing is dropped.
            std::mem::forget(saved);
        }
        let restored = restore_leftovers(&tracefs, &state_dir, Path::new("/proc"));
        assert_eq!(restored, [(dead, Ok(vec!["osnoise/cpus".to_owned()]))]);
        assert_eq!(last_line(&tracefs, "osnoise/cpus"), "0-3");
        assert_eq!(last_line(&tracefs, "osnoise/stop_tracing_us"), "2");
        assert!(leftovers(&state_dir, Path::new("/proc")).is_empty());
    }

    #[test]
    fn options_are_restored_one_by_one() {
        let (_directory, tracefs, _) = machine();
        set_file(&tracefs, OPTIONS, "NO_OSNOISE_WORKLOAD NO_PANIC_ON_STOP");
        fs::write(tracefs.root().join(OPTIONS), "NO_OSNOISE_WORKLOAD NO_PANIC_ON_STOP\n").unwrap();
        set(&tracefs, OPTIONS, "DEFAULTS OSNOISE_WORKLOAD NO_PANIC_ON_STOP").unwrap();
        assert_eq!(tracefs.read(OPTIONS).unwrap(), "NO_OSNOISE_WORKLOAD NO_PANIC_ON_STOP\nOSNOISE_WORKLOAD\n");
    }
}
