//! Groups of tasks that send each other messages, as hackbench and `perf bench sched messaging` do.

use std::io::{Read, Write};

use nix::fcntl::{FcntlArg, fcntl};
use serde::{Deserialize, Serialize};

use super::{
    LoadReport,
    stage::{BytePipe, Stage},
};
use crate::task;

/// In each group, every `wl-sender` sends to every `wl-receiver`, over one pipe for each receiver. All
/// start at once and run wherever the scheduler puts them. Only the kernel knows how often they wait;
/// it is often, because a pipe has room for only four messages. At the end, each blocks until the load is killed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Messaging {
    /// Number of groups.
    pub groups: usize,
    /// Number of senders in each group, and of receivers.
    pub fan: usize,
    /// Number of messages from each sender to each receiver.
    pub messages: usize,
}

/// Size of a message: bytes.
const MESSAGE: usize = 1024;

/// Size of a pipe, the smallest possible: bytes.
const ROOM: i32 = 4096;

impl Messaging {
    pub(super) fn perform(self, stage: &mut Stage) -> LoadReport {
        let (ready, begin, done) = (BytePipe::new(), BytePipe::new(), BytePipe::new());
        let each = self.fan;
        let start = |name: &str, body: &dyn Fn()| {
            task::spawn(|| {
                task::name(name);
                ready.put();
                begin.take();
                body();
                done.put();
                // A pipe of its own, to which no task writes.
                BytePipe::new().take();
            });
        };
        for _ in 0..self.groups {
            let pipes: Vec<_> = (0..each).map(|_| std::io::pipe().expect("no file descriptors left")).collect();
            for (receiver, sender) in &pipes {
                fcntl(sender, FcntlArg::F_SETPIPE_SZ(ROOM)).expect("a pipe may be made smaller");
                start("wl-receiver", &|| {
                    let mut message = [0; MESSAGE];
                    for _ in 0..each * self.messages {
                        (&mut &*receiver).read_exact(&mut message).expect("the senders are there");
                    }
                });
            }
            for _ in 0..each {
                start("wl-sender", &|| {
                    for _ in 0..self.messages {
                        for (_, sender) in &pipes {
                            (&mut &*sender).write_all(&[7; MESSAGE]).expect("the receivers are there");
                        }
                    }
                });
            }
        }
        let all = 2 * each * self.groups;
        (0..all).for_each(|_| ready.take());
        stage.go();
        (0..all).for_each(|_| begin.put());
        (0..all).for_each(|_| done.take());
        LoadReport::default()
    }
}
