use proptest::prelude::*;
use wakelat_common::{Class, sample::KernelCounts};

use super::*;
use crate::{
    timeline::event::{DetailedWait, InterruptEvent, InterruptSource, Unseen},
    wait::Comm,
};

pub(crate) const ALL: SchedLineOptions = SchedLineOptions { idle: true, migrations: true, wakeups: true };

pub(crate) fn task(tid: u32) -> TaskInfo {
    let comm = if tid == 0 { Comm::new(b"swapper") } else { Comm::new(format!("task-{tid}").as_bytes()) };
    TaskInfo { tid, pid: tid, comm, prio: 120, policy: 0, cgroup_id: None, wanted: tid != 0 }
}

/// A wait of `latency_ns` of a task that last ran on `prev_cpu`.
pub(crate) fn waited(tid: u32, at_ns: u64, latency_ns: u64, prev_cpu: u32) -> DetailedWait {
    let wait = Wait {
        class: Class::Wakeup,
        at_ns,
        latency_ns,
        delivery_ns: Some(200),
        tid,
        pid: tid,
        comm: task(tid).comm,
        cgroup_id: None,
        prio: 120,
        policy: 0,
        cpu: 0,
        prev_cpu: Some(prev_cpu),
        waker_tid: Some(77),
        prev_tid: 0,
        prev_comm: Comm::default(),
        prev_prio: 120,
        kernel_counts: KernelCounts::Yes,
        sampling_shift: 0,
    };
    DetailedWait {
        wait,
        cpu: None,
        waker_cpu: None,
        remote: false,
        migrations: 0,
        throttled_ns: None,
        throttled_at_start: false,
        stolen_ns: 0,
    }
}

pub(crate) fn switch(
    at_ns: u64,
    prev: u32,
    prev_state: PrevState,
    next: u32,
    ended_wait: Option<DetailedWait>,
) -> EventKind {
    let (prev, next) = (task(prev), task(next));
    EventKind::Switch(Box::new(SwitchEvent {
        at_ns,
        prev,
        unseen: None,
        prev_state,
        next,
        ended_wait,
        idle_state: None,
        rt_throttled: false,
    }))
}

fn lines(shown: SchedLineOptions, events: impl IntoIterator<Item = (u32, u32, EventKind)>) -> Vec<SchedLine> {
    let mut tracker = SliceTracker::new(shown);
    events.into_iter().flat_map(|(cpu, seq, kind)| tracker.take(&Event { cpu, seq, kind })).collect()
}

fn slices(lines: &[SchedLine]) -> Vec<&Slice> {
    lines.iter().filter_map(|line| if let SchedLine::Slice(slice) = line { Some(&**slice) } else { None }).collect()
}

#[test]
fn a_slice_ends_with_the_switch_from_its_task() {
    let wait = waited(7, 500, 120, 0);
    let lines = lines(
        SchedLineOptions::default(),
        [
            (0, 1, switch(100, 7, PrevState::Sleeping, 0, None)),
            (0, 2, switch(500, 0, PrevState::Runnable, 7, Some(wait))),
            (0, 3, switch(800, 7, PrevState::Dead, 8, None)),
        ],
    );
    let slices = slices(&lines);
    assert_eq!(lines.len(), 2, "idle was not requested: {lines:?}");
    assert_eq!((slices[0].run_ns, slices[0].off_cpu_ns, slices[0].wait), (None, None, None));
    assert_eq!((slices[1].run_ns, slices[1].off_cpu_ns, slices[1].wait), (Some(300), Some(400), Some(wait.wait)));
    assert_eq!((slices[1].prev_state, slices[1].next.tid, slices[1].until_ns), (PrevState::Dead, 8, 800));
}

