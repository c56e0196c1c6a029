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
    assert_eq!(all.header.more, MoreEvents { wakeups: true, migrations: true, ..MoreEvents::default() });
    let wakeups = all.events.iter().filter_map(|event| match event.kind {
        EventKind::Wakeup(woken) => Some((woken.tid, woken.waker_tid, woken.target_cpu, woken.new, woken.running)),
        _ => None,
    });
    assert_eq!(wakeups.collect::<Vec<_>>(), [(7, 9, 0, false, false), (7, 9, 1, false, true), (6, 9, 0, true, false)]);
    assert_eq!(all.migrations(), [true, false]);
}

#[test]
fn a_wakeup_whose_waker_is_not_in_the_text_is_no_event() {
    let woken = "sched:sched_wakeup: comm=t7 pid=7 prio=120 target_cpu=000";
    let switched = "sched:sched_switch: prev_comm=t9 prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=t7 next_pid=7 \
                    next_prio=120";
    for (waker, expected) in [(":-1    -1", 0), ("t9     9", 1)] {
        let all = Translated::of(&format!("{waker} [000] 1.000010: {woken}\nt9     9 [000] 1.000020: {switched}\n"));
        let wakeups = all.events.iter().filter(|event| matches!(event.kind, EventKind::Wakeup(_)));
        assert_eq!((wakeups.count(), all.switches().count()), (expected, 1), "{waker}");
    }
}
