//! The maps shared by all programs, and the load-time configuration that the loader writes into
//! `.rodata`.

use core::arch::asm;

use aya_ebpf::{
    Global,
    btf_maps::{Array, HashMap, PerCpuArray},
    macros::btf_map,
};
use wakelat_common::{
    Class, Classes, Counter,
    counter::{Counters, Subject},
    cpu_words::CpuWords,
    filter::Filter,
};

use crate::cpu_words;

/// The names, priorities, policies and CPUs that the filter accepts. Written by user space before the
/// programs are attached.
#[btf_map]
pub static FILTER: Array<Filter, 1> = Array::new();

/// Process IDs that the filter accepts. Written by user space, and by the programs that follow forks.
#[btf_map]
pub static TGIDS: HashMap<u32, u8, 1> = HashMap::new();

/// Thread IDs that the filter accepts. Written by user space before the programs are attached.
#[btf_map]
pub static PIDS: HashMap<u32, u8, 1> = HashMap::new();

/// IDs of the cgroups that the filter accepts, each with all its descendants. Written by user space
/// before the programs are attached.
#[btf_map]
pub static CGROUPS: HashMap<u64, u8, 1> = HashMap::new();

/// Tracer records for which the ring buffer had no room, per CPU. Read by user space.
#[btf_map]
pub static TRACER_LOST: PerCpuArray<u64, 1> = PerCpuArray::new();

/// The filter criteria in use: bits of [`wakelat_common::filter::part`].
#[unsafe(no_mangle)]
pub static FILTER_PARTS: Global<u32> = Global::new(0);

/// The process ID of wakelat itself.
#[unsafe(no_mangle)]
pub static OWN_TGID: Global<u32> = Global::new(0);

/// The requested classes: a [`Classes`].
#[unsafe(no_mangle)]
static CLASSES: Global<u32> = Global::new(0);

/// The threshold in ns: shorter waits are counted but not reported.
#[unsafe(no_mangle)]
pub static THRESHOLD_NS: Global<u64> = Global::new(0);

/// 1: the latency of a wakeup starts at `sched_waking`.
#[unsafe(no_mangle)]
pub static FROM_WAKING: Global<u32> = Global::new(0);

/// 1: samples carry the cgroup of their task.
#[unsafe(no_mangle)]
pub static WITH_CGROUP: Global<u32> = Global::new(0);

/// 1: waits are counted in histograms, and no sample is sent.
#[unsafe(no_mangle)]
pub static AGGREGATE: Global<u32> = Global::new(0);

/// The properties of a task that groups differ in: bits of [`wakelat_common::group::part`]; 0 if waits are not grouped.
#[unsafe(no_mangle)]
pub static GROUP_PARTS: Global<u32> = Global::new(0);

/// 1: follow the rules of the hist-trigger recipe instead of wakelat's own: the latest wakeup wins,
/// whether or not the task is on a CPU, and a preemption starts no wait.
#[unsafe(no_mangle)]
pub static TRIGGER_RULES: Global<u32> = Global::new(0);

/// 1: `sched_switch` reports a task that blocks on a lock as preempted, as PREEMPT_RT does up to 5.14.
/// Then `task_struct.on_rq` decides whether it is still runnable.
#[unsafe(no_mangle)]
pub static BLOCKED_AS_PREEMPTED: Global<u32> = Global::new(0);

/// 1: a run of a program may be interrupted by another run on its CPU. From 6.2 on, the kernel does not run
/// the program of a raw or typed tracepoint inside itself (`__bpf_trace_run()`, kernel/trace/bpf_trace.c).
#[unsafe(no_mangle)]
static PROGRAMS_NEST: Global<u32> = Global::new(0);

/// The timeline records to emit: bits of [`wakelat_common::timeline::feature`].
#[unsafe(no_mangle)]
static TIMELINE_FEATURES: Global<u32> = Global::new(0);

/// Whether `class` was requested.
#[inline(always)]
pub fn wants(class: Class) -> bool {
    Classes(CLASSES.load()).contains(class)
}

/// Whether `part`, a bit of [`wakelat_common::timeline::feature`], is enabled. A constant by the time a program is
/// verified.
#[inline(always)]
pub fn feature_enabled(part: u32) -> bool {
    TIMELINE_FEATURES.load() & part != 0
}

/// This CPU's counters of one [`Subject`].
#[derive(Clone, Copy)]
pub struct CpuCounters(*mut Counters);

impl CpuCounters {
    /// Looks up the words of this CPU.
    #[inline(always)]
    pub fn of(class: Class) -> Option<Self> {
        cpu_words::own().map(|words| Self::among(words, class))
    }

    /// Among the words of this CPU.
    #[inline(always)]
    pub fn among(words: *mut CpuWords, class: Class) -> Self {
        let subject = match class {
            Class::Wakeup | Class::New => Subject::Wakeups,
            Class::Preempted => Subject::Preemptions,
        };
        // SAFETY: a value of the map.
        Self(unsafe { &raw mut (*words).counters[subject as usize] })
    }

    /// Adds one to `counter`.
    #[inline(always)]
    pub fn count(self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds one to `counter`; returns its new value on this CPU.
    #[inline(always)]
    pub fn count_up(self, counter: Counter) -> u64 {
        self.add(counter, 1);
        // SAFETY: the entry is this CPU's own; an aligned word is read in one access.
        unsafe { (&raw const (*self.0).0[counter as usize]).read_volatile() }
    }

    /// Takes back one that this run of the program has counted.
    #[inline(always)]
    pub fn uncount(self, counter: Counter) {
        self.add(counter, -1);
    }

    #[inline(always)]
    fn add(self, counter: Counter, value: i64) {
        // SAFETY: the pointer is to this CPU's own entry, which no other CPU writes.
        let count = unsafe { &raw mut (*self.0).0[counter as usize] };
        // Programs run with interrupts off, except when a task wakes itself. Then an interrupt may wake
        // another task, whose program counts between two instructions of this one, unless the kernel
        // skips it.
        if PROGRAMS_NEST.load() != 0 {
            add(count, value);
        } else {
            // SAFETY: the entry is this CPU's own, and no nested program writes this counter in between.
            unsafe { *count = (*count).wrapping_add_signed(value) };
        }
    }
}

/// Adds to a word of a map in one atomic instruction. Compare-and-exchange and additions that return the
/// sum came in 5.12; older kernels refuse every program of an object that contains one
/// (kernel/bpf/verifier.c, `resolve_pseudo_ldimm64()`).
#[inline(always)]
pub fn add(word: *mut u64, value: i64) {
    // SAFETY: `word` is an aligned word in a value of a map.
    unsafe { asm!("lock *(u64 *)({word} + 0) += {value}", word = in(reg) word, value = in(reg) value) };
}