#[test]
fn a_new_task_with_a_reused_tid_has_no_time_off_cpu() {
    let new = EventKind::Wakeup(WakeupEvent {
        at_ns: 400,
        tid: 7,
        comm: Comm::new(b"new"),
        new: true,
        running: false,
        target_cpu: 0,
        waker_tid: 1,
    });
    let off_cpu_ns = |prev_state, wakeup: Option<EventKind>| {
        let mut events = vec![switch(100, 7, prev_state, 0, None)];
        events.extend(wakeup);
        events.extend([switch(500, 0, PrevState::Runnable, 7, None), switch(800, 7, PrevState::Sleeping, 0, None)]);
        let lines = lines(SchedLineOptions::default(), (1..).zip(events).map(|(seq, kind)| (0, seq, kind)));
        slices(&lines)[1].off_cpu_ns
    };
    assert_eq!(off_cpu_ns(PrevState::Sleeping, None), Some(400));
    assert_eq!(off_cpu_ns(PrevState::Dead, None), None);
    assert_eq!(off_cpu_ns(PrevState::Sleeping, Some(new)), None, "the exit of the first task was not seen");
}

#[test]
fn nothing_is_measured_across_a_loss() {
    let softirq =
        EventKind::Interrupt(InterruptEvent { source: InterruptSource::Softirq(1), from_ns: 550, to_ns: 560 });
    let lines = lines(
        ALL,
        [
            (0, 1, switch(100, 7, PrevState::Sleeping, 8, None)),
            (1, 1, switch(200, 9, PrevState::Sleeping, 0, None)),
            (0, 4, softirq),
            (0, 5, switch(600, 8, PrevState::Runnable, 0, None)),
            (1, 2, switch(700, 0, PrevState::Runnable, 9, None)),
            (1, 3, switch(900, 9, PrevState::Sleeping, 0, None)),
        ],
    );
    assert_eq!(lines[2], SchedLine::Lost { cpu: 0, at_ns: 560, events: 2 });
    let slices = slices(&lines);
    let of = |tid, until_ns| slices.iter().find(|slice| (slice.task.tid, slice.until_ns) == (tid, until_ns)).unwrap();
    assert_eq!(of(8, 600).run_ns, None, "the task may have left and returned in the meantime");
    assert_eq!(of(9, 900).run_ns, Some(200), "nothing was lost on this CPU");
    assert_eq!(of(9, 900).off_cpu_ns, None, "the task may have been on the other CPU in the meantime");
}

#[test]
fn an_unseen_switch_is_reported() {
    let lines = lines(
        ALL,
        [(0, 1, switch(100, 7, PrevState::Sleeping, 8, None)), (0, 2, switch(300, 9, PrevState::Sleeping, 0, None))],
    );
    assert_eq!(lines[1], SchedLine::Unseen { cpu: 0, at_ns: 300, expected: 8, switched_out: 9 });
    assert_eq!(slices(&lines)[1].run_ns, None);
}

#[test]
fn the_run_time_of_a_task_that_was_away_unseen_is_unknown() {
    let mut back = switch(300, 8, PrevState::Sleeping, 0, None);
    let EventKind::Switch(event) = &mut back else { unreachable!() };
    event.unseen = Some(Unseen { switches: Some(2), switched_in_ns: Some(250) });
    let lines = lines(ALL, [(0, 1, switch(100, 7, PrevState::Sleeping, 8, None)), (0, 2, back)]);
    assert_eq!(lines[1], SchedLine::Unseen { cpu: 0, at_ns: 300, expected: 8, switched_out: 8 });
    assert_eq!(slices(&lines)[1].run_ns, None);
}

/// The true times of a slice, known to the random scheduler.
#[derive(Clone, Copy, Debug)]
struct Truth {
    switched_in_ns: u64,
    off_cpu_ns: Option<u64>,
    /// At the end of the slice, some loss was not known yet.
    unsure: bool,
}

/// Random steps on a machine of up to four CPUs: CPU, incoming task, ns since the step before, whether the event is
/// lost, and whether the outgoing task sleeps.
fn steps() -> impl Strategy<Value = Vec<(u32, u32, u64, bool, bool)>> {
    let step = (0..4u32, 0..9u32, 1..5_000u64, prop::bool::weighted(0.05), any::<bool>());
    prop::collection::vec(step, 1..400)
}

