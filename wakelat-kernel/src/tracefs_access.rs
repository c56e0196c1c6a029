//! Whether tracefs is accessible, and its features. With typed or raw tracepoints, wakelat measures without
//! it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::mounts::{self, Mount};

/// Access to tracefs, and its features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracefsAccess {
    /// This process sees no mounted tracefs.
    NotMounted,
    /// tracefs is mounted at this path, but this user has no access.
    Denied(PathBuf),
    /// tracefs is accessible to this user.
    Open {
        /// The mount point.
        path: PathBuf,
        /// Whether events accept hist triggers (`CONFIG_HIST_TRIGGERS`).
        hist_triggers: bool,
        /// Names of the available tracers, such as `timerlat`.
        tracers: Vec<String>,
    },
}

impl TracefsAccess {
    /// Finds tracefs among the mounts and examines it.
    pub fn read(mounts: &[Mount]) -> Self {
        let Some(path) = mounts::of_kind(mounts, "tracefs").next() else {
            return Self::NotMounted;
        };
        Self::examine(path).unwrap_or_else(|_| Self::Denied(path.to_owned()))
    }

    fn examine(path: &Path) -> io::Result<Self> {
        let tracers = fs::read_to_string(path.join("available_tracers"))?;
        Ok(Self::Open {
            path: path.to_owned(),
            hist_triggers: path.join("events/sched/sched_switch/hist").exists(),
            tracers: tracers.split_whitespace().map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(path: &Path) -> Vec<Mount> {
        mounts::parse(&format!("1 0 0:1 / {} rw - tracefs nodev rw", path.display()))
    }

    #[test]
    fn tracefs_without_a_mount_is_not_mounted() {
        assert_eq!(TracefsAccess::read(&[]), TracefsAccess::NotMounted);
    }

    #[test]
    fn tracefs_that_cannot_be_read_is_denied() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(TracefsAccess::read(&mounted(directory.path())), TracefsAccess::Denied(directory.path().to_owned()));
    }

    #[test]
    fn tracers_and_hist_triggers_are_found() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("available_tracers"), "timerlat osnoise nop\n").unwrap();
        fs::create_dir_all(directory.path().join("events/sched/sched_switch")).unwrap();
        let read = || match TracefsAccess::read(&mounted(directory.path())) {
            TracefsAccess::Open { hist_triggers, tracers, .. } => (hist_triggers, tracers),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(), (false, ["timerlat", "osnoise", "nop"].map(str::to_owned).to_vec()));
        fs::write(directory.path().join("events/sched/sched_switch/hist"), "").unwrap();
        assert!(read().0);
    }
}
