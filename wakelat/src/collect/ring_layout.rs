//! How many ring buffers there are, how large they are, and which CPUs share one. Pure.

/// CPUs share a ring buffer rather than have smaller ones than this: bytes. It is a multiple of every page size, and
/// holds the records of 5 ms from a CPU that switches 400,000 times a second.
pub(super) const MIN_SHARED_BYTES: u32 = 1 << 18;

/// The ring buffers of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RingLayout {
    /// 2 to this power CPUs with consecutive numbers share a ring buffer.
    pub shift: u32,
    /// The number of the ring buffer for each group of CPUs. A group without a CPU that is online uses the first: its
    /// CPUs may come online later.
    pub ring_of_group: Vec<usize>,
    /// How many ring buffers there are.
    pub rings: usize,
    /// The size of each: bytes, a power of two.
    pub ring_bytes: u32,
}

impl RingLayout {
    /// Divides `total_bytes`, a power of two, among the CPUs that are `online` (ascending) on a machine with CPUs 0 to
    /// `possible` − 1. Each has a ring buffer of its own unless that were too small.
    pub fn of(total_bytes: u32, online: &[u32], possible: u32) -> Self {
        for shift in 0..u32::BITS {
            let mut groups: Vec<u32> = online.iter().map(|cpu| cpu >> shift).collect();
            groups.dedup();
            let share = u32::try_from(groups.len()).map_or(0, |rings| total_bytes / rings.max(1));
            let ring_bytes = share.checked_ilog2().map_or(0, |power| 1 << power);
            if groups.len() <= 1 {
                break;
            }
            if ring_bytes >= MIN_SHARED_BYTES {
                let last = possible.saturating_sub(1).max(online.last().copied().unwrap_or(0)) >> shift;
                let ring_of_group = (0..=last).map(|group| groups.binary_search(&group).unwrap_or(0)).collect();
                return Self { shift, ring_of_group, rings: groups.len(), ring_bytes };
            }
        }
        Self { shift: u32::BITS - 1, ring_of_group: vec![0], rings: 1, ring_bytes: total_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(total_bytes: u32, cpus: u32) -> (u32, usize, u32) {
        let layout = RingLayout::of(total_bytes, &(0..cpus).collect::<Vec<_>>(), cpus);
        assert!(layout.rings == 1 || layout.rings as u64 * u64::from(layout.ring_bytes) <= u64::from(total_bytes));
        assert_eq!(layout.ring_of_group.iter().max(), Some(&(layout.rings - 1)));
        (layout.shift, layout.rings, layout.ring_bytes)
    }

    #[test]
    fn each_cpu_has_a_ring_buffer_of_its_own() {
        assert_eq!(layout(2 << 20, 2), (0, 2, 1 << 20));
        assert_eq!(layout(4 << 20, 3), (0, 3, 1 << 20));
        assert_eq!(layout(8 << 20, 8), (0, 8, 1 << 20));
        assert_eq!(layout(64 << 20, 64), (0, 64, 1 << 20));
        assert_eq!(layout(64 << 20, 160), (0, 160, 256 << 10));
        assert_eq!(layout(64 << 20, 256), (0, 256, 256 << 10));
    }

    #[test]
    fn cpus_share_a_ring_buffer_that_would_be_too_small() {
        assert_eq!(layout(64 << 20, 512), (1, 256, 256 << 10));
        assert_eq!(layout(64 << 20, 8192), (5, 256, 256 << 10));
        assert_eq!(layout(1 << 20, 8), (1, 4, 256 << 10));
    }

    #[test]
    fn one_cpu_or_little_memory_needs_one_ring_buffer() {
        let one = |bytes| (u32::BITS - 1, 1, bytes);
        assert_eq!(layout(1 << 20, 1), one(1 << 20));
        assert_eq!(layout(4096, 2), one(4096));
        assert_eq!(layout(1 << 16, 256), one(1 << 16));
        assert_eq!(RingLayout::of(1 << 20, &[], 0).ring_of_group, [0]);
    }

    #[test]
    fn cpus_that_are_offline_use_the_first_ring_buffer() {
        let layout = RingLayout::of(2 << 20, &[1, 3], 6);
        assert_eq!(
            layout,
            RingLayout { shift: 0, ring_of_group: vec![0, 0, 0, 1, 0, 0], rings: 2, ring_bytes: 1 << 20 }
        );
    }
}