/// Events, each with its CPU and number, and the truth about each slice, by its CPU and end.
type Performed = (Vec<(u32, u32, EventKind)>, HashMap<(u32, u64), Truth>);

/// The events of the steps, without the lost ones, and the truth about each slice.
fn perform(steps: &[(u32, u32, u64, bool, bool)]) -> Performed {
    let (mut now, mut events, mut truths) = (0, Vec::new(), HashMap::default());
    let mut on = HashMap::default();
    let mut last_out: HashMap<u32, (u64, u32)> = HashMap::default();
    let (mut seqs, mut known_seqs) = ([0u32; 4], [0u32; 4]);
    for (cpu, next, after, lost, sleeps) in steps.iter().copied() {
        now += after;
        let (prev, truth) = on.get(&cpu).copied().unwrap_or((0, None));
        if next == prev || next != 0 && on.values().any(|(tid, _)| *tid == next) {
            continue;
        }
        let was = last_out.remove(&next).filter(|_| next != 0);
        let off_cpu_ns = was.map(|(at_ns, _)| now - at_ns);
        let wait = was.map(|(at_ns, prev_cpu)| waited(next, now, (now - at_ns) / 2, prev_cpu));
        on.insert(cpu, (next, Some(Truth { switched_in_ns: now, off_cpu_ns, unsure: false })));
        last_out.insert(prev, (now, cpu));
        seqs[cpu as usize] += 1;
        if !lost {
            known_seqs[cpu as usize] = seqs[cpu as usize];
            let prev_state = if sleeps { PrevState::Sleeping } else { PrevState::Runnable };
            events.push((cpu, seqs[cpu as usize], switch(now, prev, prev_state, next, wait)));
        }
        if let Some(truth) = truth {
            truths.insert((cpu, now), Truth { unsure: seqs != known_seqs, ..truth });
        }
    }
    (events, truths)
}

proptest! {
    #[test]
    fn despite_losses_known_times_are_true(steps in steps()) {
        let (events, truths) = perform(&steps);
        let lines = lines(ALL, events.clone());
        for slice in slices(&lines) {
            let truth = truths.get(&(slice.cpu, slice.until_ns));
            if let Some(run_ns) = slice.run_ns {
                prop_assert_eq!(run_ns, slice.until_ns - truth.unwrap().switched_in_ns);
            }
            if let Some(off_cpu_ns) = slice.off_cpu_ns {
                let truth = truth.unwrap();
                prop_assert!(truth.unsure || Some(off_cpu_ns) == truth.off_cpu_ns, "{slice:?}, but {truth:?}");
                prop_assert!(Some(off_cpu_ns) >= truth.off_cpu_ns);
                prop_assert!(slice.wait.is_none_or(|wait| wait.latency_ns <= off_cpu_ns));
            }
        }
        let lost: u32 = lines.iter().map(|line| if let SchedLine::Lost { events, .. } = line { *events } else { 0 }).sum();
        let last: HashMap<u32, u32> = events.iter().map(|(cpu, seq, _)| (*cpu, *seq)).collect();
        prop_assert_eq!(lost, last.values().sum::<u32>() - events.len() as u32);
    }

    #[test]
    fn slices_and_idle_cover_the_window_of_each_cpu_without_overlap(steps in steps()) {
        let whole: Vec<_> = steps.into_iter().map(|(cpu, next, after, _, sleeps)| (cpu, next, after, false, sleeps)).collect();
        let (events, truths) = perform(&whole);
        let lines = lines(ALL, events.clone());
        let slices = slices(&lines);
        prop_assert_eq!(slices.len(), events.len());
        for cpu in 0..4 {
            let own: Vec<_> = slices.iter().filter(|slice| slice.cpu == cpu).collect();
            for pair in own.windows(2) {
                prop_assert_eq!(pair[1].until_ns - pair[1].run_ns.unwrap(), pair[0].until_ns);
                let truth = truths[&(cpu, pair[1].until_ns)];
                prop_assert_eq!(pair[1].off_cpu_ns, truth.off_cpu_ns.filter(|_| pair[1].task.tid != 0));
            }
        }
    }
}
