//! tracefs as wakelat uses it: an instance of its own, triggers that are appended and taken away again, and nothing
//! else touched. What a killed run left behind is found by its name and removed at the next start.

pub mod error_log;
pub mod instance;
pub mod leftovers;
pub mod owner;

use std::{
    fmt, fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use crate::kernel::mounts::{self, Mount};

pub use instance::Instance;
pub use owner::Owner;

/// Where tracefs is mounted, or a directory that stands for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracefsMount {
    root: PathBuf,
}

/// Why something in tracefs did not work.
#[derive(Debug)]
pub enum TracefsError {
    /// It is mounted nowhere that this process sees.
    NotMounted,
    /// This user may not use it.
    Denied(PathBuf),
    /// The kernel has no hist triggers.
    NoHistTriggers,
    /// The kernel has no such event.
    NoEvent(String),
    /// There is no such instance.
    NoInstance(String),
    /// The instance is there already.
    InstanceExists(String),
    /// The synthetic event is there already.
    EventExists(String),
    /// The kernel refused a text, and said why.
    Refused {
        /// The file, relative to the root.
        file: PathBuf,
        /// What the kernel says.
        reason: error_log::ErrorLogEntry,
    },
    /// Anything else.
    Io {
        /// What was tried.
        attempt: String,
        /// What came of it.
        error: io::Error,
    },
}

impl fmt::Display for TracefsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMounted => {
                f.write_str("tracefs is not mounted; run `mount -t tracefs nodev /sys/kernel/tracing` as root")
            }
            Self::Denied(path) => write!(f, "`{}` is closed to this user; run as root", path.display()),
            Self::NoHistTriggers => {
                f.write_str("this kernel has no hist triggers; they need a kernel with CONFIG_HIST_TRIGGERS")
            }
            Self::NoEvent(event) => {
                write!(f, "this kernel has no event `{event}`; `wakelat events` lists those it has")
            }
            Self::NoInstance(name) => write!(f, "there is no tracefs instance `{name}`"),
            Self::InstanceExists(name) => write!(
                f,
                "the tracefs instance `{name}` is there already; if nobody uses it, remove it with `rmdir instances/{name}`"
            ),
            Self::EventExists(name) => write!(
                f,
                "the synthetic event `{name}` is there already; if nobody uses it, remove it with `echo '!{name}' >> synthetic_events`"
            ),
            Self::Refused { file, reason } => write!(f, "the kernel refused it in `{}`: {reason}", file.display()),
            Self::Io { attempt, error } => write!(f, "{attempt}: {error}"),
        }
    }
}

// The system's own error is part of the text, so it is no source.
impl std::error::Error for TracefsError {}

impl TracefsMount {
    /// The one at `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The first one mounted, by itself or, as debugfs does on access, below debugfs.
    ///
    /// # Errors
    /// Where there is none, or it is closed to this user.
    pub fn find(mounts: &[Mount]) -> Result<Self, TracefsError> {
        let below_debugfs = mounts::of_kind(mounts, "debugfs").map(|point| point.join("tracing"));
        let all: Vec<PathBuf> = mounts::of_kind(mounts, "tracefs").map(Path::to_owned).chain(below_debugfs).collect();
        // Only the contents tell whether the user may use it, and whether it is tracefs.
        match all.iter().find(|root| fs::metadata(root.join("events")).is_ok()) {
            Some(root) => Ok(Self::at(root)),
            None => Err(all.first().map_or(TracefsError::NotMounted, |root| TracefsError::Denied(root.clone()))),
        }
    }

