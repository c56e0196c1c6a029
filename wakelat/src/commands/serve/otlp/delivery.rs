//! Delivers the exports of a queue, one after another, and tries again when the receiver asks for it.

use std::{
    cell::RefCell,
    hash::{BuildHasher as _, RandomState},
    rc::Rc,
    time::Duration,
};

use super::{
    super::http_client::printable,
    queue::{Attempt, ExportQueue},
};
use crate::status::status;
use bytes::Bytes;
use tokio::{sync::Notify, time::sleep};
use wakelat_core::render::units;

/// The longest pause after the first attempt that failed. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause that wakelat chooses.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause that a receiver can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// The exports and what became of them, shared by the reading that adds exports and the task that delivers them.
#[derive(Debug, Default)]
pub struct SharedQueue {
    /// The exports.
    pub queue: RefCell<ExportQueue>,
    /// Wakes the delivery when there is an export.
    pub added: Notify,
}

/// Delivers the exports of one queue.
pub struct ExportDelivery {
    /// The queue.
    pub shared: Rc<SharedQueue>,
    /// Whether points count what no earlier one has, so that no export may arrive twice.
    pub delta: bool,
    /// The receiver, for messages.
    pub receiver: String,
    /// What failed so far.
    failures: RefCell<Failures>,
}

impl ExportDelivery {
    /// Delivers the exports of an empty queue to `receiver`.
    pub fn new(delta: bool, receiver: String) -> Self {
        Self { shared: Rc::default(), delta, receiver, failures: RefCell::default() }
    }

    /// Delivers exports for ever by `send`.
    pub async fn run(&self, send: impl AsyncFn(Bytes) -> Attempt) {
        loop {
            self.deliver_all(&send).await;
            self.shared.added.notified().await;
        }
    }

    /// Delivers exports until none is left, for the last time: the first pause is short whatever failed before.
    pub async fn deliver_rest(&self, send: impl AsyncFn(Bytes) -> Attempt) {
        self.failures.borrow_mut().count = 0;
        self.deliver_all(send).await;
    }

    /// Delivers exports until none is left.
    async fn deliver_all(&self, send: impl AsyncFn(Bytes) -> Attempt) {
        loop {
            let Some(export) = self.shared.queue.borrow_mut().begin_attempt() else { return };
            let attempt = send(export).await;
            self.shared.queue.borrow_mut().end_attempt(&attempt, self.delta);
            let message = self.failures.borrow_mut().message(&attempt, self.delta);
            if let Some(message) = message {
                status(format_args!("OTLP receiver {}: {message}", self.receiver));
            }
            let pause = self.failures.borrow_mut().pause(&attempt);
            if let Some(pause) = pause {
                sleep(pause).await;
            }
        }
    }
}

/// The attempts that failed since one was accepted.
#[derive(Debug, Default)]
struct Failures {
    count: u32,
    has_warned_of_part: bool,
    jitter: RandomState,
}

impl Failures {
    /// What to report: the first failure, the first delivery after it, and the first part that was refused.
    fn message(&mut self, attempt: &Attempt, delta: bool) -> Option<String> {
        match attempt {
            Attempt::Accepted(Some(partial)) if !self.has_warned_of_part => {
                self.has_warned_of_part = true;
                let points = units::counted(partial.rejected_points, "point");
                Some(format!("refused {points}: {}", printable(&partial.message)))
            }
            Attempt::Accepted(_) => (self.count > 0).then(|| "accepts exports again".to_owned()),
            _ if self.count > 0 => None,
            Attempt::Rejected(why) => Some(format!("refused an export: {}", printable(why))),
            Attempt::Unanswered(why) if delta => {
                Some(format!("{}; the export may have arrived, and is not sent again", printable(why)))
            }
            Attempt::Later { why, .. } | Attempt::Unanswered(why) => Some(format!("{}; trying again", printable(why))),
        }
    }

