//! When conditions have held for long enough, and when they may have a capture.

use std::collections::BTreeMap;

use super::capture_condition::{CaptureCondition, CaptureReason};
use crate::why::counted::GroupTotal;

/// How long a cgroup may have no waits until the condition holds no longer: ns, or the time for which the condition has to
/// hold, if that is longer.
const LONGEST_GAP_NS: u64 = 10_000_000_000;

/// Judges the waits of each cgroup by conditions. Times are ns of any clock that does not go back.
#[derive(Clone, Debug)]
pub struct CaptureWatch {
    conditions: Vec<WatchedCondition>,
    /// The least time between the end of a capture and the next one of the same condition.
    interval_ns: u64,
    /// The last reading: the waits of the next one ended after it.
    read_at_ns: Option<u64>,
    /// The condition whose capture has begun and not ended.
    capturing: Option<usize>,
}

/// A condition, and the cgroups that have had waits lately.
#[derive(Clone, Debug)]
struct WatchedCondition {
    condition: CaptureCondition,
    groups: BTreeMap<String, JudgedGroup>,
    /// It has no capture before.
    next_at_ns: u64,
}

/// The waits of a cgroup by one condition.
#[derive(Clone, Debug)]
struct JudgedGroup {
    /// When the current window began.
    from_ns: u64,
    /// The waits of the current window, which is not judged yet.
    window: GroupTotal,
    /// The windows until now that met the condition without one in between that did not.
    held: Option<HeldTime>,
}

/// The time in which the waits of a cgroup met the condition.
#[derive(Clone, Debug)]
struct HeldTime {
    from_ns: u64,
    /// The end of the last window.
    to_ns: u64,
    waits: GroupTotal,
}

impl JudgedGroup {
    /// Ends the window at `now_ns` if it is long enough, and judges its waits. No waits change nothing.
    fn judge(&mut self, condition: &CaptureCondition, now_ns: u64) {
        if now_ns.saturating_sub(self.from_ns) < condition.window_ns() || self.window.waits == 0 {
            return;
        }
        let window = std::mem::take(&mut self.window);
        self.held = condition.is_met_by(&window).then(|| {
            let before = self.held.take();
            let from_ns = before.as_ref().map_or(self.from_ns, |held| held.from_ns);
            let mut waits = before.map(|held| held.waits).unwrap_or_default();
            waits.merge(&window);
            HeldTime { from_ns, to_ns: now_ns, waits }
        });
        self.from_ns = now_ns;
    }
}

impl CaptureWatch {
    /// Judges by `conditions`; two captures of the same one are at least `interval_ns` apart.
    pub fn new(conditions: impl IntoIterator<Item = CaptureCondition>, interval_ns: u64) -> Self {
        let watched = |condition| WatchedCondition { condition, groups: BTreeMap::new(), next_at_ns: 0 };
        let conditions = conditions.into_iter().map(watched).collect();
        Self { conditions, interval_ns, read_at_ns: None, capturing: None }
    }

    /// Adds the waits that have ended since the last reading, by cgroup. `applies`: whether the condition of this index is
    /// about this cgroup.
    pub fn reading<'a>(
        &mut self,
        now_ns: u64,
        waits: impl Iterator<Item = (&'a str, &'a GroupTotal)> + Clone,
        applies: impl Fn(usize, &str) -> bool,
    ) {
        let from_ns = self.read_at_ns.replace(now_ns).unwrap_or(now_ns);
        for (index, WatchedCondition { condition, groups, .. }) in self.conditions.iter_mut().enumerate() {
            for (cgroup, total) in waits.clone().filter(|(cgroup, _)| applies(index, cgroup)) {
                let begin = || JudgedGroup { from_ns, window: GroupTotal::default(), held: None };
                let group = match groups.get_mut(cgroup) {
                    Some(group) => group,
                    None => groups.entry(cgroup.to_owned()).or_insert_with(begin),
                };
                group.window.merge(total);
            }
            let longest_gap_ns = condition.hold_ns.max(LONGEST_GAP_NS);
            groups.retain(|_, group| {
                group.judge(condition, now_ns);
                group.held.take_if(|held| now_ns.saturating_sub(held.to_ns) > longest_gap_ns);
                group.held.is_some() || group.window.waits > 0
            });
        }
    }

    /// The reason for a capture, if one is due: the first condition that has held for long enough, has had none for long
    /// enough, and of its cgroups the one with the highest value. `None` while another capture has not ended.
    pub fn due(&self, now_ns: u64) -> Option<CaptureReason> {
        if self.capturing.is_some() {
            return None;
        }
        let may_capture = self.conditions.iter().enumerate().filter(|(_, watched)| now_ns >= watched.next_at_ns);
        may_capture.filter_map(|(index, watched)| watched.reason(index)).next()
    }

    /// The capture of a condition has begun.
    pub fn begun(&mut self, condition: usize) {
        self.capturing = Some(condition);
    }

    /// The capture has ended. Returns the index of its condition.
    pub fn ended(&mut self, now_ns: u64) -> Option<usize> {
        let condition = self.capturing.take()?;
        self.conditions.get_mut(condition)?.next_at_ns = now_ns.saturating_add(self.interval_ns);
        Some(condition)
    }
}

