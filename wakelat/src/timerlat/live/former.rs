//! What the tracers' settings were before: `osnoise/*` is one for the whole machine, whatever the instance.
//!
//! A note of them is kept below `/run` while they are ours. Whoever starts next finds the note of a killed run, and puts
//! back what that run had changed and nobody has changed since.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::tracefs::{Owner, TracefsError, TracefsMount};

/// Where notes are, on every Linux that follows the Filesystem Hierarchy Standard 3.0: emptied at boot, as the settings
/// are.
pub const STATE_DIR: &str = "/run/wakelat";

/// The settings, in the order of putting them back, but for those of which the kernel wants one to be within the other.
const RUNTIME: &str = "osnoise/runtime_us";
const PERIOD: &str = "osnoise/period_us";
const OPTIONS: &str = "osnoise/options";

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedSetting {
    /// What it was.
    before: String,
    /// What it was after this run had set it, as the kernel says it; none while that is not known.
    ours: Option<String>,
}

/// The settings that a run has changed. Dropped, they are as they were.
#[derive(Debug)]
pub struct SavedSettings {
    tracefs: TracefsMount,
    state_file: PathBuf,
    settings: BTreeMap<String, SavedSetting>,
}

/// Why the settings could not be remembered.
#[derive(Debug)]
pub struct StateFileError {
    path: PathBuf,
    error: io::Error,
}

impl std::fmt::Display for StateFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        write!(f, "cannot note in `{path}` what the tracer's settings were, to put them back: {}", self.error)
    }
}

impl std::error::Error for StateFileError {}

impl SavedSettings {
    /// Nothing has been changed yet.
    pub fn new(tracefs: &TracefsMount, notes: &Path, owner: &Owner) -> Self {
        let state_file = notes.join(owner.instance());
        Self { tracefs: tracefs.clone(), state_file, settings: BTreeMap::new() }
    }

    /// Remembers what `file` says now, before it is changed for the first time.
    ///
    /// # Errors
    /// Where it cannot be read, or no note of it be kept.
    pub fn remember(&mut self, file: &str) -> anyhow::Result<()> {
        if !self.settings.contains_key(file) {
            let before = self.tracefs.read(file)?.trim_end().to_owned();
            self.settings.insert(file.to_owned(), SavedSetting { before, ours: None });
            self.write_state_file()?;
        }
        Ok(())
    }

    /// All is set: from now on, what others change is theirs.
    ///
    /// # Errors
    /// Where a setting cannot be read, or no note be kept.
    pub fn record_applied(&mut self) -> anyhow::Result<()> {
        for (file, setting) in &mut self.settings {
            setting.ours = Some(self.tracefs.read(file)?.trim_end().to_owned());
        }
        Ok(self.write_state_file()?)
    }

    /// Puts all back that is still as this run has set it, and takes the note away.
    ///
    /// # Errors
    /// The first that came up; all is tried.
    pub fn restore(&mut self) -> Result<(), TracefsError> {
        let settings = std::mem::take(&mut self.settings);
        if settings.is_empty() {
            return Ok(());
        }
        restore_settings(&self.tracefs, &settings).map(|_| ())?;
        // A note without settings would do no harm.
        _ = fs::remove_file(&self.state_file);
        Ok(())
    }

    fn write_state_file(&self) -> Result<(), StateFileError> {
        let failed = |error| StateFileError { path: self.state_file.clone(), error };
        let directory = self.state_file.parent().unwrap_or(Path::new(STATE_DIR));
        fs::create_dir_all(directory).map_err(failed)?;
        let text = serde_json::to_vec_pretty(&self.settings).map_err(io::Error::other).map_err(failed)?;
        // In one piece, so that a run that is killed meanwhile leaves the one or the other. The name is no owner's.
        let next = self.state_file.with_extension("new");
        fs::write(&next, text).and_then(|()| fs::rename(&next, &self.state_file)).map_err(failed)
    }
}

impl Drop for SavedSettings {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            log::warn!("left changed in tracefs: {error}; the next run puts it back");
        }
    }
}

/// Puts back what killed runs have left changed; says of each run which settings that were, or why it did not work.
pub fn restore_leftovers(
    tracefs: &TracefsMount,
    notes: &Path,
    proc: &Path,
) -> Vec<(Owner, Result<Vec<String>, String>)> {
    let gone = |entry: fs::DirEntry| {
        let owner = Owner::of(entry.file_name().to_str()?)?;
        (owner.is_gone(proc) == Some(true)).then(|| (owner, entry.path()))
    };
    let entries = fs::read_dir(notes).into_iter().flatten().flatten();
    entries.filter_map(gone).map(|(owner, note)| (owner, restore_state_file(tracefs, &note))).collect()
}

/// The processes that were killed and whose settings are still in force.
pub fn leftovers(notes: &Path, proc: &Path) -> Vec<Owner> {
    let names = fs::read_dir(notes).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let owners = names.filter_map(|name| Owner::of(name.to_str()?));
    owners.filter(|owner| owner.is_gone(proc) == Some(true)).collect()
}

fn restore_state_file(tracefs: &TracefsMount, note: &Path) -> Result<Vec<String>, String> {
    let text = fs::read(note).map_err(|error| format!("cannot read `{}`: {error}", note.display()))?;
    let settings: BTreeMap<String, SavedSetting> =
        serde_json::from_slice(&text).map_err(|error| format!("cannot understand `{}`: {error}", note.display()))?;
    let restored = restore_settings(tracefs, &settings).map_err(|error| error.to_string())?;
    fs::remove_file(note).map_err(|error| format!("cannot remove `{}`: {error}", note.display()))?;
    Ok(restored)
}

