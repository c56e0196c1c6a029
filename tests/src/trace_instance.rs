//! Instances of tracefs: trace buffers with settings of their own.

use std::fs;

use crate::tracefs;

/// An instance. Dropping it removes the directory, if the test has made it.
pub struct TraceInstance {
    /// The directory in tracefs.
    directory: String,
    is_own: bool,
}

impl TraceInstance {
    /// Creates an instance with this name.
    pub fn create(name: &str) -> Self {
        let instance = Self { directory: format!("instances/{name}"), is_own: true };
        fs::create_dir(tracefs::path(&instance.directory)).expect("an instance can be made");
        instance
    }

    /// An instance that exists already.
    pub fn existing(name: &str) -> Self {
        Self { directory: format!("instances/{name}"), is_own: false }
    }

    /// A file of the instance, by its path in tracefs.
    pub fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// The text of a file; empty if it does not exist.
    pub fn read(&self, name: &str) -> String {
        tracefs::read(&self.file(name))
    }

    /// Appends a line to a file.
    pub fn append(&self, name: &str, line: &str) {
        tracefs::append(&self.file(name), line);
    }

    /// Switches an event, such as `sched/sched_switch`, on or off.
    pub fn enable(&self, event: &str, is_on: bool) {
        self.append(&format!("events/{event}/enable"), if is_on { "1" } else { "0" });
    }

    /// Records an event only where this filter holds.
    pub fn filter(&self, event: &str, filter: &str) {
        self.append(&format!("events/{event}/filter"), filter);
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        if self.is_own
            && let Err(error) = fs::remove_dir(tracefs::path(&self.directory))
        {
            eprintln!("could not remove {}: {error}", self.directory);
        }
    }
}