impl WatchedCondition {
    fn reason(&self, index: usize) -> Option<CaptureReason> {
        let statistic = self.condition.statistic;
        let held = self.groups.iter().filter_map(|(cgroup, group)| Some((cgroup, group.held.as_ref()?)));
        let reasons =
            held.filter(|(_, held)| held.to_ns - held.from_ns >= self.condition.hold_ns).map(|(cgroup, held)| {
                CaptureReason {
                    condition: index,
                    cgroup: cgroup.clone(),
                    statistic,
                    value_ns: statistic.value_ns(&held.waits),
                    held_ns: held.to_ns - held.from_ns,
                }
            });
        reasons.max_by_key(|reason| reason.value_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::capture_condition::{
            WaitStatistic,
            testing::{above_20_ms, waits},
        },
        *,
    };

    const SECOND: u64 = 1_000_000_000;
    const LONG: u64 = 30_000_000;
    const SHORT: u64 = 1_000_000;

    /// A watch of the condition that the median exceeds 20 ms for `hold_s`, with an interval of 100 s.
    fn watch(hold_s: u64) -> CaptureWatch {
        let mut watch = CaptureWatch::new([above_20_ms(WaitStatistic::P50, hold_s * SECOND)], 100 * SECOND);
        read(&mut watch, 0, &[]);
        watch
    }

    /// A reading of ten waits of this length for each cgroup.
    fn read(watch: &mut CaptureWatch, second: u64, groups: &[(&str, u64)]) {
        let totals: Vec<_> = groups.iter().map(|(name, ns)| (*name, waits(10, *ns))).collect();
        watch.reading(second * SECOND, totals.iter().map(|(name, total)| (*name, total)), |_, name| name != "/not");
    }

    /// The seconds at which a capture is due, if each second's waits have the length that `length` returns.
    fn due(hold_s: u64, until_s: u64, length: impl Fn(u64) -> Option<u64>) -> Vec<u64> {
        let mut watch = watch(hold_s);
        let mut due = Vec::new();
        for second in 1..=until_s {
            let waits: Vec<_> = length(second).into_iter().flat_map(|ns| [("/a", ns), ("/not", LONG)]).collect();
            read(&mut watch, second, &waits);
            due.extend(watch.due(second * SECOND).map(|_| second));
        }
        due
    }

    #[test]
    fn a_condition_is_due_once_it_has_held_for_its_time() {
        assert_eq!(due(30, 32, |_| Some(LONG)).first(), Some(&30));
        assert_eq!(due(2, 32, |_| Some(LONG)).first(), Some(&2));
        assert_eq!(due(0, 32, |_| Some(LONG)).first(), Some(&1));
        assert!(due(0, 32, |_| Some(SHORT)).is_empty());
    }

    #[test]
    fn a_window_that_does_not_meet_it_begins_the_time_anew() {
        let bad_window = |second| if (11..=15).contains(&second) { SHORT } else { LONG };
        assert_eq!(due(30, 50, |second| Some(bad_window(second))).first(), Some(&45));
        // A short moment within a window does not.
        let bad_second = |second| if second == 11 { SHORT } else { LONG };
        assert_eq!(due(30, 50, |second| Some(bad_second(second))).first(), Some(&30));
    }

    #[test]
    fn seconds_without_waits_change_nothing_unless_they_are_too_many() {
        assert_eq!(due(30, 50, |second| (second % 4 == 1).then_some(LONG)).first(), Some(&30));
        assert!(due(10, 100, |second| (second % 20 == 0).then_some(LONG)).is_empty());
    }

    #[test]
    fn one_capture_at_a_time_and_no_other_of_the_same_condition_before_the_interval_has_passed() {
        let conditions = [WaitStatistic::P50, WaitStatistic::Max].map(|statistic| above_20_ms(statistic, 0));
        let mut watch = CaptureWatch::new(conditions, 100 * SECOND);
        read(&mut watch, 1, &[("/a", LONG), ("/b", 2 * LONG)]);
        let reason = watch.due(SECOND).unwrap();
        assert_eq!((reason.condition, reason.cgroup.as_str(), reason.value_ns), (0, "/b", 2 * LONG));
        watch.begun(0);
        read(&mut watch, 2, &[("/a", LONG)]);
        assert_eq!(watch.due(2 * SECOND), None);
        assert_eq!(watch.ended(11 * SECOND), Some(0));
        assert_eq!(watch.ended(11 * SECOND), None);
        // The other condition is not limited.
        let due = |watch: &CaptureWatch, second| watch.due(second * SECOND).map(|reason| reason.condition);
        assert_eq!(due(&watch, 11), Some(1));
        watch.begun(1);
        watch.ended(12 * SECOND);
        assert_eq!([12, 110, 111].map(|second| due(&watch, second)), [None, None, Some(0)]);
    }

    #[test]
    fn cgroups_that_wait_no_longer_are_forgotten() {
        let mut watch = watch(2);
        (1..=4).for_each(|second| read(&mut watch, second, &[("/a", LONG), ("/b", SHORT)]));
        assert_eq!(watch.conditions[0].groups.len(), 1, "the window of /b has just ended");
        read(&mut watch, 15, &[]);
        assert!(watch.conditions[0].groups.is_empty());
    }
}