    /// The one this process sees.
    ///
    /// # Errors
    /// Those of [`TracefsMount::find`].
    pub fn mounted() -> Result<Self, TracefsError> {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self::find(&mounts::parse(&mountinfo))
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of an instance, or of the top level if none is named.
    ///
    /// # Errors
    /// If there is no instance of that name.
    pub fn instance(&self, name: Option<&str>) -> Result<PathBuf, TracefsError> {
        let Some(name) = name else { return Ok(self.root.clone()) };
        let directory = self.root.join("instances").join(name);
        if directory.is_dir() { Ok(directory) } else { Err(TracefsError::NoInstance(name.to_owned())) }
    }

    /// Whether the kernel has hist triggers.
    ///
    /// # Errors
    /// [`TracefsError::NoHistTriggers`] if it has none; another error if this user may not look.
    pub fn need_hist_triggers(&self) -> Result<(), TracefsError> {
        let file = Path::new("events/sched/sched_switch/hist");
        match self.root.join(file).try_exists() {
            Ok(true) => Ok(()),
            Ok(false) => Err(TracefsError::NoHistTriggers),
            Err(error) => Err(self.failed("looking at", file, error)),
        }
    }

    /// A file's text.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read(&self, file: impl AsRef<Path>) -> Result<String, TracefsError> {
        let file = file.as_ref();
        read_at_once(&self.root.join(file)).map_err(|error| self.failed("reading", file, error))
    }

    /// Writes a line to a file in one piece, as the kernel demands, and never truncates it: opened with truncation, a
    /// trigger file loses *all* its triggers, and `synthetic_events` all its events.
    ///
    /// # Errors
    /// Where the kernel refuses it, with its own reason where `error_log` has one (5.3).
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

    /// What the kernel says about `line`: in the log of the instance that `file` belongs to, or in the main one.
    fn reason(&self, file: &Path, line: &str) -> Option<error_log::ErrorLogEntry> {
        let mut parts = file.components();
        let own = match (parts.next()?.as_os_str().to_str(), parts.next()) {
            (Some("instances"), Some(name)) => Path::new("instances").join(name).join("error_log"),
            _ => PathBuf::from("error_log"),
        };
        [own.as_path(), Path::new("error_log")].into_iter().find_map(|log| error_log::last(&self.read(log).ok()?, line))
    }

    fn failed(&self, verb: &str, file: &Path, error: io::Error) -> TracefsError {
        if error.kind() == io::ErrorKind::PermissionDenied {
            return TracefsError::Denied(self.root.clone());
        }
        TracefsError::Io { attempt: format!("{verb} `{}`", self.root.join(file).display()), error }
    }
}

/// A file's text, read into much room. Some files refuse a reader with less than their text takes, even at their end
/// (`osnoise_cpus_read`, kernel/trace/trace_osnoise.c), or give whoever comes again nothing (`show_header`,
/// kernel/trace/trace_events.c).
///
/// # Errors
/// Where it cannot be read.
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
    fn only_a_kernel_that_was_looked_at_can_lack_hist_triggers() {
        let directory = tempfile::tempdir().unwrap();
        let event = directory.path().join("events/sched/sched_switch");
        let tracefs = TracefsMount::at(directory.path());
        fs::create_dir_all(event.parent().unwrap()).unwrap();
        // A file is no directory to look into, for root neither.
        fs::write(&event, "").unwrap();
        assert!(matches!(tracefs.need_hist_triggers(), Err(TracefsError::Io { .. })));
        fs::remove_file(&event).unwrap();
        fs::create_dir(&event).unwrap();
        assert!(matches!(tracefs.need_hist_triggers(), Err(TracefsError::NoHistTriggers)));
        fs::write(event.join("hist"), "").unwrap();
        tracefs.need_hist_triggers().unwrap();
    }

    #[test]
    fn appending_leaves_what_is_there_and_creates_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let tracefs = TracefsMount::at(directory.path());
        fs::write(directory.path().join("trigger"), "foreign\n").unwrap();
        tracefs.append("trigger", "ours").unwrap();
        assert_eq!(tracefs.read("trigger").unwrap(), "foreign\nours\n");
        assert!(tracefs.append("other", "ours").is_err());
        assert!(!directory.path().join("other").exists());
    }
}
