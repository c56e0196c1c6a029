//! A mounted tracefs: its files, and why an operation on them fails.

use std::{
    fmt, fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use crate::error_log;
use wakelat_kernel::mounts::{self, Mount};

/// A mounted tracefs, or a directory in place of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracefsMount {
    root: PathBuf,
}

/// Why an operation in tracefs failed.
#[derive(Debug)]
pub enum TracefsError {
    /// This process sees no mounted tracefs.
    NotMounted,
    /// This user has no access to tracefs.
    Denied(PathBuf),
    /// The kernel has no hist triggers.
    NoHistTriggers,
    /// The kernel has no such event.
    NoEvent(String),
    /// tracefs has no such instance.
    NoInstance(String),
    /// The instance already exists.
    InstanceExists(String),
    /// The synthetic event already exists.
    EventExists(String),
    /// The kernel rejected a command, and logged the reason.
    Refused {
        /// The file, relative to the root of tracefs.
        file: PathBuf,
        /// The kernel's log entry.
        reason: error_log::ErrorLogEntry,
    },
    /// Any other error.
    Io {
        /// The failed operation.
        attempt: String,
        /// The system's error.
        error: io::Error,
    },
}

impl fmt::Display for TracefsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMounted => {
                f.write_str("tracefs is not mounted; run `mount -t tracefs nodev /sys/kernel/tracing` as root")
            }
            Self::Denied(path) => {
                write!(f, "`{}` is not accessible to this user; run wakelat with `sudo`", path.display())
            }
            Self::NoHistTriggers => {
                f.write_str("this kernel has no hist triggers; use one built with `CONFIG_HIST_TRIGGERS=y`")
            }
            Self::NoEvent(event) => {
                write!(f, "this kernel has no event `{event}`; run `wakelat events` for a list")
            }
            Self::NoInstance(name) => write!(f, "there is no tracefs instance `{name}`"),
            Self::InstanceExists(name) => write!(
                f,
                "the tracefs instance `{name}` already exists; if it is unused, remove it with `rmdir instances/{name}`"
            ),
            Self::EventExists(name) => write!(
                f,
                "the synthetic event `{name}` already exists; if it is unused, remove it with `echo '!{name}' >> synthetic_events`"
            ),
            Self::Refused { file, reason } => {
                write!(f, "the kernel rejected the command in `{}`: {reason}", file.display())
            }
            Self::Io { attempt, error } => write!(f, "{attempt}: {error}"),
        }
    }
}

// `Display` already includes the I/O error, so it is not also a `source`.
impl std::error::Error for TracefsError {}

impl TracefsMount {
    /// Uses the tracefs, or the directory in place of one, at `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Finds the first tracefs, mounted on its own or below debugfs, which mounts it on access.
    ///
    /// # Errors
    /// If tracefs is not mounted, or not accessible to this user.
    pub fn find(mounts: &[Mount]) -> Result<Self, TracefsError> {
        let below_debugfs = mounts::of_kind(mounts, "debugfs").map(|point| point.join("tracing"));
        let all: Vec<PathBuf> = mounts::of_kind(mounts, "tracefs").map(Path::to_owned).chain(below_debugfs).collect();
        // Only the contents show whether this is tracefs and whether this user has access to it.
        match all.iter().find(|root| fs::metadata(root.join("events")).is_ok()) {
            Some(root) => Ok(Self::at(root)),
            None => Err(all.first().map_or(TracefsError::NotMounted, |root| TracefsError::Denied(root.clone()))),
        }
    }

    /// Finds the tracefs that this process sees, as in [`TracefsMount::find`].
    ///
    /// # Errors
    /// If tracefs is not mounted, or not accessible to this user.
    pub fn mounted() -> Result<Self, TracefsError> {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self::find(&mounts::parse(&mountinfo))
    }

    /// The root directory of tracefs.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of the instance `name`, or the root directory if `name` is none.
    ///
    /// # Errors
    /// If there is no such instance.
    pub fn instance(&self, name: Option<&str>) -> Result<PathBuf, TracefsError> {
        let Some(name) = name else { return Ok(self.root.clone()) };
        let directory = self.root.join("instances").join(name);
        if directory.is_dir() { Ok(directory) } else { Err(TracefsError::NoInstance(name.to_owned())) }
    }

    /// Checks that the kernel has hist triggers.
    ///
    /// # Errors
    /// [`TracefsError::NoHistTriggers`] if it has none; another error if that cannot be checked.
    pub fn need_hist_triggers(&self) -> Result<(), TracefsError> {
        let file = Path::new("events/sched/sched_switch/hist");
        match self.root.join(file).try_exists() {
            Ok(true) => Ok(()),
            Ok(false) => Err(TracefsError::NoHistTriggers),
            Err(error) => Err(self.failed("accessing", file, error)),
        }
    }

