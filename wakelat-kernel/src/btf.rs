//! The kernel's BTF: its own description of its types.

mod file;
mod types;

use std::path::Path;

use aya_obj::btf::{Btf, BtfKind};

pub use self::{file::read, types::BtfTypes};

/// The tracepoints to which wakelat's programs attach.
pub const TRACEPOINTS: [&str; 4] = ["sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_switch"];

/// The result of reading the kernel's BTF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelBtf {
    /// The file does not exist.
    Missing,
    /// The file exists but cannot be used, for this reason.
    Unusable(String),
    /// The BTF can be used.
    Present {
        /// The [`TRACEPOINTS`] that the kernel lacks.
        missing_tracepoints: Vec<&'static str>,
        /// Support for the BPF ring buffer.
        ring_buffer: RingBufferSupport,
    },
}

/// A kernel's support for the BPF ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingBufferSupport {
    /// The kernel has no ring buffer: mainline has one from 5.8 on.
    Missing,
    /// Programs on the scheduler's tracepoints can use the ring buffer.
    Usable,
    /// The ring buffer's lock sleeps: a program on a tracepoint of the scheduler that uses it can freeze
    /// the machine.
    ///
    /// `struct bpf_ringbuf` (kernel/bpf/ringbuf.c) began with a `spinlock_t`, which PREEMPT_RT makes a
    /// sleeping lock. `bpf_ringbuf_reserve()` takes it, and the scheduler calls programs with the lock of a
    /// run queue held: two CPUs that contend there deadlock. Linux 6.12 made it a `raw_spinlock_t`, as did
    /// later releases of some older stable series.
    SleepingLock,
}

impl KernelBtf {
    /// Reads the file, which is `/sys/kernel/btf/vmlinux` on a kernel with `CONFIG_DEBUG_INFO_BTF`.
    pub fn read(path: &Path) -> Self {
        let bytes = match file::read(path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Self::Missing,
            Err(error) => return Self::Unusable(format!("{error:#}")),
        };
        BtfTypes::find(&bytes).map_or_else(
            || Self::Unusable(format!("cannot parse `{}`: its BTF is invalid", path.display())),
            |types| Self::of(&types),
        )
    }

    fn of(types: &BtfTypes) -> Self {
        let ring_buffer = if !types.has_name("bpf_ringbuf") {
            // Check the type, not the version: distributions backport the ring buffer to older kernels.
            RingBufferSupport::Missing
        } else if types.structure_of_member("bpf_ringbuf", "spinlock").is_some_and(|lock| sleeps(types, lock)) {
            RingBufferSupport::SleepingLock
        } else {
            RingBufferSupport::Usable
        };
        Self::Present {
            // The kernel declares one typedef per tracepoint for typed programs (include/trace/bpf_probe.h).
            missing_tracepoints: TRACEPOINTS
                .into_iter()
                .filter(|name| !types.has_name(&format!("btf_trace_{name}")))
                .collect(),
            ring_buffer,
        }
    }
}

/// The inner lock of a `spinlock_t` under PREEMPT_RT, up to 5.14 and from 5.15 on
/// (include/linux/spinlock_types.h, before 5.15 with the patches for PREEMPT_RT). Without PREEMPT_RT there
/// is a `raw_spinlock` in a union.
const INNER_LOCKS: [&[u8]; 2] = [b"rt_mutex", b"rt_mutex_base"];

/// Whether tasks sleep while they wait for a lock of this type.
fn sleeps(types: &BtfTypes, lock: u32) -> bool {
    types.structures_within(lock).any(|inner| INNER_LOCKS.contains(&inner))
}

/// Whether the kernel reports a task that blocks on a contended lock as preempted.
///
/// Up to 5.14 with PREEMPT_RT, such a task leaves its CPU by `preempt_schedule_lock()`, so that
/// `sched_switch` has `preempt` set although the task is off the run queue. Linux 5.15 brought the mainline
/// form of these locks, with `struct rt_mutex_base` and with `SM_RTLOCK_WAIT` (kernel/sched/core.c), which
/// leaves `preempt` clear.
pub fn reports_blocked_as_preempted(types: &BtfTypes) -> bool {
    let spinlock = types.structure_of_typedef("spinlock_t");
    spinlock.is_some_and(|lock| types.structures_within(lock).any(|inner| inner == INNER_LOCKS[0]))
}

