//! tracefs, as a test reads it and as another user of the machine uses it.

use std::{fs, io::Write as _, path::PathBuf};

use crate::skip::Skip;

/// The usual mount point.
const ROOT: &str = "/sys/kernel/tracing";

/// Path of a file or directory in tracefs.
pub fn path(name: &str) -> PathBuf {
    PathBuf::from(ROOT).join(name)
}

/// Whether this kernel has hist triggers.
pub fn has_hist_triggers() -> bool {
    path("events/sched/sched_switch/hist").exists()
}

/// Skips the test if this kernel has no hist triggers.
pub fn need_hist_triggers() -> Result<(), Skip> {
    if has_hist_triggers() { Ok(()) } else { Err(Skip::because("this kernel has no hist triggers")) }
}

/// The text of a file; empty if it does not exist.
pub fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_default()
}

/// Appends a line to a file.
pub fn append(name: &str, line: &str) {
    let written = fs::OpenOptions::new()
        .append(true)
        .open(path(name))
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("`{line}` to `{name}`: {error}"));
}

/// Instances and synthetic events in tracefs whose names are wakelat's.
pub fn left_by_wakelat() -> Vec<String> {
    let instances = fs::read_dir(path("instances")).into_iter().flatten().flatten();
    let mut left: Vec<String> = instances.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    left.extend(read("synthetic_events").lines().map(str::to_owned));
    left.retain(|name| name.starts_with("wakelat"));
    left
}

/// An instance of another user with a trigger, and another user's trigger on the same event. Dropping
/// it removes both.
pub struct ForeignInstance;

const INSTANCE: &str = "instances/wl-foreign";
const TRIGGER: &str = "hist:keys=next_pid:size=128";
const FILES: [&str; 2] =
    ["events/sched/sched_switch/trigger", "instances/wl-foreign/events/sched/sched_switch/trigger"];

impl ForeignInstance {
    /// Creates the instance and the triggers.
    pub fn make() -> Self {
        fs::create_dir(path(INSTANCE)).expect("an instance can be made");
        let foreign = Self;
        FILES.iter().for_each(|file| append(file, TRIGGER));
        foreign
    }

    /// Asserts that the triggers are unchanged.
    pub fn assert_untouched(&self) {
        for file in FILES {
            assert!(read(file).contains("hist:keys=next_pid"), "{file}: {}", read(file));
        }
    }
}

impl Drop for ForeignInstance {
    fn drop(&mut self) {
        for file in FILES {
            if path(file).exists() && read(file).contains("hist:keys=next_pid") {
                append(file, &format!("!{TRIGGER}"));
            }
        }
        let _ = fs::remove_dir(path(INSTANCE));
    }
}
