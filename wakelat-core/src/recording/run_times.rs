//! How long tasks ran, from the switches of a recording.

use std::collections::BTreeMap;

use crate::{
    aggregate::key::{GroupKey, Key, Names},
    files::number_of_cpu,
    hash::HashMap,
    report::{KeyPart, Report},
    timeline::event::{Event, EventKind, SwitchEvent, TaskInfo},
};

/// Most groups whose run time is kept. That of further ones is unknown.
const MAX_GROUPS: usize = 1 << 18;

/// The run times of the current window, by group. A slice belongs to the group of its task as it was switched in, like the
/// wait before it.
///
/// Of a slice that began before the window or still runs at its end, the part in the window counts, as in the kernel's
/// figures of a measurement. A slice is left out if events were lost on its CPU: its task may have left and returned.
#[derive(Debug)]
pub(super) struct RecordedRunTimes {
    keys: Vec<Key>,
    /// Time in the current window: ns. Negative if a slice ended before the time until which it was counted: the events of
    /// the last instants before a reading may follow it.
    groups: HashMap<GroupKey, i64>,
    cpus: HashMap<u32, CpuRun>,
    /// The tasks that the CPUs ran until their first switch, and its time: ns of CLOCK_MONOTONIC.
    first: Vec<(GroupKey, u64)>,
    /// When the window began, if that is known: ns of CLOCK_MONOTONIC.
    begin_ns: Option<u64>,
}

/// What a CPU runs.
#[derive(Clone, Copy, Debug)]
struct CpuRun {
    /// The number of its last event.
    seq: u32,
    /// The time of its last event: ns of CLOCK_MONOTONIC.
    latest_ns: u64,
    /// It has switched.
    has_switched: bool,
    task: Option<RunningTask>,
}

#[derive(Clone, Copy, Debug)]
struct RunningTask {
    tid: u32,
    /// Its group; `None` if the filter excludes it, and for the idle task.
    group: Option<GroupKey>,
    /// Until when its time has been counted: ns of CLOCK_MONOTONIC.
    counted_ns: u64,
}

impl RecordedRunTimes {
    /// The run times of groups by `keys`; `None` if one of them is not a property of a task that runs.
    pub fn by(keys: &[Key]) -> Option<Self> {
        let is_of_run = |key: &Key| !matches!(key, Key::Class | Key::Waker | Key::Component);
        keys.iter().all(is_of_run).then(|| Self {
            keys: keys.to_owned(),
            groups: HashMap::default(),
            cpus: HashMap::default(),
            first: Vec::new(),
            begin_ns: None,
        })
    }

    /// Follows an event, whose tasks are marked as those that the filter accepts.
    pub fn follow(&mut self, event: &Event) {
        let none = CpuRun { seq: 0, latest_ns: 0, has_switched: false, task: None };
        let cpu = self.cpus.entry(event.cpu).or_insert(none);
        cpu.latest_ns = event.kind.at_ns().max(cpu.latest_ns);
        if event.lost_since(&mut cpu.seq) > 0 {
            // Other tasks may have run.
            (cpu.task, cpu.has_switched) = (None, true);
        }
        if let EventKind::Switch(switch) = &event.kind {
            self.switch(event.cpu, switch);
        }
    }

    fn switch(&mut self, number: u32, switch: &SwitchEvent) {
        let (at_ns, next) = (switch.at_ns, &switch.next);
        let group =
            |task: &TaskInfo| (task.wanted && task.tid != 0).then(|| GroupKey::of_task(task, number, &self.keys));
        let task = RunningTask { tid: next.tid, group: group(next), counted_ns: at_ns };
        let Some(cpu) = self.cpus.get_mut(&number) else { return };
        let (before, is_first) = (cpu.task.replace(task), !std::mem::replace(&mut cpu.has_switched, true));
        if switch.unseen.is_some() {
            return;
        }
        match before {
            None if is_first => self.first.extend(group(&switch.prev).map(|group| (group, at_ns))),
            Some(RunningTask { tid, group: Some(group), counted_ns }) if tid == switch.prev.tid => {
                self.add(group, counted_ns, at_ns);
            }
            _ => {}
        }
    }

    fn add(&mut self, group: GroupKey, from_ns: u64, to_ns: u64) {
        let added_ns = to_ns.wrapping_sub(from_ns) as i64;
        if let Some(ns) = self.groups.get_mut(&group) {
            *ns = ns.saturating_add(added_ns);
        } else if self.groups.len() < MAX_GROUPS {
            self.groups.insert(group, added_ns);
        }
    }

