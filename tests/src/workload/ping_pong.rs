//! Two tasks that wake each other in turn.

use std::{collections::BTreeMap, sync::atomic::Ordering::SeqCst};

use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::{
    clock::{block_until, now_ns},
    procfs::Watch,
    shared::Shared,
    task::{Policy, TaskPlacement, blocked_count},
};

/// `wl-ping` and `wl-pong` hand a byte to and fro over two pipes.
///
/// The wakeups are exact if each side blocks before the other writes: because both are `patient`, or because
/// both are SCHED_FIFO of the same priority on one CPU, where the wakee does not run before its waker blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PingPong {
    /// Bytes each way.
    pub rounds: u64,
    /// CPU and policy of `wl-ping`.
    pub ping: TaskPlacement,
    /// CPU and policy of `wl-pong`.
    pub pong: TaskPlacement,
    /// Whether each side spins until the kernel has the other off its CPU before it writes.
    pub patient: bool,
    /// How long each side sleeps afterwards, if not 0: a stale pending wait would become a giant wait now: ns.
    pub sleep_after_ns: u64,
}

/// What one side knows about the other.
struct Sides {
    /// PID of `wl-ping`.
    ping_pid: Shared,
    /// How often each side had blocked when it was last about to write.
    blocked: Shared,
    /// For each byte: when it was written, and, once it is read, how long ago that was: ns.
    times: Shared,
}

impl PingPong {
    /// Both tasks on `cpu`, with exact counts.
    pub const fn on_one(cpu: usize, rounds: u64) -> Self {
        let place = TaskPlacement::fifo(cpu);
        Self { rounds, ping: place, pong: place, patient: false, sleep_after_ns: 0 }
    }

    /// The tasks on two CPUs, with exact counts.
    pub const fn across(cpus: [usize; 2], rounds: u64) -> Self {
        Self {
            rounds,
            ping: TaskPlacement::other(cpus[0]),
            pong: TaskPlacement::other(cpus[1]),
            patient: true,
            sleep_after_ns: 0,
        }
    }

    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let sides =
            Sides { ping_pid: Shared::new(1), blocked: Shared::new(2), times: Shared::new(2 * self.rounds as usize) };
        let (to_ping, to_pong) = (BytePipe::new(), BytePipe::new());
        let pong = stage.task("wl-pong", self.pong, |_| {
            let mut ping = None;
            for round in 0..self.rounds as usize {
                to_pong.take();
                sides.read(2 * round);
                if self.patient {
                    let ping = ping.get_or_insert_with(|| Watch::new(sides.ping_pid[0].load(SeqCst) as u32));
                    sides.wait_for(ping, 1, 0);
                }
                sides.write(2 * round + 1, &to_ping);
            }
            self.sleep_after();
        });
        stage.task("wl-ping", self.ping, |gate| {
            let mut pong = Watch::new(pong);
            sides.ping_pid[0].store(u64::from(std::process::id()), SeqCst);
            gate.wait();
            for round in 0..self.rounds as usize {
                if self.patient {
                    sides.wait_for(&mut pong, 0, 1);
                }
                sides.write(2 * round, &to_pong);
                to_ping.take();
                sides.read(2 * round + 1);
            }
            self.sleep_after();
        });
        stage.go();
        stage.until_done();
        let waits_ns = sides.times.iter().map(|time| time.load(SeqCst)).collect();
        LoadReport { wakeups: self.wakeups(), waits_ns, ..LoadReport::default() }
    }

    /// Counts one wakeup for the byte of each round, one for the final sleep, and one for the gate.
    fn wakeups(&self) -> BTreeMap<String, u64> {
        let in_turn = self.ping.cpu.is_some()
            && self.ping.cpu == self.pong.cpu
            && self.ping.policy == self.pong.policy
            && matches!(self.ping.policy, Policy::Fifo(_));
        if !in_turn && !self.patient {
            return BTreeMap::new();
        }
        let each = self.rounds + u64::from(self.sleep_after_ns != 0);
        [("wl-ping".to_owned(), each + 1), ("wl-pong".to_owned(), each)].into()
    }

    fn sleep_after(&self) {
        if self.sleep_after_ns != 0 {
            block_until(now_ns() + self.sleep_after_ns);
        }
    }
}

impl Sides {
    fn write(&self, index: usize, pipe: &BytePipe) {
        self.times[index].store(now_ns(), SeqCst);
        pipe.put();
    }

    fn read(&self, index: usize) {
        let now_ns = now_ns();
        self.times[index].store(now_ns - self.times[index].load(SeqCst), SeqCst);
    }

    /// Publishes how often `me` has blocked so far, then spins until `other` has blocked since it last wrote.
    fn wait_for(&self, other: &mut Watch, me: usize, other_index: usize) {
        self.blocked[me].store(blocked_count(), SeqCst);
        other.until_blocked_more_than(self.blocked[other_index].load(SeqCst));
    }
}
