//! How far two instruments' readings of the clock for the same events are apart. Pure.

use crate::{replay, report};

/// By how much wakelat's readings lie behind those of the recorded events, wait by wait, rising: ns.
///
/// A wait has two ends, and at each the record's time is read first and the program runs after it. So the *end* of a wait is
/// late by what recording a `sched_switch` takes and what the program does before it asks for the time; its *latency* is
/// longer by what that is more than at the start.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ClockDifferences {
    /// Of the ends.
    pub end_ns: Vec<i64>,
    /// Of the latencies.
    pub latency_ns: Vec<i64>,
    /// Of the deliveries: both ends are wakeups.
    pub delivery_ns: Vec<i64>,
}

impl ClockDifferences {
    /// Holds every sample against its recorded wait: task, class, CPU and waker must be the same.
    ///
    /// # Panics
    /// If one is not, or one side has a wait more.
    pub fn of(samples: &[report::JsonWait], waits: &[replay::ReplayWait]) -> Self {
        let mut distances = Self::default();
        for (sample, wait) in samples.iter().zip(waits) {
            let waker = if wait.class == "wakeup" { wait.waker } else { None };
            assert_eq!(
                (sample.tid, sample.class.as_str(), sample.cpu, sample.waker_tid),
                (wait.tid, wait.class, wait.cpu, waker),
                "{sample:?} was recorded as {wait:?}"
            );
            distances.end_ns.push(difference(sample.at_ns, wait.at_ns));
            distances.latency_ns.push(difference(sample.latency_ns, wait.latency_ns));
            if let (Some(sample_ns), Some(wait_ns)) = (sample.delivery_ns, wait.delivery_ns) {
                distances.delivery_ns.push(difference(sample_ns, wait_ns));
            }
        }
        let last = |count: usize| (samples.get(count), waits.get(count));
        assert_eq!(samples.len(), waits.len(), "{:?}", last(distances.end_ns.len()));
        for all in [&mut distances.end_ns, &mut distances.latency_ns, &mut distances.delivery_ns] {
            all.sort_unstable();
        }
        distances
    }

    /// Smallest, middle and largest of each, in words.
    pub fn text(&self) -> String {
        let of = |name: &str, all: &[i64]| match all {
            [] => format!("no {name}"),
            [first, .., last] => format!("{name} {first}, {}, {last}", all[all.len() / 2]),
            [only] => format!("{name} {only}"),
        };
        format!(
            "ns later than recorded (least, median, most): {}; {}; {}",
            of("ends", &self.end_ns),
            of("latencies", &self.latency_ns),
            of("deliveries", &self.delivery_ns)
        )
    }
}

fn difference(later: u64, earlier: u64) -> i64 {
    later.wrapping_sub(earlier) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ns: u64) -> report::JsonWait {
        report::JsonWait {
            at_ns,
            class: "wakeup".to_owned(),
            latency_ns: 30,
            delivery_ns: Some(12),
            tid: 7,
            pid: None,
            cpu: 1,
            prev_cpu: None,
            waker_tid: Some(9),
            parts: Default::default(),
        }
    }

    fn wait(at_ns: u64) -> replay::ReplayWait {
        replay::ReplayWait {
            tid: 7,
            class: "wakeup",
            at_ns,
            latency_ns: 31,
            delivery_ns: Some(10),
            waker: Some(9),
            cpu: 1,
        }
    }

    #[test]
    fn each_sample_is_held_against_its_own_wait() {
        let distances = ClockDifferences::of(&[sample(100), sample(200)], &[wait(98), wait(190)]);
        assert_eq!(distances.end_ns, [2, 10]);
        assert_eq!((&distances.latency_ns[..], &distances.delivery_ns[..]), (&[-1, -1][..], &[2, 2][..]));
        assert!(distances.text().contains("ends 2, 10, 10; latencies -1, -1, -1; deliveries 2, 2, 2"));
    }

    #[test]
    #[should_panic(expected = "was recorded as")]
    fn another_task_is_another_wait() {
        ClockDifferences::of(&[sample(100)], &[replay::ReplayWait { tid: 8, ..wait(98) }]);
    }

    #[test]
    #[should_panic(expected = "Some(JsonWait { at_ns: 200")]
    fn a_sample_too_many_is_shown() {
        ClockDifferences::of(&[sample(100), sample(200)], &[wait(98)]);
    }
}