    /// Reads a file; `file` is relative to the root.
    pub fn read(&self, file: impl AsRef<Path>) -> Result<String, TracefsError> {
        let file = file.as_ref();
        read_at_once(&self.root.join(file)).map_err(|error| self.failed("reading", file, error))
    }

    /// Appends a line to a file in a single write, as the kernel requires. Never truncates the file: opened
    /// with truncation, a trigger file loses *all* its triggers, and `synthetic_events` all its events.
    ///
    /// # Errors
    /// If the kernel rejects the line, with the kernel's own reason if `error_log` has one (5.2).
    pub fn append(&self, file: impl AsRef<Path>, line: &str) -> Result<(), TracefsError> {
        let file = file.as_ref();
        let written = fs::OpenOptions::new()
            .append(true)
            .open(self.root.join(file))
            .and_then(|mut open| open.write_all(format!("{line}\n").as_bytes()));
        written.map_err(|error| match self.reason(file, line) {
            Some(reason) if error.raw_os_error() != Some(libc::EBUSY) => {
                TracefsError::Refused { file: file.to_owned(), reason }
            }
            _ => self.failed(&format!("writing `{line}` to"), file, error),
        })
    }

    /// The kernel's entry about `line` in the error log of the instance to which `file` belongs, or in the
    /// main one.
    fn reason(&self, file: &Path, line: &str) -> Option<error_log::ErrorLogEntry> {
        let mut parts = file.components();
        let own = match (parts.next()?.as_os_str().to_str(), parts.next()) {
            (Some("instances"), Some(name)) => Path::new("instances").join(name).join("error_log"),
            _ => PathBuf::from("error_log"),
        };
        [own.as_path(), Path::new("error_log")].into_iter().find_map(|log| error_log::last(&self.read(log).ok()?, line))
    }

    pub(crate) fn failed(&self, verb: &str, file: &Path, error: io::Error) -> TracefsError {
        if error.kind() == io::ErrorKind::PermissionDenied {
            return TracefsError::Denied(self.root.clone());
        }
        TracefsError::Io { attempt: format!("{verb} `{}`", self.root.join(file).display()), error }
    }
}

/// Reads a file with a large buffer. Some files reject a read with a buffer smaller than their text, even
/// at their end (`osnoise_cpus_read`, kernel/trace/trace_osnoise.c), or return nothing to a second read
/// (`show_header`, kernel/trace/trace_events.c).
pub fn read_at_once(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(1 << 16);
    fs::File::open(path)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_below_debugfs_is_found_and_its_own_mount_is_preferred() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mounts = |own: &str| {
            mounts::parse(&format!(
                "1 0 0:1 / {} rw - debugfs none rw\n2 0 0:2 / {} rw - tracefs none rw\n",
                path("debug").display(),
                path(own).display()
            ))
        };
        assert!(matches!(TracefsMount::find(&[]), Err(TracefsError::NotMounted)));
        assert!(matches!(TracefsMount::find(&mounts("own")), Err(TracefsError::Denied(_))));
        fs::create_dir_all(path("debug/tracing/events")).unwrap();
        assert_eq!(TracefsMount::find(&mounts("own")).unwrap().root(), path("debug/tracing"));
        fs::create_dir_all(path("own/events")).unwrap();
        assert_eq!(TracefsMount::find(&mounts("own")).unwrap().root(), path("own"));
    }

    #[test]
    fn hist_triggers_are_reported_as_missing_only_if_that_was_checked() {
        let directory = tempfile::tempdir().unwrap();
        let event = directory.path().join("events/sched/sched_switch");
        let tracefs = TracefsMount::at(directory.path());
        fs::create_dir_all(event.parent().unwrap()).unwrap();
        // Looking up a name in a file fails even for root.
        fs::write(&event, "").unwrap();
        assert!(matches!(tracefs.need_hist_triggers(), Err(TracefsError::Io { .. })));
        fs::remove_file(&event).unwrap();
        fs::create_dir(&event).unwrap();
        assert!(matches!(tracefs.need_hist_triggers(), Err(TracefsError::NoHistTriggers)));
        fs::write(event.join("hist"), "").unwrap();
        tracefs.need_hist_triggers().unwrap();
    }

    #[test]
    fn appending_keeps_the_contents_and_creates_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let tracefs = TracefsMount::at(directory.path());
        fs::write(directory.path().join("trigger"), "foreign\n").unwrap();
        tracefs.append("trigger", "ours").unwrap();
        assert_eq!(tracefs.read("trigger").unwrap(), "foreign\nours\n");
        assert!(tracefs.append("other", "ours").is_err());
        assert!(!directory.path().join("other").exists());
    }
}
