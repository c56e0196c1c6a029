//! How far two instruments' clock readings of the same events are apart. Pure.

use crate::{replay, report};

/// By how much wakelat's readings lag behind those of the recorded events, one value per wait, in
/// ascending order: ns.
///
/// A wait has two ends. At each, the kernel first takes the record's time and then runs the program. So
/// the *end* of a wait is late by the time that it takes to record a `sched_switch` and by what the
/// program does before it reads the clock; the *latency* is longer by the difference between this lag
/// and the lag at the start.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ClockDifferences {
    /// Differences of the ends.
    pub end_ns: Vec<i64>,
    /// Differences of the latencies.
    pub latency_ns: Vec<i64>,
    /// Differences of the wake deliveries; both ends of a delivery are wakeup events.
    pub delivery_ns: Vec<i64>,
}

impl ClockDifferences {
    /// Compares every sample with its recorded wait: task, class, CPU and waker must be the same.
    ///
    /// # Panics
    /// If one of them differs, or if one side has more waits.
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

    /// Smallest, median and largest difference of each kind, as text.
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
            components: Default::default(),
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
    fn each_sample_is_compared_with_its_own_wait() {
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
    fn an_extra_sample_is_reported() {
        ClockDifferences::of(&[sample(100), sample(200)], &[wait(98)]);
    }
}
