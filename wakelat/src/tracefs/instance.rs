//! An instance of tracefs that is wakelat's own, with what was put into it.

use std::{fs, io, path::PathBuf};

use super::{Owner, TracefsError, TracefsMount};
use crate::hist_trigger::recipe::EventTrigger;

/// An instance, its triggers and its synthetic events. They go when it is closed or dropped, also by a panic; after a
/// SIGKILL they stay until [`super::leftovers::remove`] finds them.
#[derive(Debug)]
pub struct Instance {
    tracefs: TracefsMount,
    name: String,
    /// What was made, in the order of making. It goes in the opposite one: a variable's readers before its owner, the
    /// synthetic event after whatever raises or counts it.
    made: Vec<Made>,
}

#[derive(Clone, Debug)]
enum Made {
    Instance,
    SyntheticEvent(String),
    Trigger(EventTrigger),
}

impl Instance {
    /// Makes the owner's instance.
    ///
    /// # Errors
    /// Where it is there already, or cannot be made.
    pub fn create(tracefs: &TracefsMount, owner: &Owner) -> Result<Self, TracefsError> {
        let name = owner.instance();
        let path = tracefs.root().join("instances").join(&name);
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { tracefs: tracefs.clone(), name, made: vec![Made::Instance] }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(TracefsError::InstanceExists(name)),
            Err(error) => Err(tracefs.failed("making", &PathBuf::from("instances").join(&name), error)),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file of the instance, relative to the root of tracefs.
    pub fn file(&self, file: &str) -> PathBuf {
        PathBuf::from("instances").join(&self.name).join(file)
    }

    /// Writes to a file of the instance: `trace_clock`, `buffer_size_kb`.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn write(&self, file: &str, line: &str) -> Result<(), TracefsError> {
        self.tracefs.append(self.file(file), line)
    }