    /// The run times at the end of the window, or so far, by key. `reading`: the report of the recording at that time, if
    /// it is of one recording: with several, tasks are taken to have run until the last event of theirs.
    pub fn until(&mut self, reading: Option<&Report>, names: &dyn Names) -> BTreeMap<Vec<KeyPart>, u64> {
        let begin_ns = self.begin_ns.or_else(|| reading.map(|reading| monotonic_ns(reading, 0)));
        for (group, at_ns) in std::mem::take(&mut self.first) {
            if let Some(begin_ns) = begin_ns.filter(|begin_ns| *begin_ns < at_ns) {
                self.add(group, begin_ns, at_ns);
            }
        }
        let end_ns = reading.map(|reading| monotonic_ns(reading, reading.duration_ns));
        let (mut running, latest_ns) = (Vec::new(), self.latest_ns());
        for (number, cpu) in &mut self.cpus {
            let Some(RunningTask { group: Some(group), counted_ns, .. }) = &mut cpu.task else { continue };
            let latest_ns = latest_ns.get(&number_of_cpu(*number)).copied();
            let Some(to_ns) = end_ns.or(latest_ns).filter(|to_ns| to_ns >= counted_ns) else { continue };
            running.push((*group, *counted_ns, to_ns));
            *counted_ns = to_ns;
        }
        running.into_iter().for_each(|(group, from_ns, to_ns)| self.add(group, from_ns, to_ns));
        let mut by_name: BTreeMap<Vec<KeyPart>, u64> = BTreeMap::new();
        for (group, ns) in &self.groups {
            let sum_ns = by_name.entry(group.key_parts(&self.keys, names)).or_default();
            *sum_ns = sum_ns.saturating_add((*ns).max(0) as u64);
        }
        by_name
    }

    /// The time of the last event of each file: ns of CLOCK_MONOTONIC.
    fn latest_ns(&self) -> HashMap<u32, u64> {
        let mut files = HashMap::default();
        for (number, cpu) in &self.cpus {
            let latest_ns: &mut u64 = files.entry(number_of_cpu(*number)).or_default();
            *latest_ns = cpu.latest_ns.max(*latest_ns);
        }
        files
    }

    /// Begins a window at the end of `reading`.
    pub fn begin(&mut self, reading: &Report) {
        self.begin_ns = Some(monotonic_ns(reading, reading.duration_ns));
        self.groups.clear();
    }

    /// Begins a window at the last event: the warm-up has ended.
    pub fn warmed_up(&mut self) {
        self.groups.clear();
        self.first.clear();
        let latest_ns = self.latest_ns();
        for (number, cpu) in &mut self.cpus {
            cpu.has_switched = true;
            let latest_ns = latest_ns.get(&number_of_cpu(*number)).copied().unwrap_or(0);
            cpu.task.iter_mut().for_each(|task| task.counted_ns = latest_ns.max(task.counted_ns));
        }
    }
}

