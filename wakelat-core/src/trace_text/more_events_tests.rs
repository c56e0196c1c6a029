//! Wakeups and migrations that begin and move no wait.

use super::tests::{Translated, switch, trace, woken};
use crate::{recording::MoreEvents, timeline::event::EventKind};

#[test]
fn every_wakeup_and_migration_is_an_event_whether_or_not_its_task_waits() {
    let migrates = || "sched_migrate_task: comm=t7 pid=7 prio=120 orig_cpu=0 dest_cpu=1".to_owned();
    let all = Translated::of(&trace(&[
        (10, 0, 9, woken("sched_wakeup", 7, 0)),
        (20, 1, 8, migrates()),
        (30, 1, 8, switch(8, "S", 7)),
        (40, 0, 9, woken("sched_wakeup", 7, 1)),
        (45, 0, 9, woken("sched_wakeup_new", 6, 0)),
        (50, 0, 9, migrates()),
    ]));
    assert_eq!(all.header.more, MoreEvents { wakeups: true, migrations: true });
    let wakeups = all.events.iter().filter_map(|event| match event.kind {
        EventKind::Wakeup(woken) => Some((woken.tid, woken.waker_tid, woken.target_cpu, woken.new, woken.running)),
        _ => None,
    });
    assert_eq!(wakeups.collect::<Vec<_>>(), [(7, 9, 0, false, false), (7, 9, 1, false, true), (6, 9, 0, true, false)]);
    assert_eq!(all.migrations(), [true, false]);
}
