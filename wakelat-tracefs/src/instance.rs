//! A tracefs instance of wakelat's own, with its triggers and synthetic events.

use std::{fs, io, path::PathBuf};

use super::{Owner, TracefsError, TracefsMount};
use crate::hist_trigger::wakeup_latency::EventTrigger;

/// An instance, its triggers and its synthetic events. They are removed when it is closed or dropped, also
/// by a panic. After a SIGKILL they stay until [`super::leftovers::remove`] finds them.
#[derive(Debug)]
pub struct Instance {
    tracefs: TracefsMount,
    name: String,
    /// What was created, in order of creation. Removal is in reverse order: the readers of a variable
    /// before its owner, and the synthetic event after the triggers that fire or count it.
    made: Vec<Made>,
}

#[derive(Clone, Debug)]
enum Made {
    Instance,
    SyntheticEvent(String),
    Trigger(EventTrigger),
}

impl Instance {
    /// Creates the owner's instance.
    ///
    /// # Errors
    /// If the instance already exists or cannot be created.
    pub fn create(tracefs: &TracefsMount, owner: &Owner) -> Result<Self, TracefsError> {
        let name = owner.instance();
        let path = tracefs.root().join("instances").join(&name);
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { tracefs: tracefs.clone(), name, made: vec![Made::Instance] }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(TracefsError::InstanceExists(name)),
            Err(error) => Err(tracefs.failed("creating", &PathBuf::from("instances").join(&name), error)),
        }
    }

    /// The name of the instance.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of a file of the instance, relative to the root of tracefs.
    pub fn file(&self, file: &str) -> PathBuf {
        PathBuf::from("instances").join(&self.name).join(file)
    }

    /// Writes a line to a file of the instance, such as `trace_clock` or `buffer_size_kb`.
    pub fn write(&self, file: &str, line: &str) -> Result<(), TracefsError> {
        self.tracefs.append(self.file(file), line)
    }

    /// Reads a file of the instance.
    pub fn read(&self, file: &str) -> Result<String, TracefsError> {
        self.tracefs.read(self.file(file))
    }

    /// Creates a synthetic event from its name and fields, in the form that `synthetic_events` accepts. The
    /// name must be unique, because synthetic events are global, not per instance.
    ///
    /// # Errors
    /// If the name is already in use, or the kernel rejects the definition.
    pub fn add_synthetic_event(&mut self, definition: &str) -> Result<(), TracefsError> {
        let name = definition.split([' ', ';']).next().unwrap_or_default();
        let known = self.tracefs.read("synthetic_events").map_err(|error| match error {
            TracefsError::Io { error, .. } if error.kind() == io::ErrorKind::NotFound => TracefsError::NoHistTriggers,
            error => error,
        })?;
        // The kernel rejects an existing name (EEXIST, `__create_synth_event()`,
        // kernel/trace/trace_events_synth.c, from 5.11). Check first, for a clear error message, and so
        // that an event of another program is never removed as wakelat's own.
        if known.lines().any(|line| line.split([' ', '\t', ';']).next() == Some(name)) {
            return Err(TracefsError::EventExists(name.to_owned()));
        }
        self.tracefs.append("synthetic_events", definition)?;
        self.made.push(Made::SyntheticEvent(name.to_owned()));
        Ok(())
    }

    /// Adds a trigger to those that the event already has.
    ///
    /// # Errors
    /// If there is no such event, or the kernel rejects the trigger.
    pub fn add_trigger(&mut self, placed: EventTrigger) -> Result<(), TracefsError> {
        let event = self.file(&format!("events/{}", placed.event));
        if !self.tracefs.root().join(event).exists() {
            return Err(TracefsError::NoEvent(placed.event.replacen('/', ":", 1)));
        }
        self.write(&format!("events/{}/trigger", placed.event), &placed.trigger)?;
        self.made.push(Made::Trigger(placed));
        Ok(())
    }

    /// Removes everything, including the instance. A failure does not stop the other removals; the next
    /// call retries it.
    ///
    /// # Errors
    /// The first failure.
    pub fn close(&mut self) -> Result<(), TracefsError> {
        let mut result = Ok(());
        let mut remaining = Vec::new();
        for made in std::mem::take(&mut self.made).into_iter().rev() {
            // Removing an instance before its triggers may leave the synthetic event busy forever, as seen
            // on 6.1 to 7.2: the triggers' references to it are never dropped, and `destroy_synth_event()`
            // (kernel/trace/trace_events_synth.c) refuses to remove an event with references.
            let blocked =
                matches!(made, Made::Instance) && remaining.iter().any(|made| matches!(made, Made::Trigger(_)));
            match if blocked { Ok(()) } else { self.remove(&made) } {
                Ok(()) if !blocked => {}
                Ok(()) => remaining.push(made),
                Err(error) => {
                    remaining.push(made);
                    result = result.and(Err(error));
                }
            }
        }
        remaining.reverse();
        self.made = remaining;
        result
    }

    fn remove(&self, made: &Made) -> Result<(), TracefsError> {
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
            log::warn!("cannot clean up tracefs: {error}; the next run tries again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { pid: 1, start_ticks: 2, namespace: None };

    /// A directory of plain files in place of tracefs.
    fn tracefs() -> (tempfile::TempDir, TracefsMount) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("instances")).unwrap();
        fs::write(directory.path().join("synthetic_events"), "foreign u64 x\n").unwrap();
        let tracefs = TracefsMount::at(directory.path());
        (directory, tracefs)
    }

    #[test]
    fn an_existing_instance_is_an_error_and_is_not_removed() {
        let (directory, tracefs) = tracefs();
        let taken = directory.path().join("instances").join(OWNER.instance());
        fs::create_dir(&taken).unwrap();
        assert!(matches!(Instance::create(&tracefs, &OWNER), Err(TracefsError::InstanceExists(_))));
        assert!(taken.exists());
    }

    #[test]
    fn an_existing_synthetic_event_is_not_taken_over() {
        let (_directory, tracefs) = tracefs();
        let mut instance = Instance::create(&tracefs, &OWNER).unwrap();
        assert!(matches!(instance.add_synthetic_event("foreign u64 x"), Err(TracefsError::EventExists(_))));
        instance.close().unwrap();
        assert_eq!(tracefs.read("synthetic_events").unwrap(), "foreign u64 x\n");
    }

    #[test]
    fn closing_removes_in_reverse_order_and_is_idempotent() {
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
    fn the_error_names_a_missing_event() {
        let (_directory, tracefs) = tracefs();
        let mut instance = Instance::create(&tracefs, &OWNER).unwrap();
        let placed = EventTrigger { event: "sched/sched_nothing".into(), trigger: "hist:keys=pid".into() };
        let error = instance.add_trigger(placed).unwrap_err();
        assert!(matches!(&error, TracefsError::NoEvent(event) if event == "sched:sched_nothing"), "{error}");
    }
}
