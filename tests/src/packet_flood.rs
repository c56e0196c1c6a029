//! More packets than a CPU can receive: softirqs that the kernel leaves to `ksoftirqd`.

use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

use crate::{broadcast::Broadcast, skip::Skip, task::pin};

/// The CPUs that receive what is sent over the loopback interface, as a mask (Documentation/networking/scaling.rst,
/// `RPS: Receive Packet Steering`). Without any, it is the CPU that sends.
const RECEIVING_CPUS: &str = "/sys/class/net/lo/queues/rx-0/rps_cpus";

/// Sockets that receive each packet: it takes much longer to receive than to send.
const RECEIVERS: u64 = 500;

/// The longest time that [`PacketFlood::send_until`] sends.
const AT_MOST: Duration = Duration::from_secs(5);

/// Sends packets over the loopback interface from one CPU to another. Dropping it, also in a panic, restores the CPUs
/// that receive them.
pub struct PacketFlood {
    broadcast: Broadcast,
    from: usize,
    before: String,
}

impl PacketFlood {
    /// Prepares packets from the first CPU to the second one. Skips the test if the kernel cannot choose the CPU that
    /// receives packets.
    pub fn new([from, to]: [usize; 2]) -> Result<Self, Skip> {
        let unable = |error: io::Error| {
            Skip::because(format!("the kernel cannot choose the CPU that receives packets: {error}"))
        };
        let broadcast = Broadcast::to(RECEIVERS);
        let before = fs::read_to_string(RECEIVING_CPUS).map_err(unable)?;
        fs::write(RECEIVING_CPUS, mask(to)).map_err(unable)?;
        Ok(Self { broadcast, from, before })
    }

    /// Sends packets as fast as it can until `is_enough`, for five seconds at most.
    pub fn send_until(&self, is_enough: impl Fn() -> bool + Sync) {
        /// Packets between two looks: to send them takes less than a millisecond.
        const AT_ONCE: usize = 64;
        thread::scope(|scope| {
            scope.spawn(|| {
                pin(0, self.from);
                let began = Instant::now();
                while began.elapsed() < AT_MOST && !is_enough() {
                    (0..AT_ONCE).for_each(|_| _ = self.broadcast.send());
                }
            });
        });
    }
}

impl Drop for PacketFlood {
    fn drop(&mut self) {
        if let Err(error) = fs::write(RECEIVING_CPUS, self.before.trim()) {
            eprintln!("could not restore {RECEIVING_CPUS}: {error}");
        }
    }
}

/// A mask with one CPU, in the format of sysfs: groups of 32 CPUs, the highest ones first.
fn mask(cpu: usize) -> String {
    format!("{:x}{}", 1_u32 << (cpu % 32), ",00000000".repeat(cpu / 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_a_group_for_each_32_cpus() {
        assert_eq!([0, 5, 31, 32, 70].map(mask), ["1", "20", "80000000", "1,00000000", "40,00000000,00000000"]);
    }
}
