//! Threads in a ring that wake each other in turn.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// A ring of threads that hand tokens around: a thread that gets one works, wakes its neighbour, and sleeps
/// again.
///
/// Without work, this is one wakeup after another, each of another task; with many threads, most of them
/// sleep at any time. With work and more tokens than CPUs, it is the load of a server: requests, think
/// time, and a queue for the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRing {
    /// The number of threads.
    pub threads: usize,
    /// The number of tokens that go round at the same time.
    pub tokens: u64,
    /// Work per token: iterations of a loop that take about a nanosecond each.
    pub work: u64,
    /// How often a token is handed on, on average.
    pub hops: u64,
}

struct RingState {
    ring: TokenRing,
    /// For each thread, the tokens that it has been handed and has not taken yet.
    seats: Vec<AtomicU64>,
    neighbours: OnceLock<Vec<Thread>>,
    /// Hops taken in this run.
    hops: AtomicU64,
    /// Tokens that have made all their hops.
    finished: AtomicU64,
    master: Thread,
}

/// A ring whose threads exist.
pub struct PreparedRing(Arc<RingState>);

/// Stack size: enough for a thread without deep calls.
const STACK_BYTES: usize = 32 << 10;

impl TokenRing {
    /// Starts the threads; all of them are asleep or about to be.
    pub fn stage(self) -> anyhow::Result<PreparedRing> {
        let state = Arc::new(RingState {
            ring: self,
            seats: (0..self.threads).map(|_| AtomicU64::new(0)).collect(),
            neighbours: OnceLock::new(),
            hops: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            master: thread::current(),
        });
        let mut threads = Vec::with_capacity(self.threads);
        for seat in 0..self.threads {
            let state = state.clone();
            let body = move || state.run_thread(seat);
            let builder = thread::Builder::new().name("bench-ring".to_owned()).stack_size(STACK_BYTES);
            let handle =
                builder.spawn(body).with_context(|| format!("no room for thread {seat} of {}", self.threads))?;
            threads.push(handle.thread().clone());
        }
        let _ = state.neighbours.set(threads);
        Ok(PreparedRing(state))
    }
}

impl PreparedRing {
    /// Hands out the tokens, evenly, and waits until all of them have finished.
    pub fn perform(&self) {
        let state = &self.0;
        state.hops.store(0, SeqCst);
        state.finished.store(0, SeqCst);
        for token in 0..state.ring.tokens {
            state.hand_to(token as usize * state.ring.threads / state.ring.tokens as usize);
        }
        while state.finished.load(SeqCst) < state.ring.tokens {
            thread::park();
        }
    }
}

impl RingState {
    fn run_thread(&self, seat: usize) {
        loop {
            while self.seats[seat].load(SeqCst) == 0 {
                thread::park();
            }
            self.seats[seat].fetch_sub(1, SeqCst);
            for round in 0..self.ring.work {
                black_box(round);
            }
            if self.hops.fetch_add(1, SeqCst) < self.ring.tokens * self.ring.hops {
                self.hand_to((seat + 1) % self.ring.threads);
            } else if self.finished.fetch_add(1, SeqCst) + 1 == self.ring.tokens {
                self.master.unpark();
            }
        }
    }

    fn hand_to(&self, seat: usize) {
        self.seats[seat].fetch_add(1, SeqCst);
        if let Some(threads) = self.neighbours.get() {
            threads[seat].unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_finishes_in_every_run() {
        let ring = TokenRing { threads: 5, tokens: 3, work: 0, hops: 100 };
        let staged = ring.stage().unwrap();
        for _ in 0..2 {
            staged.perform();
            // The thread that takes a token after the last hop retires it, and has counted it.
            assert_eq!(staged.0.hops.load(SeqCst), ring.tokens * ring.hops + ring.tokens);
            assert!(staged.0.seats.iter().all(|seat| seat.load(SeqCst) == 0));
        }
    }
}
