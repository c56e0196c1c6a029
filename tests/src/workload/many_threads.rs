//! More threads than any map has room for.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering::SeqCst},
};

use serde::{Deserialize, Serialize};

use super::{LoadReport, stage::Stage};
use crate::{machine, skip::Skip, sysctl::Sysctl};

/// Threads named `wl-many` that are all asleep, and are all woken at once, each exactly once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ManyThreads {
    /// Number of threads.
    pub threads: u64,
}

/// Memory of one thread, in the kernel and in user space: bytes, rounded up.
const THREAD_BYTES: u64 = 64 << 10;

/// Mappings of one thread of Rust's library: its stack and its signal stack, each with a guard page.
const MAPPINGS: u64 = 4;

impl ManyThreads {
    /// `wanted` threads, or as many as this machine has room for. Also returns the setting that makes room for them.
    ///
    /// # Errors
    /// If there is no room for 100 threads.
    pub fn with_room(wanted: u64) -> Result<(Self, Sysctl), Skip> {
        let room = [
            wanted,
            machine::available_memory() / 2 / THREAD_BYTES,
            Sysctl::get("kernel/threads-max") / 2,
            Sysctl::get("kernel/pid_max") * 2 / 3,
        ];
        let threads = room.into_iter().min().unwrap_or(0);
        if threads < 100 {
            return Err(Skip::because(format!("needs room for 100 threads, found {threads}")));
        }
        println!("\n  {threads} threads");
        Ok((Self { threads }, Sysctl::set("vm/max_map_count", 65_530 + threads * MAPPINGS)))
    }

    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let word = Arc::new(AtomicU32::new(0));
        let ran = Arc::new(AtomicU64::new(0));
        let never = Arc::new(AtomicU32::new(0));
        let ready = Arc::new(AtomicU64::new(0));
        for _ in 0..self.threads {
            let (word, ran, never, ready) = (word.clone(), ran.clone(), never.clone(), ready.clone());
            std::thread::Builder::new()
                .name("wl-many".to_owned())
                .stack_size(32 << 10)
                .spawn(move || {
                    ready.fetch_add(1, SeqCst);
                    wait_while_zero(&word);
                    ran.fetch_add(1, SeqCst);
                    wait_while_zero(&never);
                })
                .expect("room for a thread");
        }
        // Setting up a thread may block; from here on, threads block only where they should.
        while ready.load(SeqCst) < self.threads {
            std::thread::yield_now();
        }
        stage.go();
        // A thread that is not yet asleep is not counted as woken, so each is woken exactly once, and
        // eventually all are.
        let mut woken = 0;
        while woken < self.threads {
            woken += wake_all(&word);
            std::thread::yield_now();
        }
        while ran.load(SeqCst) < self.threads {
            std::thread::yield_now();
        }
        LoadReport { wakeups: [("wl-many".to_owned(), self.threads)].into(), ..LoadReport::default() }
    }
}

/// Blocks until woken. The word stays 0 throughout: a thread that comes late also sleeps and is woken.
fn wait_while_zero(word: &AtomicU32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call, and the null timeout means none.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 0, std::ptr::null::<libc::timespec>()) };
}

fn wake_all(word: &AtomicU32) -> u64 {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, i32::MAX) };
    u64::try_from(woken).expect("FUTEX_WAKE cannot fail on a mapped word")
}
