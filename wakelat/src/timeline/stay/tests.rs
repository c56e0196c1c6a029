use proptest::prelude::*;
use wakelat_common::Class;

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

/// A task comes after a wait of `latency_ns`, having had `prev_cpu`.
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
        preempted_sleeping: false,
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

pub(crate) fn switch(at_ns: u64, prev: u32, leaving: PrevState, next: u32, waited: Option<DetailedWait>) -> EventKind {
    let (prev, next) = (task(prev), task(next));
    EventKind::Switch(Box::new(SwitchEvent {
        at_ns,
        prev,
        unseen: None,
        prev_state: leaving,
        next,
        ended_wait: waited,
        idle_state: None,
        rt_throttled: false,
    }))
}

fn lines(shown: SchedLineOptions, events: impl IntoIterator<Item = (u32, u32, EventKind)>) -> Vec<SchedLine> {
    let mut stays = SliceTracker::new(shown);
    events.into_iter().flat_map(|(cpu, seq, what)| stays.take(&Event { cpu, seq, kind: what })).collect()
}

fn slices(lines: &[SchedLine]) -> Vec<&Slice> {
    lines.iter().filter_map(|line| if let SchedLine::Slice(stay) = line { Some(&**stay) } else { None }).collect()
}

#[test]
fn a_stay_ends_with_the_turn_that_takes_its_task_away() {
    let wait = waited(7, 500, 120, 0);
    let lines = lines(
        SchedLineOptions::default(),
        [
            (0, 1, switch(100, 7, PrevState::Sleeping, 0, None)),
            (0, 2, switch(500, 0, PrevState::Runnable, 7, Some(wait))),
            (0, 3, switch(800, 7, PrevState::Dead, 8, None)),
        ],
    );
    let stays = slices(&lines);
    assert_eq!(lines.len(), 2, "idle was not asked for: {lines:?}");
    assert_eq!((stays[0].run_ns, stays[0].off_cpu_ns, stays[0].wait), (None, None, None));
    assert_eq!((stays[1].run_ns, stays[1].off_cpu_ns, stays[1].wait), (Some(300), Some(400), Some(wait.wait)));
    assert_eq!((stays[1].prev_state, stays[1].next.tid, stays[1].until_ns), (PrevState::Dead, 8, 800));
}

#[test]
fn a_number_that_was_another_tasks_has_not_been_away() {
    let new = EventKind::Wakeup(WakeupEvent {
        at_ns: 400,
        tid: 7,
        comm: Comm::new(b"new"),
        new: true,
        running: false,
        target_cpu: 0,
        waker_tid: 1,
    });
    let begins = |leaving, woken: Option<EventKind>| {
        let mut events = vec![switch(100, 7, leaving, 0, None)];
        events.extend(woken);
        events.extend([switch(500, 0, PrevState::Runnable, 7, None), switch(800, 7, PrevState::Sleeping, 0, None)]);
        let lines = lines(SchedLineOptions::default(), (1..).zip(events).map(|(seq, what)| (0, seq, what)));
        slices(&lines)[1].off_cpu_ns
    };
    assert_eq!(begins(PrevState::Sleeping, None), Some(400));
    assert_eq!(begins(PrevState::Dead, None), None);
    assert_eq!(begins(PrevState::Sleeping, Some(new)), None, "its end was not seen, but its beginning");
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
    let stays = slices(&lines);
    let of = |tid, until_ns| stays.iter().find(|stay| (stay.task.tid, stay.until_ns) == (tid, until_ns)).unwrap();
    assert_eq!(of(8, 600).run_ns, None, "it may have come and gone meanwhile");
    assert_eq!(of(9, 900).run_ns, Some(200), "nothing was lost on this CPU");
    assert_eq!(of(9, 900).off_cpu_ns, None, "it may have been on the other CPU meanwhile");
}

#[test]
fn a_switch_that_no_tracepoint_showed_is_told() {
    let lines = lines(
        ALL,
        [(0, 1, switch(100, 7, PrevState::Sleeping, 8, None)), (0, 2, switch(300, 9, PrevState::Sleeping, 0, None))],
    );
    assert_eq!(lines[1], SchedLine::Unseen { cpu: 0, at_ns: 300, expected: 8, switched_out: 9 });
    assert_eq!(slices(&lines)[1].run_ns, None);
}

#[test]
fn a_task_that_was_away_unseen_has_no_run_that_is_known() {
    let mut back = switch(300, 8, PrevState::Sleeping, 0, None);
    let EventKind::Switch(turn_back) = &mut back else { unreachable!() };
    turn_back.unseen = Some(Unseen { switches: Some(2), switched_in_ns: Some(250) });
    let lines = lines(ALL, [(0, 1, switch(100, 7, PrevState::Sleeping, 8, None)), (0, 2, back)]);
    assert_eq!(lines[1], SchedLine::Unseen { cpu: 0, at_ns: 300, expected: 8, switched_out: 8 });
    assert_eq!(slices(&lines)[1].run_ns, None);
}