    /// Reads a file of the instance.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(&self, file: &str) -> Result<String, TracefsError> {
        self.tracefs.read(self.file(file))
    }

    /// Makes a synthetic event: its name, and the fields as `synthetic_events` takes them. Synthetic events belong to
    /// the whole of tracefs, whence the need for a name of one's own.
    ///
    /// # Errors
    /// Where the name is taken, or the kernel refuses it.
    pub fn add_synthetic_event(&mut self, definition: &str) -> Result<(), TracefsError> {
        let name = definition.split([' ', ';']).next().unwrap_or_default();
        let known = self.tracefs.read("synthetic_events").map_err(|error| match error {
            TracefsError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound => TracefsError::NoHistTriggers,
            error => error,
        })?;
        // The kernel refuses a name that is there (EEXIST, `__create_synth_event()`, kernel/trace/trace_events_synth.c, from 5.11).
        // Asked before, for an error that says so, and so that another's event is never taken for one to remove.
        if known.lines().any(|line| line.split([' ', '\t', ';']).next() == Some(name)) {
            return Err(TracefsError::EventExists(name.to_owned()));
        }
        self.tracefs.append("synthetic_events", definition)?;
        self.made.push(Made::SyntheticEvent(name.to_owned()));
        Ok(())
    }

    /// Places a trigger beside those that are there.
    ///
    /// # Errors
    /// Where there is no such event, or the kernel refuses the trigger.
    pub fn add_trigger(&mut self, placed: EventTrigger) -> Result<(), TracefsError> {
        let event = self.file(&format!("events/{}", placed.event));
        if !self.tracefs.root().join(event).exists() {
            return Err(TracefsError::NoEvent(placed.event.replacen('/', ":", 1)));
        }
        self.write(&format!("events/{}/trigger", placed.event), &placed.trigger)?;
        self.made.push(Made::Trigger(placed));
        Ok(())
    }

    /// Takes everything away, the instance too. All is tried, and tried again at the next call where it failed.
    ///
    /// # Errors
    /// The first that came up.
    pub fn close(&mut self) -> Result<(), TracefsError> {
        let mut result = Ok(());
        let mut left = Vec::new();
        for made in std::mem::take(&mut self.made).into_iter().rev() {
            // An instance that goes before its triggers may leave the synthetic event busy for good, as seen on 6.1 to 7.2:
            // nobody gives back their hold on it, and `destroy_synth_event()` (kernel/trace/trace_events_synth.c) refuses one
            // that is held.
            let blocked = matches!(made, Made::Instance) && left.iter().any(|made| matches!(made, Made::Trigger(_)));
            match if blocked { Ok(()) } else { self.unmake(&made) } {
                Ok(()) if !blocked => {}
                Ok(()) => left.push(made),
                Err(error) => {
                    left.push(made);
                    result = result.and(Err(error));
                }
            }
        }
        left.reverse();
        self.made = left;
        result
    }

    fn unmake(&self, made: &Made) -> Result<(), TracefsError> {
        match made {
            Made::Trigger(EventTrigger { event, trigger }) => {
                self.write(&format!("events/{event}/trigger"), &format!("!{trigger}"))
            }
            Made::SyntheticEvent(name) => self.tracefs.append("synthetic_events", &format!("!{name}")),
            Made::Instance => {
                let path = self.tracefs.root().join("instances").join(&self.name);
                fs::remove_dir(&path).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(self.tracefs.failed("removing", &PathBuf::from("instances").join(&self.name), error)),
                })
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            log::warn!("left behind in tracefs: {error}; the next run removes it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { pid: 1, start_ticks: 2, namespace: None };

    /// A directory that stands for tracefs, as far as plain files can.
    fn tracefs() -> (tempfile::TempDir, TracefsMount) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("instances")).unwrap();
        fs::write(directory.path().join("synthetic_events"), "foreign u64 x\n").unwrap();
        let tracefs = TracefsMount::at(directory.path());
        (directory, tracefs)
    }

    #[test]
    fn a_name_taken_is_an_error_and_the_other_stays() {
        let (directory, tracefs) = tracefs();
        let taken = directory.path().join("instances").join(OWNER.instance());
        fs::create_dir(&taken).unwrap();
        assert!(matches!(Instance::create(&tracefs, &OWNER), Err(TracefsError::InstanceExists(_))));
        assert!(taken.exists());
    }

    #[test]
    fn a_synthetic_event_that_is_there_is_not_taken_over() {
        let (_directory, tracefs) = tracefs();
        let mut instance = Instance::create(&tracefs, &OWNER).unwrap();
        assert!(matches!(instance.add_synthetic_event("foreign u64 x"), Err(TracefsError::EventExists(_))));
        instance.close().unwrap();
        assert_eq!(tracefs.read("synthetic_events").unwrap(), "foreign u64 x\n");
    }

    #[test]
    fn closing_takes_away_the_last_first_and_is_idempotent() {
        let (directory, tracefs) = tracefs();
        let mut instance = Instance::create(&tracefs, &OWNER).unwrap();
        instance.add_synthetic_event("wakelat_1_2 u64 lat").unwrap();
        instance.close().unwrap();
        instance.close().unwrap();
        assert_eq!(tracefs.read("synthetic_events").unwrap(), "foreign u64 x\nwakelat_1_2 u64 lat\n!wakelat_1_2\n");
        assert!(!directory.path().join("instances").join(OWNER.instance()).exists());
        drop(instance);
        assert_eq!(tracefs.read("synthetic_events").unwrap().matches('!').count(), 1);
    }

    #[test]
    fn a_panic_leaves_nothing_behind() {
        let (directory, tracefs) = tracefs();
        let result = std::panic::catch_unwind(|| {
            let _instance = Instance::create(&tracefs, &OWNER).unwrap();
            panic!("in the middle");
        });
        assert!(result.is_err());
        assert_eq!(fs::read_dir(directory.path().join("instances")).unwrap().count(), 0);
    }

    #[test]
    fn an_event_that_is_not_there_is_named() {
        let (_directory, tracefs) = tracefs();
        let mut instance = Instance::create(&tracefs, &OWNER).unwrap();
        let placed = EventTrigger { event: "sched/sched_nothing".into(), trigger: "hist:keys=pid".into() };
        let error = instance.add_trigger(placed).unwrap_err();
        assert!(matches!(&error, TracefsError::NoEvent(event) if event == "sched:sched_nothing"), "{error}");
    }
}
