//! One of the longest waits, with its shares and their places on the timeline.

use wakelat_common::Class;

use crate::{
    timeline::{
        Breakdown,
        breakdown::{Share, Span},
        component::{Actor, Component, Culprit, UnknownReason},
        event::TaskInfo,
    },
    wait::Comm,
};

/// Most shares of a wait that are kept one by one.
const SHARES: usize = 24;

/// Pieces of a share that are this part of the wait apart, or less, are kept as one: a terminal shows no gap.
const VISIBLE: u64 = 256;

/// Most pieces of a wait that are kept.
const SPANS: usize = 512;

/// A wait, with the times of its culprits.
#[derive(Clone, Debug)]
pub struct KeptWait {
    /// The task that waited.
    pub task: TaskInfo,
    /// Why it waited.
    pub class: Class,
    /// The CPU on which it ended.
    pub cpu: u32,
    /// When its latency began: ns of CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// Its latency: ns.
    pub latency_ns: u64,
    /// When it ended: ns since 1970-01-01 UTC.
    pub ended_unix_ns: u64,
    /// The task that woke it, with its name if that is known.
    pub waker: Option<(u32, Option<Comm>)>,
    /// How often the task migrated meanwhile.
    pub migrations: u8,
    /// A share for each culprit, in the order of time.
    pub shares: Vec<Share>,
    /// The pieces of the shares.
    pub spans: Vec<Span>,
    /// Number and time (ns) of the shares that are not kept.
    pub left_out: (u64, u64),
}

impl KeptWait {
    /// What is kept of a wait.
    pub fn new(breakdown: &Breakdown, ended_unix_ns: u64, waker: Option<(u32, Option<Comm>)>) -> Self {
        let wait = &breakdown.ended_wait.wait;
        let mut sizes: Vec<(u64, usize)> = (0..).zip(&breakdown.shares).map(|(at, share)| (share.ns, at)).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let (kept, left_out) = sizes.split_at(sizes.len().min(SHARES));
        let mut kept: Vec<usize> = kept.iter().map(|(_, at)| *at).collect();
        kept.sort_unstable();
        let mut spans: Vec<Span> = Vec::new();
        let mut last_of: Vec<Option<usize>> = vec![None; kept.len()];
        for span in &breakdown.spans {
            let Ok(share) = kept.binary_search(&span.share) else { continue };
            let is_apart = |last: &Span| span.from_ns.saturating_sub(last.to_ns) > breakdown.latency_ns / VISIBLE;
            match last_of[share].filter(|at| !is_apart(&spans[*at]) && spans[*at].cpu == span.cpu) {
                Some(at) => spans[at].to_ns = span.to_ns,
                None if spans.len() < SPANS => {
                    last_of[share] = Some(spans.len());
                    spans.push(Span { share, ..*span });
                }
                None => {}
            }
        }
        Self {
            task: breakdown.waiter,
            class: wait.class,
            cpu: wait.cpu,
            from_ns: breakdown.from_ns,
            latency_ns: breakdown.latency_ns,
            ended_unix_ns,
            waker,
            migrations: breakdown.ended_wait.migrations,
            shares: kept.iter().map(|at| breakdown.shares[*at]).collect(),
            spans,
            left_out: (left_out.len() as u64, left_out.iter().map(|(ns, _)| ns).sum()),
        }
    }

    /// When it ended: ns of CLOCK_MONOTONIC.
    pub fn ended_ns(&self) -> u64 {
        self.from_ns.saturating_add(self.latency_ns)
    }

    /// The culprit with the most time.
    pub fn main_culprit(&self) -> Culprit {
        let most = self.shares.iter().max_by_key(|share| share.ns).map(|share| share.culprit);
        most.unwrap_or(Culprit { component: Component::Unexplained, actor: Actor::Unknown(UnknownReason::Clock) })
    }

    /// Orders waits: the longest first; of equally long ones, the one that ended first.
    pub fn order(&self) -> (std::cmp::Reverse<u64>, u64, u32) {
        (std::cmp::Reverse(self.latency_ns), self.from_ns, self.task.tid)
    }
}
