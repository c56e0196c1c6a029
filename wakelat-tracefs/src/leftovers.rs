//! Finds by name, and removes, what a killed run left in tracefs, provided that its process has exited.

use std::{fs, path::Path};

use super::{Owner, TracefsError, TracefsMount};
use crate::hist_trigger::TriggerSpec;

/// Events on which wakelat places triggers: readers of variables before the owners.
const EVENTS: [&str; 4] = ["sched/sched_switch", "sched/sched_wakeup", "sched/sched_waking", "sched/sched_wakeup_new"];

/// An instance or a synthetic event that a killed run left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Name of the instance or event.
    pub name: String,
    /// Kind of the leftover.
    pub kind: LeftoverKind,
    /// The process that left it.
    pub pid: u32,
}

/// Kind of a [`Leftover`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftoverKind {
    /// An instance, with the triggers in it.
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
        write!(f, "{kind} `{}` of process {}, which has exited", self.name, self.pid)
    }
}

/// Finds what exited processes have left, instances first. Ignores what belongs to a living process, and
/// everything that is not named as wakelat names it.
pub fn find(tracefs: &TracefsMount, proc: &Path) -> Vec<Leftover> {
    let instances = fs::read_dir(tracefs.root().join("instances"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let events = tracefs.read("synthetic_events").unwrap_or_default();
    let events = events.lines().filter_map(|line| line.split([' ', '\t', ';']).next()).map(str::to_owned);
    let leftover = |name: String, kind: LeftoverKind| {
        let owner = Owner::of(&name)?;
        let is_own_name = match kind {
            LeftoverKind::Instance => name == owner.instance(),
            LeftoverKind::SyntheticEvent => name == owner.event(),
        };
        (is_own_name && owner.is_gone(proc) == Some(true)).then_some(Leftover { name, kind, pid: owner.pid })
    };
    instances
        .filter_map(|name| leftover(name, LeftoverKind::Instance))
        .chain(events.filter_map(|name| leftover(name, LeftoverKind::SyntheticEvent)))
        .collect()
}

/// Removes what [`find`] finds; returns each leftover with the result of its removal.
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
        // Without the event, there is no trigger on it.
        let triggers = tracefs.read(&file).unwrap_or_default();
        // Remove every trigger: otherwise the kernel removes the instance but keeps the synthetic event
        // forever, or refuses with EBUSY, as seen on 6.1 to 7.2. A trigger with variables holds a reference
        // to its instance (`save_hist_vars()`, kernel/trace/trace_events_hist.c), and an instance with
        // references is not removed (`__remove_instance()`, kernel/trace/trace.c).
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
    fn only_leftovers_of_exited_wakelat_processes_are_removed() {
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
        let mut remaining: Vec<_> =
            fs::read_dir(instances).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        remaining.sort();
        let mut expected = [living.instance(), "foreign".into(), "wakelat-mine".into(), dead.event()];
        expected.sort();
        assert_eq!(remaining, expected);
        assert_eq!(tracefs.read("synthetic_events").unwrap(), format!("{events}!{}\n", dead.event()));
    }

    #[test]
    fn a_tracefs_without_instances_has_no_leftovers() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(find(&TracefsMount::at(directory.path()), Path::new("/proc")), []);
    }
}