    /// How long to wait before the next attempt, if at all. Counts the failure. After an export that the receiver
    /// rejects for good, the next one can be sent at once.
    fn pause(&mut self, attempt: &Attempt) -> Option<Duration> {
        if matches!(attempt, Attempt::Accepted(_)) {
            self.count = 0;
            return None;
        }
        let longest = FIRST_PAUSE.saturating_mul(1 << self.count.min(16)).min(MAX_PAUSE);
        self.count = self.count.saturating_add(1);
        // At least half of it, so that many senders do not come back at once.
        let part = self.jitter.hash_one(self.count) as f64 / u64::MAX as f64;
        let pause = longest.mul_f64(0.5 + part / 2.0);
        match attempt {
            Attempt::Rejected(_) => None,
            Attempt::Later { after: Some(after), .. } => Some((*after).min(MAX_RETRY_AFTER)),
            _ => Some(pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;
    use wakelat_core::service::otlp::PartialSuccess;

    use super::*;

    fn later(after_s: Option<u64>) -> Attempt {
        Attempt::Later { why: "503".to_owned(), after: after_s.map(Duration::from_secs) }
    }

    fn unanswered() -> Attempt {
        Attempt::Unanswered("reset".to_owned())
    }

    /// Delivers the exports `a` and `b` to a receiver that answers with `answers` and accepts everything else. Returns what
    /// arrived, with the time of each.
    async fn deliver(delta: bool, answers: Vec<Attempt>) -> Vec<(Bytes, Duration)> {
        let delivery = ExportDelivery::new(delta, "test".to_owned());
        let queue = &delivery.shared.queue;
        ["a", "b"].iter().for_each(|export| _ = queue.borrow_mut().push(Bytes::from_static(export.as_bytes())));
        let (began, at) = (Instant::now(), Cell::new(0));
        let sent = RefCell::new(Vec::new());
        let send = async |export: Bytes| {
            sent.borrow_mut().push((export, began.elapsed()));
            at.set(at.get() + 1);
            answers.get(at.get() - 1).cloned().unwrap_or(Attempt::Accepted(None))
        };
        delivery.deliver_all(send).await;
        assert_eq!(queue.borrow().counts().queued, 0);
        sent.into_inner()
    }

    fn names(sent: &[(Bytes, Duration)]) -> String {
        sent.iter().map(|(export, _)| String::from_utf8_lossy(export).into_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_export_that_did_not_arrive_is_sent_again_before_later_ones() {
        let sent = deliver(true, vec![later(None), later(None), later(None)]).await;
        assert_eq!(names(&sent), "aaaab");
        // Pauses of at most 1, 2 and 4 s, and at least half of these; a timer is late by up to 1 ms.
        let pauses: Vec<f64> = sent.windows(2).map(|pair| (pair[1].1 - pair[0].1).as_secs_f64()).collect();
        for (pause, longest) in pauses.iter().zip([1.0, 2.0, 4.0]) {
            assert!((longest / 2.0..=longest + 0.001).contains(pause), "{pauses:?}");
        }
        assert_eq!(pauses[3], 0.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_chooses_the_pause() {
        let sent = deliver(false, vec![later(Some(17))]).await;
        assert_eq!(sent[1].1.as_secs(), 17);
        let sent = deliver(false, vec![later(Some(u64::MAX))]).await;
        assert_eq!(sent[1].1.as_secs(), 3_600);
    }

    #[tokio::test(start_paused = true)]
    async fn only_cumulative_points_are_sent_twice() {
        assert_eq!(names(&deliver(true, vec![unanswered()]).await), "ab");
        assert_eq!(names(&deliver(false, vec![unanswered()]).await), "aab");
        assert_eq!(names(&deliver(false, vec![Attempt::Rejected("400".to_owned())]).await), "ab");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_export_does_not_delay_the_next_one() {
        let sent = deliver(false, vec![Attempt::Rejected("400".to_owned())]).await;
        assert_eq!((names(&sent).as_str(), sent[1].1), ("ab", Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_delivery_repeats_no_message_about_points_and_begins_with_a_short_pause() {
        let delivery = ExportDelivery::new(false, "test".to_owned());
        let push = || _ = delivery.shared.queue.borrow_mut().push(Bytes::from_static(b"a"));
        let part = || Attempt::Accepted(Some(PartialSuccess { rejected_points: 1, message: String::new() }));
        push();
        delivery.deliver_all(async |_: Bytes| part()).await;
        (0..10).for_each(|_| _ = delivery.failures.borrow_mut().pause(&unanswered()));
        push();
        let (began, attempts) = (Instant::now(), Cell::new(0));
        let send = async |_: Bytes| {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 1 { later(None) } else { part() }
        };
        delivery.deliver_rest(send).await;
        assert!(began.elapsed() <= Duration::from_millis(1_001), "{:?}", began.elapsed());
        assert_eq!(delivery.failures.borrow_mut().message(&part(), false), None);
    }

    #[test]
    fn a_pause_is_bounded_and_each_failure_is_reported_once() {
        let mut failures = Failures::default();
        assert!(failures.message(&later(None), false).is_some());
        for _ in 0..100 {
            assert!(failures.pause(&later(None)).unwrap() <= MAX_PAUSE);
            assert_eq!(failures.message(&later(None), false), None);
        }
        assert_eq!(failures.message(&Attempt::Accepted(None), false).as_deref(), Some("accepts exports again"));
        assert_eq!(failures.pause(&Attempt::Accepted(None)), None);
        let part = || Attempt::Accepted(Some(PartialSuccess { rejected_points: 1, message: "a\nb".to_owned() }));
        assert_eq!(failures.message(&part(), false).as_deref(), Some("refused 1 point: a b"));
        assert_eq!(failures.message(&part(), false), None);
    }
}
