//! A thread that keeps a CPU busy from one call to another.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::channel,
    },
    thread::{self, JoinHandle},
};

use nix::unistd::gettid;

use crate::{competing_threads::set_affinity, procfs, workload::until};

/// A thread of this process that is always runnable between [`Self::begin`] and its end. Dropping it ends it.
pub struct Spinner {
    /// Its TID.
    pub tid: u32,
    begin: Arc<Barrier>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Starts a thread called `name`, which is blocked on `cpu`.
    pub fn new(name: &str, cpu: usize) -> Self {
        let (begin, stop) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
        let (number, tid) = channel();
        let (begins, stops) = (Arc::clone(&begin), Arc::clone(&stop));
        let body = move || {
            set_affinity([cpu]);
            number.send(gettid().as_raw().unsigned_abs()).expect("the test has the receiver");
            begins.wait();
            while !stops.load(SeqCst) {}
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread can be started");
        let tid = tid.recv().expect("the thread sends its TID");
        until("the thread is blocked", || procfs::is_blocked(tid));
        Self { tid, begin, stop, thread: Some(thread) }
    }

    /// Makes it runnable. Call once.
    pub fn begin(&self) {
        self.begin.wait();
    }

    /// Ends it, and returns once it is gone: whatever waited for it has its CPU.
    pub fn finish(mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().expect("it ends once").join().expect("it only spins");
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        // A thread that has not begun waits until the process ends.
        self.stop.store(true, SeqCst);
    }
}
