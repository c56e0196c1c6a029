//! Softirqs by name.

/// The names of softirqs, by number (`softirq_to_name`, kernel/softirq.c).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The name of a softirq, by its number.
pub fn softirq_name(vector: i32) -> Option<&'static str> {
    SOFTIRQS.get(usize::try_from(vector).ok()?).copied()
}
