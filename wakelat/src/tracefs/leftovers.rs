//! What a killed run left in tracefs: found by the names that wakelat gives, and removed where the process is gone.

use std::{fs, path::Path};

use super::{Owner, TracefsError, TracefsMount};
use crate::hist_trigger::TriggerSpec;

/// Events on which wakelat places triggers, readers of variables before their owners.
const EVENTS: [&str; 4] = ["sched/sched_switch", "sched/sched_wakeup", "sched/sched_waking", "sched/sched_wakeup_new"];

/// Something left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: LeftoverKind,
    /// The process that left it.
    pub pid: u32,
}

/// What was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftoverKind {
    /// An instance, with whatever triggers are in it.
    Instance,
    /// A synthetic event.
    SyntheticEvent,
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            LeftoverKind::Instance => "tracefs instance",
            LeftoverKind::SyntheticEvent => "synthetic event",
        };
        write!(f, "{kind} `{}` of process {}, which is gone", self.name, self.pid)
    }
}

/// What processes that are gone have left, instances first. What a living one has made, and whatever bears another kind
/// of name, is not among it.
pub fn find(tracefs: &TracefsMount, proc: &Path) -> Vec<Leftover> {
    let instances = fs::read_dir(tracefs.root().join("instances"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let events = tracefs.read("synthetic_events").unwrap_or_default();
    let events = events.lines().filter_map(|line| line.split([' ', '\t', ';']).next()).map(str::to_owned);
    let left = |name: String, kind: LeftoverKind| {
        let owner = Owner::of(&name)?;
        let ours = match kind {
            LeftoverKind::Instance => name == owner.instance(),
            LeftoverKind::SyntheticEvent => name == owner.event(),
        };
        (ours && owner.is_gone(proc) == Some(true)).then_some(Leftover { name, kind, pid: owner.pid })
    };
    instances
        .filter_map(|name| left(name, LeftoverKind::Instance))
        .chain(events.filter_map(|name| left(name, LeftoverKind::SyntheticEvent)))
        .collect()
}

/// Removes what [`find`] found; says of each whether it worked.
pub fn remove(tracefs: &TracefsMount, proc: &Path) -> Vec<(Leftover, Result<(), TracefsError>)> {
    find(tracefs, proc)
        .into_iter()
        .map(|leftover| {
            let removed = match leftover.kind {
                LeftoverKind::Instance => remove_instance(tracefs, &leftover.name),
                LeftoverKind::SyntheticEvent => tracefs.append("synthetic_events", &format!("!{}", leftover.name)),
            };
            (leftover, removed)
        })
        .collect()
}

fn remove_instance(tracefs: &TracefsMount, name: &str) -> Result<(), TracefsError> {
    let relative = Path::new("instances").join(name);
    let synthetic = Owner::of(name).map(|owner| format!("synthetic/{}", owner.event()));
    for event in synthetic.iter().map(String::as_str).chain(EVENTS) {
        let file = relative.join("events").join(event).join("trigger");
        // An instance without the event has no trigger on it.
        let triggers = tracefs.read(&file).unwrap_or_default();
        // Not one may stay: the kernel would remove the instance all the same and keep the synthetic event for good, or
        // refuse with EBUSY, as seen on 6.1 to 7.2. A trigger with variables holds its instance (`save_hist_vars()`,
        // kernel/trace/trace_events_hist.c), and one that is held does not go (`__remove_instance()`, kernel/trace/trace.c).
        for trigger in triggers.lines().filter_map(TriggerSpec::parse) {
            tracefs.append(&file, &trigger.removal())?;
        }
    }
    fs::remove_dir(tracefs.root().join(&relative)).map_err(|error| tracefs.failed("removing", &relative, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_process_of_ours_left_is_removed() {
        let proc = Path::new("/proc");
        let living = Owner::this(proc).unwrap();
        let dead = Owner { start_ticks: living.start_ticks + 1, ..living };
        let directory = tempfile::tempdir().unwrap();
        let instances = directory.path().join("instances");
        for name in [&living.instance(), &dead.instance(), "foreign", "wakelat-mine", &dead.event()] {
            fs::create_dir_all(instances.join(name)).unwrap();
        }
        let events = format!("foreign u64 x\n{} u64 lat\n{}\tu64 lat; pid_t pid\n", living.event(), dead.event());
        fs::write(directory.path().join("synthetic_events"), &events).unwrap();
        let tracefs = TracefsMount::at(directory.path());

        let removed = remove(&tracefs, proc);

        let names: Vec<&str> = removed.iter().map(|(leftover, _)| leftover.name.as_str()).collect();
        assert_eq!(names, [dead.instance(), dead.event()]);
        assert!(removed.iter().all(|(_, result)| result.is_ok()), "{removed:?}");
        let mut left: Vec<_> =
            fs::read_dir(instances).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        let mut expected = [living.instance(), "foreign".into(), "wakelat-mine".into(), dead.event()];
        expected.sort();
        assert_eq!(left, expected);
        assert_eq!(tracefs.read("synthetic_events").unwrap(), format!("{events}!{}\n", dead.event()));
    }

    #[test]
    fn a_tracefs_without_instances_has_nothing_left() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(find(&TracefsMount::at(directory.path()), Path::new("/proc")), []);
    }
}
