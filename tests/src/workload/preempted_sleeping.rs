//! A task that is preempted on its way to sleep, and moved to another CPU and back while it waits.

use std::{
    ptr,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst},
};

use rustix::{
    io::Errno,
    thread::{
        ClockId,
        futex::{self, Wait, WaitFlags, WaitPtr, WaitvFlags},
    },
};
use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::{
    clock::{now_ns, spin},
    shared::Shared,
    task::{Policy, TaskPlacement, pin, set_nice},
};

/// `wl-sleeper` blocks again and again. Each time `wl-mover`, on another CPU, makes the real-time `wl-preemptor` take the
/// sleeper's CPU, and tries to move the sleeper to its own CPU and back before the preemptor blocks.
///
/// The sleeper waits for many futexes at once: the kernel sets its state to a sleeping one, and only then looks at each
/// of them (`futex_wait_multiple_setup()`, kernel/futex/waitwake.c, since 5.16). A kernel that can be preempted
/// meanwhile lets the sleeper wait in a sleeping state. It has no start for this wait, but queues the task anew at
/// each move, and so counts it (`sched_info_enqueue()`, kernel/sched/stats.h).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PreemptedSleeping {
    /// Number of sleeps.
    pub rounds: u64,
    /// The CPU of the mover, and that of the others.
    pub cpus: [usize; 2],
    /// Whether the mover also moves the sleeper: otherwise, the kernel does not count its waits in a sleeping state.
    pub moves: bool,
}

/// The most futexes that a task can wait for at once (`FUTEX_WAITV_MAX`, include/uapi/linux/futex.h).
const FUTEXES: usize = 128;

/// The words that the tasks share, beside the futexes: the round in which the sleeper is about to block, that in which the
/// preemptor runs, that in which it may block, and how long it took to run when it was last woken, in ns.
const BLOCKING: usize = FUTEXES;
const PREEMPTING: usize = FUTEXES + 1;
const MOVED: usize = FUTEXES + 2;
const DELAY_NS: usize = FUTEXES + 3;

/// How long the preemptor runs at most: ns. Moving a task takes some µs, and more where the kernel is emulated.
const LONGEST_NS: u64 = 2_000_000;

/// The moments at which the sleeper blocks are these fractions of the time until the preemptor runs.
const MOMENTS: u64 = 64;

impl PreemptedSleeping {
    /// Whether the kernel can wait for many futexes at once.
    pub fn is_possible() -> bool {
        futex::waitv(&[], WaitvFlags::empty(), None, ClockId::Monotonic) != Err(Errno::NOSYS)
    }

    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let [mover_cpu, cpu] = self.cpus;
        let words = Shared::new(FUTEXES + 4);
        let wait_for = |word: usize, round: u64| {
            while words[word].load(SeqCst) < round {
                std::hint::spin_loop();
            }
        };
        let turn = BytePipe::new();
        let sleeper = stage.task("wl-sleeper", TaskPlacement::other(cpu), |gate| {
            gate.wait();
            for round in 1..=self.rounds {
                words[BLOCKING].store(round, SeqCst);
                spin(words[DELAY_NS].load(SeqCst) * (round * 37 % MOMENTS) / MOMENTS);
                block_while(&words[..FUTEXES], round - 1);
            }
        });
        stage.task("wl-preemptor", TaskPlacement { cpu: Some(cpu), policy: Policy::Fifo(20) }, |gate| {
            gate.wait();
            for round in 1..=self.rounds {
                turn.take();
                words[PREEMPTING].store(round, SeqCst);
                // If the sleeper may not migrate now, for a lock that it has (PREEMPT_RT), the mover waits until it may.
                let until_ns = now_ns() + LONGEST_NS;
                while words[MOVED].load(SeqCst) < round && now_ns() < until_ns {
                    std::hint::spin_loop();
                }
            }
        });
        stage.task("wl-mover", TaskPlacement::other(mover_cpu), |gate| {
            // So that the sleeper seldom takes its CPU.
            set_nice(0, -20);
            gate.wait();
            for round in 1..=self.rounds {
                wait_for(BLOCKING, round);
                let woken_ns = now_ns();
                turn.put();
                wait_for(PREEMPTING, round);
                words[DELAY_NS].store(now_ns() - woken_ns, SeqCst);
                if self.moves {
                    pin(sleeper, mover_cpu);
                    pin(sleeper, cpu);
                }
                words[MOVED].store(round, SeqCst);
                unblock(&words[..FUTEXES], round);
            }
        });
        stage.go();
        stage.until_done();
        LoadReport::default()
    }
}

/// The futex of a word: its low half.
fn futex_of(word: &AtomicU64) -> &AtomicU32 {
    const { assert!(cfg!(target_endian = "little")) };
    // SAFETY: the half lives as long as the word and is aligned; both are atomic.
    unsafe { &*ptr::from_ref(word).cast() }
}

/// Blocks while the last of `words` is `value` and all others are 0.
fn block_while(words: &[AtomicU64], value: u64) {
    let mut waits: Vec<Wait> = words.iter().map(wait_on).collect();
    let (wait, word) = (waits.last_mut().expect("many"), words.last().expect("many"));
    wait.val = value;
    while word.load(SeqCst) == value {
        match futex::waitv(&waits, WaitvFlags::empty(), None, ClockId::Monotonic) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => panic!("futex_waitv: {error}"),
        }
    }
}

fn wait_on(word: &AtomicU64) -> Wait {
    let mut wait = Wait::new();
    wait.uaddr = WaitPtr::new(futex_of(word).as_ptr().cast());
    wait.flags = WaitFlags::SIZE_U32;
    wait
}

/// Makes the last of `words` `value` and wakes the task that waits for it.
fn unblock(words: &[AtomicU64], value: u64) {
    let word = words.last().expect("many");
    word.store(value, SeqCst);
    futex::wake(futex_of(word), futex::Flags::empty(), 1).expect("a mapped word");
}
