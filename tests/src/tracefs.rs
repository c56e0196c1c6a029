//! tracefs, as a test looks into it and as somebody else uses it.

use std::{fs, io::Write as _, path::PathBuf};

use crate::suite::Skip;

/// Where it is mounted everywhere.
const ROOT: &str = "/sys/kernel/tracing";

/// A file or directory in it.
pub fn path(name: &str) -> PathBuf {
    PathBuf::from(ROOT).join(name)
}

/// Whether this kernel has hist triggers.
pub fn has_hist_triggers() -> bool {
    path("events/sched/sched_switch/hist").exists()
}

/// Skips where this kernel has no hist triggers.
///
/// # Errors
/// Where it has none.
pub fn need_hist_triggers() -> Result<(), Skip> {
    if has_hist_triggers() { Ok(()) } else { Err(Skip::because("this kernel has no hist triggers")) }
}

/// The text of a file; empty where there is none.
pub fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_default()
}

/// Appends a line.
///
/// # Panics
/// If the kernel refuses it.
pub fn append(name: &str, line: &str) {
    let written = fs::OpenOptions::new()
        .append(true)
        .open(path(name))
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("`{line}` to `{name}`: {error}"));
}

/// What is in tracefs that bears a name of wakelat's: instances and synthetic events.
pub fn left_by_wakelat() -> Vec<String> {
    let instances = fs::read_dir(path("instances")).into_iter().flatten().flatten();
    let mut left: Vec<String> = instances.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    left.extend(read("synthetic_events").lines().map(str::to_owned));
    left.retain(|name| name.starts_with("wakelat"));
    left
}

/// Somebody else's instance with a trigger, and somebody else's trigger on the same event. Dropped, they are gone.
pub struct ForeignInstance;

const INSTANCE: &str = "instances/wl-foreign";
const TRIGGER: &str = "hist:keys=next_pid:size=128";
const FILES: [&str; 2] =
    ["events/sched/sched_switch/trigger", "instances/wl-foreign/events/sched/sched_switch/trigger"];

impl ForeignInstance {
    /// Makes them.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn make() -> Self {
        fs::create_dir(path(INSTANCE)).expect("an instance can be made");
        let foreign = Self;
        FILES.iter().for_each(|file| append(file, TRIGGER));
        foreign
    }

    /// Asserts that they are as they were.
    ///
    /// # Panics
    /// If they are not.
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