/// The first field that `--from queued` needs and the kernel lacks, as `structure.member`. `CONFIG_SCHED_INFO` adds
/// `sched_info`, `CONFIG_FAIR_GROUP_SCHED` the pointers from a task to its run queue.
pub fn missing_for_queue_clock(types: &BtfTypes) -> Option<&'static str> {
    const NEEDED: [(&str, &str, &str); 7] = [
        ("task_struct", "sched_info", "task_struct.sched_info"),
        ("sched_info", "last_queued", "sched_info.last_queued"),
        ("sched_info", "run_delay", "sched_info.run_delay"),
        ("sched_info", "pcount", "sched_info.pcount"),
        ("sched_entity", "cfs_rq", "sched_entity.cfs_rq"),
        ("cfs_rq", "rq", "cfs_rq.rq"),
        ("rq", "clock", "rq.clock"),
    ];
    NEEDED.iter().find(|(of, member, _)| !types.has_member(of, member)).map(|(_, _, name)| *name)
}

/// What the kernel counts for each run queue that separates the causes of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseClocks {
    /// Time in interrupts and softirqs (`rq.prev_irq_time`, with `CONFIG_IRQ_TIME_ACCOUNTING`).
    pub interrupts: bool,
    /// Time that the hypervisor had the CPU (`rq.prev_steal_time_rq`, with `CONFIG_PARAVIRT_TIME_ACCOUNTING`, or
    /// `rq.prev_steal_time`, with `CONFIG_PARAVIRT`).
    pub stolen: bool,
    /// Time that a group was throttled on a CPU (`cfs_rq.throttled_clock_self_time`, before 6.6
    /// `cfs_rq.throttled_clock_pelt_time`, with `CONFIG_CFS_BANDWIDTH`).
    pub throttling: bool,
}

impl CauseClocks {
    /// What the kernel with this BTF counts.
    pub fn of(types: &BtfTypes) -> Self {
        let has = |of: &str, members: &[&str]| members.iter().any(|it| types.has_member(of, it));
        Self {
            interrupts: has("rq", &["prev_irq_time"]),
            stolen: has("rq", &["prev_steal_time_rq", "prev_steal_time"]),
            throttling: has("cfs_rq", &["throttled_clock_self_time", "throttled_clock_pelt_time"]),
        }
    }
}

