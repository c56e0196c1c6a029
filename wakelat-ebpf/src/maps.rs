//! The maps and the load-time configuration.

use core::arch::asm;

use aya_ebpf::{
    Global,
    btf_maps::{Array, HashMap, PerCpuArray, RingBuf},
    helpers::generated::bpf_ringbuf_query,
    macros::btf_map,
};
use wakelat_common::{
    Class, Classes, Counter,
    counter::{Counters, SUBJECTS, Subject},
    filter::Filter,
};

/// Samples, read by user space. Full: the sample counts as `ring_full`. The loader sets the size. (A value type here
/// would carry a value size, which libbpf refuses for a ring buffer.)
#[btf_map]
pub static SAMPLES: RingBuf<(), 1048576> = RingBuf::new();

/// Key: a [`Subject`]. Value: this CPU's counters. Read by user space at the end of each window.
#[btf_map]
pub static COUNTERS: PerCpuArray<Counters, { SUBJECTS as usize }> = PerCpuArray::new();

/// What names, priorities, policies and CPUs are compared with. Written by user space before the programs are attached.
#[btf_map]
pub static FILTER: Array<Filter, 1> = Array::new();

/// Processes wanted. As [`FILTER`]; so are the next two.
#[btf_map]
pub static TGIDS: HashMap<u32, u8, 1> = HashMap::new();

/// Threads wanted.
#[btf_map]
pub static PIDS: HashMap<u32, u8, 1> = HashMap::new();

/// Ids of the cgroups wanted, with all below them.
#[btf_map]
pub static CGROUPS: HashMap<u64, u8, 1> = HashMap::new();

/// What the tracers said and found no room in [`SAMPLES`], by CPU. Read by user space.
#[btf_map]
pub static TRACER_LOST: PerCpuArray<u64, 1> = PerCpuArray::new();

/// The parts of the filter in force: bits of [`wakelat_common::filter::part`].
#[unsafe(no_mangle)]
pub static FILTER_PARTS: Global<u32> = Global::new(0);

/// wakelat's own process.
#[unsafe(no_mangle)]
pub static OWN_TGID: Global<u32> = Global::new(0);

/// The classes asked for: a [`Classes`].
#[unsafe(no_mangle)]
static CLASSES: Global<u32> = Global::new(0);

/// Waits shorter than this are not delivered: ns.
#[unsafe(no_mangle)]
pub static THRESHOLD_NS: Global<u64> = Global::new(0);

/// 1: the latency of a wakeup starts at `sched_waking`.
#[unsafe(no_mangle)]
pub static FROM_WAKING: Global<u32> = Global::new(0);

/// 1: samples carry their task's cgroup.
#[unsafe(no_mangle)]
pub static WITH_CGROUP: Global<u32> = Global::new(0);

/// 1: waits are counted in histograms, and none is delivered.
#[unsafe(no_mangle)]
pub static AGGREGATE: Global<u32> = Global::new(0);

/// 1: the rules of the hist-trigger recipe instead of wakelat's own: the latest wakeup wins, whether the task was on a
/// CPU or not, and a preemption starts nothing.
#[unsafe(no_mangle)]
pub static TRIGGER_RULES: Global<u32> = Global::new(0);

/// 1: `sched_switch` reports a task that blocks on a lock as preempted, as PREEMPT_RT does up to 5.14. Whether it is on the
/// run queue decides.
#[unsafe(no_mangle)]
pub static BLOCKED_AS_PREEMPTED: Global<u32> = Global::new(0);

/// 1: a program may interrupt another on its CPU. From 6.2 on the kernel runs no program of a raw or typed tracepoint in
/// between itself (`__bpf_trace_run()`, kernel/trace/bpf_trace.c).
#[unsafe(no_mangle)]
static PROGRAMS_NEST: Global<u32> = Global::new(0);

/// What is told of the course of events: bits of [`wakelat_common::timeline::part`].
#[unsafe(no_mangle)]
pub static TIMELINE_FEATURES: Global<u32> = Global::new(0);

/// The reader is woken where this many bytes wait for it; otherwise it comes by itself.
#[unsafe(no_mangle)]
static RING_WATERMARK: Global<u64> = Global::new(u64::MAX);

/// Whether `class` was asked for.
#[inline(always)]
pub fn wants(class: Class) -> bool {
    Classes(CLASSES.load()).contains(class)
}

/// Whether the ring buffer has filled up to the mark.
#[inline(always)]
pub fn ring_is_at_watermark() -> bool {
    const BPF_RB_AVAIL_DATA: u64 = 0;
    // SAFETY: the map is a ring buffer.
    let waiting = unsafe { bpf_ringbuf_query(core::ptr::from_ref(&SAMPLES).cast_mut().cast(), BPF_RB_AVAIL_DATA) };
    waiting >= RING_WATERMARK.load()
}

/// This CPU's counters of one subject.
#[derive(Clone, Copy)]
pub struct CpuCounters(*mut Counters);

impl CpuCounters {
    #[inline(always)]
    pub fn of(class: Class) -> Option<Self> {
        let subject = match class {
            Class::Wakeup | Class::New => Subject::Wakeups,
            Class::Preempted => Subject::Preemptions,
        };
        COUNTERS.get_ptr_mut(subject as u32).map(Self)
    }

    /// Counts one; returns how many there are now on this CPU.
    #[inline(always)]
    pub fn count(self, counter: Counter) -> u64 {
        self.add(counter, 1)
    }

    /// Takes back one that was counted by this run of the program.
    #[inline(always)]
    pub fn uncount(self, counter: Counter) {
        self.add(counter, -1);
    }

    #[inline(always)]
    fn add(self, counter: Counter, value: i64) -> u64 {
        // SAFETY: the pointer is to this CPU's own entry, which no other CPU writes.
        let count = unsafe { &raw mut (*self.0).0[counter as usize] };
        // Programs run with interrupts off, except if a task wakes itself: there an interrupt may wake another task and count
        // it between two instructions of this program, unless the kernel skips the program then.
        if PROGRAMS_NEST.load() != 0 {
            add(count, value);
        } else {
            // SAFETY: as above, and no other program writes this counter meanwhile.
            unsafe { *count = (*count).wrapping_add_signed(value) };
        }
        // SAFETY: as above; a word is read at once.
        unsafe { count.read_volatile() }
    }
}

/// Adds to a word of a map by one instruction. Compare-and-exchange and additions that return the sum came in 5.12; older
/// kernels refuse every program of an object that has one (kernel/bpf/verifier.c, `resolve_pseudo_ldimm64()`).
#[inline(always)]
pub fn add(word: *mut u64, value: i64) {
    // SAFETY: an aligned word in a value of a map.
    unsafe { asm!("lock *(u64 *)({word} + 0) += {value}", word = in(reg) word, value = in(reg) value) };
}