/// Puts back what is still as it was set; says what that was.
fn restore_settings(
    tracefs: &TracefsMount,
    settings: &BTreeMap<String, SavedSetting>,
) -> Result<Vec<String>, TracefsError> {
    let mut result = Ok(());
    let mut restored = Vec::new();
    let changed = |file: &str, setting: &SavedSetting| {
        let now = tracefs.read(file).unwrap_or_default().trim_end().to_owned();
        now != setting.before && setting.ours.as_ref().is_none_or(|ours| *ours == now)
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

/// The kernel wants the runtime to be within the period at any time.
fn period_goes_first(tracefs: &TracefsMount, settings: &BTreeMap<String, SavedSetting>) -> bool {
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or(0);
    let runtime = number(&tracefs.read(RUNTIME).unwrap_or_default());
    settings.get(PERIOD).is_none_or(|period| number(&period.before) >= runtime)
}

/// Writes a setting as [`TracefsMount::read`] gives it: `options` takes one word at a time, and what is as it should be is not
/// touched.
pub fn set(tracefs: &TracefsMount, file: &str, value: &str) -> Result<(), TracefsError> {
    if file != OPTIONS {
        // Nothing at all is all CPUs to nobody: the file takes no empty list.
        return if value.is_empty() { Ok(()) } else { tracefs.append(file, value) };
    }
    let now = tracefs.read(OPTIONS)?;
    let missing = value.split_whitespace().filter(|word| !now.split_whitespace().any(|other| other == *word));
    // `DEFAULTS` resets the others, and is shown where nothing has been changed.
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
        let notes = directory.path().join("run");
        (directory, tracefs, notes)
    }

    /// A file of the kernel's takes the place of what it said; this one must be told to.
    fn set_file(tracefs: &TracefsMount, file: &str, value: &str) {
        fs::write(tracefs.root().join(file), value).unwrap();
    }

    fn last_line(tracefs: &TracefsMount, file: &str) -> String {
        tracefs.read(file).unwrap().lines().last().unwrap_or_default().to_owned()
    }

    #[test]
    fn what_was_changed_is_put_back_and_the_note_is_gone() {
        let (_directory, tracefs, notes) = machine();
        let owner = Owner::this(Path::new("/proc")).unwrap();
        let mut former = SavedSettings::new(&tracefs, &notes, &owner);
        former.remember("osnoise/cpus").unwrap();
        set_file(&tracefs, "osnoise/cpus", "2\n");
        former.record_applied().unwrap();
        assert!(notes.join(owner.instance()).exists());
        drop(former);
        assert_eq!(last_line(&tracefs, "osnoise/cpus"), "0-3");
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 0);
    }

    #[test]
    fn what_others_have_changed_since_is_theirs() {
        let (_directory, tracefs, notes) = machine();
        let mut former = SavedSettings::new(&tracefs, &notes, &Owner::this(Path::new("/proc")).unwrap());
        former.remember("osnoise/cpus").unwrap();
        set_file(&tracefs, "osnoise/cpus", "2\n");
        former.record_applied().unwrap();
        set_file(&tracefs, "osnoise/cpus", "1\n");
        former.restore().unwrap();
        assert_eq!(tracefs.read("osnoise/cpus").unwrap(), "1\n");
    }

    #[test]
    fn only_a_killed_runs_note_is_carried_out() {
        let (_directory, tracefs, notes) = machine();
        let living = Owner::this(Path::new("/proc")).unwrap();
        let dead = Owner { start_ticks: living.start_ticks + 1, ..living };
        for (owner, file) in [(&living, "osnoise/stop_tracing_us"), (&dead, "osnoise/cpus")] {
            let mut former = SavedSettings::new(&tracefs, &notes, owner);
            former.remember(file).unwrap();
            set_file(&tracefs, file, "2\n");
            // Killed: nothing is dropped.
            std::mem::forget(former);
        }
        let restored = restore_leftovers(&tracefs, &notes, Path::new("/proc"));
        assert_eq!(restored, [(dead, Ok(vec!["osnoise/cpus".to_owned()]))]);
        assert_eq!(last_line(&tracefs, "osnoise/cpus"), "0-3");
        assert_eq!(last_line(&tracefs, "osnoise/stop_tracing_us"), "2");
        assert!(leftovers(&notes, Path::new("/proc")).is_empty());
    }

    #[test]
    fn options_go_back_one_by_one() {
        let (_directory, tracefs, _) = machine();
        set_file(&tracefs, OPTIONS, "NO_OSNOISE_WORKLOAD NO_PANIC_ON_STOP");
        fs::write(tracefs.root().join(OPTIONS), "NO_OSNOISE_WORKLOAD NO_PANIC_ON_STOP\n").unwrap();
        set(&tracefs, OPTIONS, "DEFAULTS OSNOISE_WORKLOAD NO_PANIC_ON_STOP").unwrap();
        assert_eq!(tracefs.read(OPTIONS).unwrap(), "NO_OSNOISE_WORKLOAD NO_PANIC_ON_STOP\nOSNOISE_WORKLOAD\n");
    }
}
