//! Drops the privileges that a run no longer needs once its programs are attached: which it keeps follows from its
//! settings.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::Result;
use rustix::process::{getegid, geteuid};
use wakelat_kernel::Roots;
use wakelat_sandbox::{CapabilitySet, ReadableFiles, Restrictions, Sandbox, allow_real_time};

use super::{Environment, View};
use crate::{
    collect::TimelineSettings,
    config::{Attach, Config, ThresholdAction},
};

/// The priority that [`super::program_settings::raise_priority`] uses without a request.
const LOWEST_PRIORITY: u8 = 1;

/// Drops everything that the rest of the run and its `view` do not need, unless the user keeps it. `shows_events`: the
/// events between waits that the view shows. `child`: the measured command. Call this before a second thread starts.
///
/// # Errors
/// If the kernel refuses a restriction that it supports.
pub fn drop_unneeded(
    config: &Config,
    environment: &Environment,
    shows_events: Option<TimelineSettings>,
    child: Option<u32>,
    view: &dyn View,
) -> Result<()> {
    if config.keep_privileges {
        log::info!("all privileges are kept");
        return Ok(());
    }
    let (accepts, connects_to) = (view.accepts_connections(), view.connects_to());
    let writes_in = view.writes_in();
    let mut sandbox = Sandbox { accepts, connects_to, child, writes_in, ..needed(config, environment, shows_events) };
    sandbox.starts_programs |= view.starts_programs();
    if !sandbox.writes_in.iter().all(|directory| is_writable_by_mode(directory)) {
        // Root in a directory of another user.
        sandbox.capabilities |= CapabilitySet::DAC_OVERRIDE;
    }
    if let ReadableFiles::Below(paths) = &mut sandbox.files {
        paths.extend(view.reads_below());
    }
    let rt_priority = config.resources.rt_priority.unwrap_or(LOWEST_PRIORITY);
    // Also without a request: the reader raises its priority at the end of the window.
    if rt_priority != 0 && !allow_real_time(rt_priority) {
        sandbox.capabilities |= CapabilitySet::SYS_NICE;
    }
    let Restrictions { capabilities, landlock_abi, seccomp } = sandbox.enter()?;
    log::info!("capabilities kept: {capabilities:?}; Landlock ABI: {landlock_abi:?}; seccomp: {seccomp}");
    Ok(())
}

/// Whether this process may create files in `directory` without a capability.
pub fn is_writable_by_mode(directory: &Path) -> bool {
    const WRITE_AND_SEARCH: u32 = 0o3;
    let may = |mode: u32| mode & WRITE_AND_SEARCH == WRITE_AND_SEARCH;
    directory.metadata().is_ok_and(|directory| {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        // The kernel takes the first that applies (`acl_permission_check()`, fs/namei.c).
        if directory.uid() == user {
            may(directory.mode() >> 6)
        } else if directory.gid() == group {
            may(directory.mode() >> 3)
        } else {
            may(directory.mode())
        }
    })
}

/// What a run with these settings does after its programs are attached.
fn needed(config: &Config, environment: &Environment, shows_events: Option<TimelineSettings>) -> Sandbox {
    let mut capabilities = CapabilitySet::empty();
    let roots = Roots::default();
    // Names, run times and counters; numbers of CPUs; the time zone.
    let mut paths = vec![roots.proc, roots.sys.join("devices/system/cpu")];
    paths.extend(["/etc/localtime", "/usr/share/zoneinfo"].map(PathBuf::from));
    paths.extend(environment.cgroup_mount.clone());
    // An overhead limit may detach the programs and attach them again.
    let attaches = config.max_overhead_ppm.is_some();
    let is_classic = match config.resources.attach {
        Attach::Classic => true,
        Attach::Auto => environment.btf.is_none(),
        Attach::Btf | Attach::Raw => false,
    };
    let opens_perf_events = attaches && is_classic;
    if opens_perf_events {
        capabilities |= CapabilitySet::PERFMON;
        paths.extend(environment.tracefs.clone());
    }
    let mut files = ReadableFiles::Below(paths);
    if shows_events.is_some_and(|events| events.stacks != 0) {
        // Functions of processes: their mappings, and the files in these, wherever they are.
        capabilities |= CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::CHECKPOINT_RESTORE;
        files = ReadableFiles::All;
    }
    let action = config.threshold.as_ref().map(|threshold| &threshold.action);
    let signals = match action {
        Some(ThresholdAction::Signal { pid, .. }) => {
            capabilities |= CapabilitySet::KILL;
            Some(*pid)
        }
        _ => None,
    };
    let starts_programs = matches!(action, Some(ThresholdAction::Exec(_)));
    Sandbox {
        capabilities,
        files,
        attaches,
        opens_perf_events,
        accepts: false,
        connects_to: Vec::new(),
        signals,
        child: None,
        writes_in: Vec::new(),
        starts_programs,
    }
}