/// What a random scheduler did, which knows everything about each stay.
#[derive(Clone, Copy, Debug)]
struct Truth {
    came_ns: u64,
    off_cpu_ns: Option<u64>,
    /// When it ended, some loss had not been told yet.
    unsure: bool,
}

/// A machine of two to four CPUs whose steps are drawn: (CPU, who comes, time, lost, sleeps).
fn steps() -> impl Strategy<Value = Vec<(u32, u32, u64, bool, bool)>> {
    let step = (0..4u32, 0..9u32, 1..5_000u64, prop::bool::weighted(0.05), any::<bool>());
    prop::collection::vec(step, 1..400)
}

/// What each CPU told, as CPU, number and event; and the truth of each stay, by task and end.
type Performed = (Vec<(u32, u32, EventKind)>, HashMap<(u32, u64), Truth>);

/// Events of the steps, without those lost, and the truth about each stay by its CPU and its end.
fn perform(steps: &[(u32, u32, u64, bool, bool)]) -> Performed {
    let (mut now, mut events, mut truths) = (0, Vec::new(), HashMap::default());
    let mut on = HashMap::default();
    let mut left: HashMap<u32, (u64, u32)> = HashMap::default();
    let (mut seqs, mut told) = ([0u32; 4], [0u32; 4]);
    for (cpu, next, after, lost, sleeps) in steps.iter().copied() {
        now += after;
        let (prev, truth) = on.get(&cpu).copied().unwrap_or((0, None));
        if next == prev || next != 0 && on.values().any(|(tid, _)| *tid == next) {
            continue;
        }
        let was = left.remove(&next).filter(|_| next != 0);
        let off_cpu_ns = was.map(|(at_ns, _)| now - at_ns);
        let wait = was.map(|(at_ns, prev_cpu)| waited(next, now, (now - at_ns) / 2, prev_cpu));
        on.insert(cpu, (next, Some(Truth { came_ns: now, off_cpu_ns, unsure: false })));
        left.insert(prev, (now, cpu));
        seqs[cpu as usize] += 1;
        if !lost {
            told[cpu as usize] = seqs[cpu as usize];
            let leaving = if sleeps { PrevState::Sleeping } else { PrevState::Runnable };
            events.push((cpu, seqs[cpu as usize], switch(now, prev, leaving, next, wait)));
        }
        if let Some(truth) = truth {
            truths.insert((cpu, now), Truth { unsure: seqs != told, ..truth });
        }
    }
    (events, truths)
}

proptest! {
    #[test]
    fn whatever_is_lost_what_is_told_is_true(steps in steps()) {
        let (events, truths) = perform(&steps);
        let lines = lines(ALL, events.clone());
        for stay in slices(&lines) {
            let truth = truths.get(&(stay.cpu, stay.until_ns));
            if let Some(run_ns) = stay.run_ns {
                prop_assert_eq!(run_ns, stay.until_ns - truth.unwrap().came_ns);
            }
            if let Some(off_cpu_ns) = stay.off_cpu_ns {
                let truth = truth.unwrap();
                prop_assert!(truth.unsure || Some(off_cpu_ns) == truth.off_cpu_ns, "{stay:?}, but {truth:?}");
                prop_assert!(Some(off_cpu_ns) >= truth.off_cpu_ns);
                prop_assert!(stay.wait.is_none_or(|wait| wait.latency_ns <= off_cpu_ns));
            }
        }
        let told: u32 = lines.iter().map(|line| if let SchedLine::Lost { events, .. } = line { *events } else { 0 }).sum();
        let last: HashMap<u32, u32> = events.iter().map(|(cpu, seq, _)| (*cpu, *seq)).collect();
        prop_assert_eq!(told, last.values().sum::<u32>() - events.len() as u32);
    }

    #[test]
    fn stays_and_idle_cover_the_window_of_each_cpu_without_overlap(steps in steps()) {
        let whole: Vec<_> = steps.into_iter().map(|(cpu, next, after, _, sleeps)| (cpu, next, after, false, sleeps)).collect();
        let (events, truths) = perform(&whole);
        let lines = lines(ALL, events.clone());
        let stays = slices(&lines);
        prop_assert_eq!(stays.len(), events.len());
        for cpu in 0..4 {
            let own: Vec<_> = stays.iter().filter(|stay| stay.cpu == cpu).collect();
            for pair in own.windows(2) {
                prop_assert_eq!(pair[1].until_ns - pair[1].run_ns.unwrap(), pair[0].until_ns);
                let truth = truths[&(cpu, pair[1].until_ns)];
                prop_assert_eq!(pair[1].off_cpu_ns, truth.off_cpu_ns.filter(|_| pair[1].task.tid != 0));
            }
        }
    }
}
