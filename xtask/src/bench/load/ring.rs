//! Threads in a ring that wake each other in turn.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// A ring of threads around which tokens are handed: who gets one works, wakes its neighbour, and sleeps again.
///
/// Without work this is wakeup after wakeup, each of another task; with many threads, most of them sleep at any time.
/// With work and more tokens than CPUs it is a server's load: requests, think time, and a queue for the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRing {
    /// How many.
    pub threads: usize,
    /// How many tokens go round at the same time.
    pub tokens: u64,
    /// What a thread does with each: rounds of a loop of about a nanosecond.
    pub work: u64,
    /// How often a token is handed on, on average.
    pub hops: u64,
}

struct RingState {
    ring: TokenRing,
    /// For each thread, the tokens that it was handed and has not taken yet.
    seats: Vec<AtomicU64>,
    neighbours: OnceLock<Vec<Thread>>,
    /// Hops taken in this performance.
    hops: AtomicU64,
    /// Tokens that have come to rest.
    finished: AtomicU64,
    master: Thread,
}

/// A ring whose threads are there.
pub struct PreparedRing(Arc<RingState>);

/// Enough for a thread that calls nothing deep.
const STACK_BYTES: usize = 32 << 10;

impl TokenRing {
    /// Its threads, all of them asleep or about to be.
    ///
    /// # Errors
    /// If there is no room for so many.
    pub fn stage(self) -> anyhow::Result<PreparedRing> {
        let table = Arc::new(RingState {
            ring: self,
            seats: (0..self.threads).map(|_| AtomicU64::new(0)).collect(),
            neighbours: OnceLock::new(),
            hops: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            master: thread::current(),
        });
        let mut threads = Vec::with_capacity(self.threads);
        for seat in 0..self.threads {
            let table = table.clone();
            let body = move || table.run_thread(seat);
            let builder = thread::Builder::new().name("bench-ring".to_owned()).stack_size(STACK_BYTES);
            let handle =
                builder.spawn(body).with_context(|| format!("no room for thread {seat} of {}", self.threads))?;
            threads.push(handle.thread().clone());
        }
        let _ = table.neighbours.set(threads);
        Ok(PreparedRing(table))
    }
}

impl PreparedRing {
    /// Hands out the tokens, evenly, and waits until each has gone its way.
    pub fn perform(&self) {
        let table = &self.0;
        table.hops.store(0, SeqCst);
        table.finished.store(0, SeqCst);
        for token in 0..table.ring.tokens {
            table.hand_to(token as usize * table.ring.threads / table.ring.tokens as usize);
        }
        while table.finished.load(SeqCst) < table.ring.tokens {
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
    fn every_token_goes_its_way_in_every_performance() {
        let ring = TokenRing { threads: 5, tokens: 3, work: 0, hops: 100 };
        let staged = ring.stage().unwrap();
        for _ in 0..2 {
            staged.perform();
            // Who takes a token when all hops are taken puts it to rest, and has counted it.
            assert_eq!(staged.0.hops.load(SeqCst), ring.tokens * ring.hops + ring.tokens);
            assert!(staged.0.seats.iter().all(|seat| seat.load(SeqCst) == 0));
        }
    }
}
