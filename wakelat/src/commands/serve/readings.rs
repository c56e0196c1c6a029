//! When the kernel's tables are read: at least every few seconds, so that they have room for what comes next, and for
//! answers that need newer totals.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::totals::SharedTotals;

/// Time between two scheduled readings: as long as a slot of the last minute.
const INTERVAL: Duration = Duration::from_secs(5);

/// How much too early a reading may be. Whether it is due is checked once a second, but not to the ns.
const EARLY: Duration = Duration::from_millis(500);

/// How old totals in an answer may be without a new reading.
const MAX_AGE_S: f64 = 1.0;

/// How long an answer waits for a reading.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The scheduled readings.
pub struct ReadingSchedule {
    each_second: bool,
    interval: Duration,
    last: Option<Instant>,
}

impl ReadingSchedule {
    /// Readings are due each second, or only every five, or after `longest` if that is shorter.
    pub fn new(each_second: bool, longest: Option<Duration>) -> Self {
        let interval = longest.map_or(INTERVAL, |longest| longest.min(INTERVAL));
        Self { each_second, interval, last: None }
    }

    /// From now on, readings are due each second.
    pub fn set_each_second(&mut self) {
        self.each_second = true;
    }

    /// The tables have been read.
    pub fn made(&mut self, now: Instant) {
        self.last = Some(now);
    }

    /// Whether a reading is due. This is checked each second.
    pub fn is_due(&self, now: Instant) -> bool {
        self.each_second || self.last.is_none_or(|last| now - last >= self.interval.saturating_sub(EARLY))
    }
}

/// Requests for a reading, from the thread that answers to the one that reads.
#[derive(Clone)]
pub struct ReadingRequests {
    wanted: Arc<Notify>,
    made: watch::Sender<()>,
}

impl Default for ReadingRequests {
    fn default() -> Self {
        Self { wanted: Arc::default(), made: watch::Sender::new(()) }
    }
}

impl ReadingRequests {
    /// Is notified if a reading is requested. Several requests can be one notification.
    pub fn wanted(&self) -> Arc<Notify> {
        Arc::clone(&self.wanted)
    }

    /// A reading is part of the totals: answers that wait for one can be given.
    pub fn made(&self) {
        // It also answers a request that the reader has not seen yet: that would cause a second reading at once.
        let unseen = pin!(self.wanted.notified());
        _ = unseen.enable();
        self.made.send_replace(());
    }

    /// Returns when `totals` are not older than a second, or after a second: then the reader is too busy.
    pub async fn renew(&self, totals: &SharedTotals) {
        let mut made = self.made.subscribe();
        if totals.lock().age_s().is_some_and(|age_s| age_s <= MAX_AGE_S) {
            return;
        }
        self.wanted.notify_one();
        _ = timeout(TIMEOUT, made.changed()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::task::yield_now;
    use wakelat_core::report::Report;

    use super::*;
    use crate::config::ServeSettings;

    #[test]
    fn readings_are_due_every_five_seconds_or_each_second() {
        let start = Instant::now();
        let due = |schedule: &mut ReadingSchedule| -> Vec<u64> {
            let due = |second: &u64| {
                let now = start + Duration::from_secs(*second) + Duration::from_millis(second % 3);
                let due = schedule.is_due(now);
                if due {
                    schedule.made(now);
                }
                due
            };
            (1..=12).filter(due).collect()
        };
        assert_eq!(due(&mut ReadingSchedule::new(false, None)), [1, 6, 11]);
        assert_eq!(due(&mut ReadingSchedule::new(false, Some(Duration::from_secs(15)))), [1, 6, 11]);
        assert_eq!(due(&mut ReadingSchedule::new(false, Some(Duration::from_secs(2)))), [1, 3, 5, 7, 9, 11]);
        assert_eq!(due(&mut ReadingSchedule::new(false, Some(Duration::from_millis(200)))).len(), 12);
        assert_eq!(due(&mut ReadingSchedule::new(true, None)).len(), 12);
        let mut schedule = ReadingSchedule::new(false, None);
        schedule.set_each_second();
        assert_eq!(due(&mut schedule).len(), 12);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_answers_a_request_that_the_reader_has_not_seen_yet() {
        let requests = ReadingRequests::default();
        requests.wanted.notify_one();
        requests.made();
        assert!(timeout(TIMEOUT, requests.wanted.notified()).await.is_err(), "another reading would follow at once");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_a_reading_unless_the_last_one_is_new() {
        let (totals, requests) = (SharedTotals::new(ServeSettings::default()), ReadingRequests::default());
        let is_renewed = Cell::new(false);
        let answer = async {
            requests.renew(&totals).await;
            is_renewed.set(true);
        };
        let reader = async {
            requests.wanted().notified().await;
            yield_now().await;
            assert!(!is_renewed.get());
            totals.lock().covered(&Report::default(), |_| true);
            requests.made();
        };
        tokio::join!(answer, reader);
        // The last reading is new: no other one is requested.
        let started = tokio::time::Instant::now();
        requests.renew(&totals).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_a_second_at_most() {
        let started = tokio::time::Instant::now();
        ReadingRequests::default().renew(&SharedTotals::new(ServeSettings::default())).await;
        assert!((TIMEOUT..TIMEOUT + EARLY).contains(&started.elapsed()), "{:?}", started.elapsed());
    }
}