/// Whether the kernel has the tracepoint `name`, for which it declares a typedef for typed programs
/// (include/trace/bpf_probe.h).
pub fn has_tracepoint(btf: &Btf, name: &str) -> bool {
    btf.id_by_type_name_kind(&format!("btf_trace_{name}"), BtfKind::Typedef).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the records of a BTF in the format of include/uapi/linux/btf.h.
    #[derive(Default)]
    pub(super) struct BtfWriter {
        records: Vec<u8>,
        count: u32,
        strings: Vec<u8>,
    }

    impl BtfWriter {
        fn name(&mut self, name: &str) -> u32 {
            // The first name is empty.
            if self.strings.is_empty() {
                self.strings.push(0);
            }
            // A name is there once.
            if let Some(before) =
                self.strings.windows(name.len() + 2).position(|known| known == [b"\0", name.as_bytes(), b"\0"].concat())
            {
                return before as u32 + 1;
            }
            let at = self.strings.len() as u32;
            self.strings.extend_from_slice(name.as_bytes());
            self.strings.push(0);
            at
        }

        fn add(&mut self, words: &[u32]) -> u32 {
            words.iter().for_each(|word| self.records.extend_from_slice(&word.to_ne_bytes()));
            self.count += 1;
            self.count
        }

        pub(super) fn structure(&mut self, name: &str, members: &[(&str, u32)]) -> u32 {
            const STRUCT: u32 = 4;
            let mut words = vec![self.name(name), STRUCT << 24 | members.len() as u32, 0];
            for (name, of) in members {
                words.extend([self.name(name), *of, 0]);
            }
            self.add(&words)
        }

        pub(super) fn typedef(&mut self, name: &str, of: u32) -> u32 {
            const TYPEDEF: u32 = 8;
            let name = self.name(name);
            self.add(&[name, TYPEDEF << 24, of])
        }

        pub(super) fn bytes(&self) -> Vec<u8> {
            let length = self.records.len() as u32;
            let words = [24, 0, length, length, self.strings.len() as u32];
            let header = [0xeb9f_u16.to_ne_bytes(), [1, 0]].concat();
            [
                header,
                words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
                self.records.clone(),
                self.strings.clone(),
            ]
            .concat()
        }
    }

    /// The BTF of a kernel's locks: `spinlock_t` that contains `inner`, `raw_spinlock_t`, and a ring buffer
    /// whose lock is a `ring_lock`.
    pub(super) fn kernel(inner: &str, ring_lock: &str) -> Vec<u8> {
        let mut btf = BtfWriter::default();
        let raw = btf.structure("raw_spinlock", &[]);
        let inner = btf.structure(inner, &[("wait_lock", raw)]);
        let sleeping = btf.structure("spinlock", &[("lock", inner)]);
        let spinlock = btf.typedef("spinlock_t", sleeping);
        let raw_spinlock = btf.typedef("raw_spinlock_t", raw);
        let ring_lock = if ring_lock == "spinlock_t" { spinlock } else { raw_spinlock };
        btf.structure("bpf_ringbuf", &[("waitq", raw), ("spinlock", ring_lock)]);
        btf.bytes()
    }

    fn ring_buffer(btf: &[u8]) -> RingBufferSupport {
        match KernelBtf::of(&BtfTypes::find(btf).unwrap()) {
            KernelBtf::Present { ring_buffer, .. } => ring_buffer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_ring_buffer_under_a_sleeping_lock_is_recognised() {
        for inner in ["rt_mutex", "rt_mutex_base"] {
            assert_eq!(ring_buffer(&kernel(inner, "spinlock_t")), RingBufferSupport::SleepingLock, "{inner}");
            assert_eq!(ring_buffer(&kernel(inner, "raw_spinlock_t")), RingBufferSupport::Usable, "{inner}");
        }
        // Without PREEMPT_RT a `spinlock_t` spins.
        assert_eq!(ring_buffer(&kernel("raw_spinlock", "spinlock_t")), RingBufferSupport::Usable);
    }

    #[test]
    fn only_the_locks_before_5_15_report_a_blocked_task_as_preempted() {
        let reports = |inner, lock| reports_blocked_as_preempted(&BtfTypes::find(&kernel(inner, lock)).unwrap());
        assert!(reports("rt_mutex", "spinlock_t"));
        assert!(!reports("rt_mutex_base", "raw_spinlock_t"));
        assert!(!reports("raw_spinlock", "spinlock_t"));
    }

    /// The BTF of a kernel with all fields that the queue clock needs but this one.
    fn queue_clock_without(missing: &str) -> Vec<u8> {
        let mut btf = BtfWriter::default();
        let of_member = btf.structure("u64", &[]);
        for (of, members) in [
            ("sched_info", &["pcount", "run_delay", "last_arrival", "last_queued"][..]),
            ("task_struct", &["se", "sched_info"]),
            ("sched_entity", &["vruntime", "cfs_rq"]),
            ("cfs_rq", &["rq"]),
            ("rq", &["nr_switches", "clock"]),
        ] {
            let present = members.iter().filter(|member| format!("{of}.{member}") != missing);
            btf.structure(of, &present.map(|member| (*member, of_member)).collect::<Vec<_>>());
        }
        btf.bytes()
    }

    #[test]
    fn a_missing_field_of_the_queue_clock_is_found() {
        let missing = |field| missing_for_queue_clock(&BtfTypes::find(&queue_clock_without(field)).unwrap());
        for field in [
            "task_struct.sched_info",
            "sched_info.last_queued",
            "sched_info.run_delay",
            "sched_info.pcount",
            "sched_entity.cfs_rq",
            "cfs_rq.rq",
            "rq.clock",
        ] {
            assert_eq!(missing(field), Some(field));
        }
        assert_eq!(missing("sched_info.last_arrival"), None);
    }

    #[test]
    fn a_missing_file_is_distinguished_from_one_that_is_not_btf() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(KernelBtf::read(&directory.path().join("vmlinux")), KernelBtf::Missing);
        std::fs::write(directory.path().join("garbage"), [0xff; 64]).unwrap();
        assert!(matches!(KernelBtf::read(&directory.path().join("garbage")), KernelBtf::Unusable(_)));
        std::fs::write(directory.path().join("short"), b"x").unwrap();
        assert!(matches!(KernelBtf::read(&directory.path().join("short")), KernelBtf::Unusable(_)));
    }

    #[test]
    fn btf_without_the_types_lacks_the_features() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmlinux");
        std::fs::write(&path, Btf::new().to_bytes()).unwrap();
        let expected =
            KernelBtf::Present { missing_tracepoints: TRACEPOINTS.to_vec(), ring_buffer: RingBufferSupport::Missing };
        assert_eq!(KernelBtf::read(&path), expected);
    }

    #[test]
    fn a_name_must_match_completely() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmlinux");
        let mut btf = Btf::new();
        for name in ["btf_trace_sched_switch", "btf_trace_sched_wakeup_new", "bpf_ringbuf_area"] {
            btf.add_string(name);
        }
        std::fs::write(&path, btf.to_bytes()).unwrap();
        let missing_tracepoints = vec!["sched_waking", "sched_wakeup"];
        assert_eq!(
            KernelBtf::read(&path),
            KernelBtf::Present { missing_tracepoints, ring_buffer: RingBufferSupport::Missing }
        );
    }
}
