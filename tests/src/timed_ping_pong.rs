//! Two threads of the test that wake each other until the test stops them, and record when.

use std::{
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::channel,
    },
    thread::{self, JoinHandle},
};

use crate::{
    byte::{put_byte, take_byte},
    clock::{block_until, now_ns},
    task::{self, TaskPlacement},
};

/// `wl-ping` and `wl-pong`, both SCHED_FIFO of the same priority on one CPU: each blocks before it is woken.
pub struct TimedPingPong {
    stop: Arc<AtomicBool>,
    ping: JoinHandle<Vec<u64>>,
    pong: JoinHandle<Vec<u64>>,
    /// Their thread IDs.
    pub tids: [u32; 2],
}

/// A byte from one thread to the other.
#[derive(Clone, Copy, Debug)]
pub struct TimedWakeup {
    /// The thread that blocked until it could read the byte.
    pub tid: u32,
    /// When the byte was about to be written: ns of CLOCK_MONOTONIC.
    pub written_at_ns: u64,
    /// When it had been read: ns of CLOCK_MONOTONIC.
    pub read_at_ns: u64,
}

impl TimedPingPong {
    /// Starts both threads on `cpu`. `wl-ping` sleeps for `pause_ns` after each round.
    pub fn start(cpu: usize, pause_ns: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let [(ping_reader, to_ping), (pong_reader, to_pong)] = [(); 2].map(|()| std::io::pipe().expect("a pipe"));
        let (started, tids) = channel();
        let begin = move |name: &str, started: std::sync::mpsc::Sender<u32>| {
            task::name(name);
            TaskPlacement::fifo(cpu).take();
            started.send(nix::unistd::gettid().as_raw() as u32).expect("the test waits for it");
        };
        let ended = Arc::new(AtomicBool::new(false));
        let (pong_started, is_last_round) = (started.clone(), ended.clone());
        let pong = thread::spawn(move || {
            begin("wl-pong", pong_started);
            let mut times_ns = Vec::new();
            loop {
                take_byte(pong_reader.as_fd());
                times_ns.push(now_ns());
                // Before the answer, after which the next round may begin.
                let is_last = is_last_round.load(Relaxed);
                times_ns.push(now_ns());
                put_byte(to_ping.as_fd());
                if is_last {
                    return times_ns;
                }
            }
        });
        let pong_tid = tids.recv().expect("it has started");
        let stopped = stop.clone();
        let ping = thread::spawn(move || {
            begin("wl-ping", started);
            let mut times_ns = Vec::new();
            loop {
                let is_last = stopped.load(Relaxed);
                ended.store(is_last, Relaxed);
                times_ns.push(now_ns());
                put_byte(to_pong.as_fd());
                take_byte(ping_reader.as_fd());
                times_ns.push(now_ns());
                if is_last {
                    return times_ns;
                }
                block_until(now_ns() + pause_ns);
            }
        });
        let ping_tid = tids.recv().expect("it has started");
        Self { stop, ping, pong, tids: [ping_tid, pong_tid] }
    }

    /// Stops both threads. Returns all wakeups.
    pub fn stop(self) -> Vec<TimedWakeup> {
        self.stop.store(true, Relaxed);
        let [ping, pong] = [self.ping, self.pong].map(|thread| thread.join().expect("it only transfers bytes"));
        let [ping_tid, pong_tid] = self.tids;
        let rounds = ping.chunks_exact(2).zip(pong.chunks_exact(2));
        let wakeups = rounds.flat_map(|(ping, pong)| {
            [
                TimedWakeup { tid: pong_tid, written_at_ns: ping[0], read_at_ns: pong[0] },
                TimedWakeup { tid: ping_tid, written_at_ns: pong[1], read_at_ns: ping[1] },
            ]
        });
        wakeups.collect()
    }
}