/// The time that is `since_begin_ns` after the begin of the recording of `report`: ns of CLOCK_MONOTONIC.
fn monotonic_ns(report: &Report, since_begin_ns: u64) -> u64 {
    let begin_ns = i128::from(report.start_unix_ns) - i128::from(report.unix_offset_ns);
    u64::try_from(begin_ns + i128::from(since_begin_ns)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakelat_common::pending_wait::PrevState;

    use super::*;
    use crate::{
        report::KeyValue,
        timeline::{event::Unseen, timehist::tests::switch},
        wait::Comm,
    };

    type Sums = Vec<(u64, u64)>;

    fn by_tid() -> RecordedRunTimes {
        RecordedRunTimes::by(&[Key::Tid]).unwrap()
    }

    /// The report of a recording that began at 1,000 ns of CLOCK_MONOTONIC, after `duration_ns`.
    fn after(duration_ns: u64) -> Report {
        Report { start_unix_ns: 51_000, unix_offset_ns: 50_000, duration_ns, ..Report::default() }
    }

    /// TIDs and run times.
    fn sums(runs: &mut RecordedRunTimes, reading: Option<&Report>) -> Sums {
        let names: BTreeMap<u32, Comm> = BTreeMap::new();
        let tid = |key: Vec<KeyPart>| if let KeyValue::Number(tid) = key[0].value { tid as u64 } else { 0 };
        runs.until(reading, &names).into_iter().map(|(key, ns)| (tid(key), ns)).collect()
    }

    fn follow(runs: &mut RecordedRunTimes, cpu: u32, seq: u32, (at_ns, prev, next): (u64, u32, u32)) {
        runs.follow(&Event { cpu, seq, kind: switch(at_ns, prev, PrevState::Runnable, next, None) });
    }

    #[test]
    fn a_task_ran_from_its_switch_in_or_the_begin_to_its_switch_out_or_the_end() {
        let mut runs = by_tid();
        follow(&mut runs, 0, 1, (1_200, 7, 8));
        follow(&mut runs, 0, 2, (1_500, 8, 0));
        follow(&mut runs, 0, 3, (1_600, 0, 7));
        assert_eq!(sums(&mut runs, Some(&after(1_000))), [(7, 200 + 400), (8, 300)]);
        // Nothing is counted twice.
        assert_eq!(sums(&mut runs, Some(&after(1_000))), [(7, 600), (8, 300)]);
        // The reading came before events of its last instants.
        follow(&mut runs, 0, 4, (1_900, 7, 8));
        assert_eq!(sums(&mut runs, Some(&after(1_000))), [(7, 500), (8, 400)]);
    }

    #[test]
    fn a_slice_is_left_out_if_its_begin_or_end_was_not_seen() {
        let mut runs = by_tid();
        follow(&mut runs, 0, 1, (1_200, 0, 7));
        // Events are missing: 7 may have left.
        follow(&mut runs, 0, 3, (1_500, 7, 8));
        // Not the task that was switched in.
        follow(&mut runs, 0, 4, (1_700, 9, 7));
        let mut back = switch(1_800, 7, PrevState::Runnable, 0, None);
        let EventKind::Switch(event) = &mut back else { unreachable!() };
        event.unseen = Some(Unseen { switches: Some(2), switched_in_ns: None });
        runs.follow(&Event { cpu: 0, seq: 5, kind: back });
        // The first events of this CPU are missing.
        follow(&mut runs, 1, 2, (1_900, 7, 0));
        assert_eq!(sums(&mut runs, Some(&after(1_000))), []);
    }

    #[test]
    fn a_task_that_the_filter_excludes_has_no_run_time() {
        let mut runs = by_tid();
        let mut excluded = switch(1_200, 7, PrevState::Runnable, 8, None);
        let EventKind::Switch(event) = &mut excluded else { unreachable!() };
        (event.prev.wanted, event.next.wanted) = (false, false);
        runs.follow(&Event { cpu: 0, seq: 1, kind: excluded });
        follow(&mut runs, 0, 2, (1_500, 8, 9));
        assert_eq!(sums(&mut runs, Some(&after(1_000))), [(9, 500)]);
    }

    #[test]
    fn a_window_begins_at_a_reading_or_after_the_warm_up() {
        let mut runs = by_tid();
        follow(&mut runs, 0, 1, (1_200, 7, 8));
        runs.warmed_up();
        assert_eq!(sums(&mut runs, Some(&after(1_000))), [(8, 800)]);
        runs.begin(&after(1_000));
        follow(&mut runs, 0, 2, (2_100, 8, 9));
        // This CPU has not switched before.
        follow(&mut runs, 1, 1, (2_300, 7, 0));
        assert_eq!(sums(&mut runs, Some(&after(2_000))), [(7, 300), (8, 100), (9, 900)]);
    }

    #[test]
    fn without_a_time_of_its_own_a_recording_ends_at_its_last_event() {
        let mut runs = by_tid();
        follow(&mut runs, 0, 1, (1_200, 7, 8));
        follow(&mut runs, 1, 1, (1_900, 0, 9));
        assert_eq!(sums(&mut runs, None), [(8, 700), (9, 0)]);
    }

    #[test]
    fn only_properties_of_a_task_that_runs_have_run_times() {
        for key in Key::ALL {
            let has = !matches!(key, Key::Class | Key::Waker | Key::Component);
            assert_eq!(RecordedRunTimes::by(&[Key::Comm, key]).is_some(), has, "{key:?}");
        }
        let mut runs = RecordedRunTimes::by(&[]).unwrap();
        follow(&mut runs, 0, 1, (1_200, 7, 8));
        assert_eq!(runs.until(Some(&after(1_000)), &BTreeMap::<u32, Comm>::new()), [(Vec::new(), 1_000)].into());
    }

    proptest! {
        /// All CPUs are busy or idle all the time, and the windows add up to the whole.
        #[test]
        fn windows_add_up_to_the_time_of_the_cpus(
            switches in prop::collection::vec((0u32..3, 1u64..200, 0u32..5, any::<bool>()), 1..60),
        ) {
            let (mut whole, mut windows) = (by_tid(), by_tid());
            let (mut now_ns, mut added): (u64, BTreeMap<u64, u64>) = (1_000, BTreeMap::new());
            let (mut tasks, mut seqs, mut idle_ns, mut since) = ([0u32; 3], [0u32; 3], 0, [1_000u64; 3]);
            for (cpu, after_ns, next, is_reading) in switches {
                now_ns += after_ns;
                let at = cpu as usize;
                seqs[at] += 1;
                for runs in [&mut whole, &mut windows] {
                    follow(runs, cpu, seqs[at], (now_ns, tasks[at], next));
                }
                idle_ns += if tasks[at] == 0 { now_ns - since[at] } else { 0 };
                (tasks[at], since[at]) = (next, now_ns);
                if is_reading {
                    sums(&mut windows, Some(&after(now_ns - 1_000))).into_iter().for_each(|(tid, ns)| *added.entry(tid).or_default() += ns);
                    windows.begin(&after(now_ns - 1_000));
                }
            }
            let end = after(now_ns - 1_000);
            sums(&mut windows, Some(&end)).into_iter().for_each(|(tid, ns)| *added.entry(tid).or_default() += ns);
            idle_ns += (0..3).map(|cpu| if tasks[cpu] == 0 { now_ns - since[cpu] } else { 0 }).sum::<u64>();
            let of_whole = sums(&mut whole, Some(&end));
            prop_assert_eq!(of_whole.iter().map(|(_, ns)| ns).sum::<u64>() + idle_ns, 3 * (now_ns - 1_000));
            prop_assert_eq!(added.into_iter().filter(|(_, ns)| *ns > 0).collect::<Sums>(), of_whole.into_iter().filter(|(_, ns)| *ns > 0).collect::<Sums>());
        }
    }
}
