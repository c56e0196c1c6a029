//! The only reader of kernel structures.
//!
//! Every access is a CO-RE relocation: the loader writes the running kernel's own offset into the instruction.

mod clocks;

use core::{marker::PhantomData, ptr};

use aya_ebpf::helpers::{bpf_get_current_task, bpf_probe_read_kernel, bpf_probe_read_kernel_str_bytes};
use wakelat_common::{course::Clocks, sample::COMM_LEN, start::PrevState};

use crate::{
    accessors::{
        cgroup, cgroup_subsys_state, css_set, irqaction, kernfs_node, osnoise_sample, task_struct,
        task_struct___pre_5_14, task_struct___pre_5_16, thread_info, timerlat_sample, work_struct,
    },
    maps::BLOCKED_AS_PREEMPTED,
};

/// How a program may read kernel memory.
pub trait Read {
    /// The value at `from`.
    fn read<T: Copy>(from: *const T) -> T;
}

/// tp_btf programs: the verifier knows the pointer's type, so a read is one load, and a fault reads zeros.
pub struct Direct;

/// raw_tp programs: a pointer is a number, and a read is a call. A fault reads zeros, as in a direct load.
#[allow(dead_code, reason = "the object with task storage has no raw_tp programs")]
pub struct Probe;

impl Read for Direct {
    #[inline(always)]
    fn read<T: Copy>(from: *const T) -> T {
        // SAFETY: the verifier admits this load only where it cannot do harm.
        unsafe { *from }
    }
}

impl Read for Probe {
    #[inline(always)]
    fn read<T: Copy>(from: *const T) -> T {
        // SAFETY: the helper checks the address; the types read here are plain integers, for which zero is a value.
        unsafe { bpf_probe_read_kernel(from).unwrap_or_else(|_| core::mem::zeroed()) }
    }
}

/// Levels of cgroups a filter looks up from a task's own; container runtimes nest four to eight.
const MAX_CGROUP_DEPTH: usize = 32;

/// What the programs ask of a task, however they came to know of it.
pub trait TaskFields: Copy {
    /// What tells this task from every other.
    fn identity(self) -> u64;

    /// Thread id; 0 for the idle task of every CPU.
    fn pid(self) -> u32;

    /// Process id; 0 where it is not known.
    fn tgid(self) -> u32;

    /// Whether it belongs to the process `tgid`, which has one thread.
    fn is_in_process(self, tgid: u32) -> bool;

    /// Kernel priority.
    fn prio(self) -> i32;

    /// `SCHED_*`, or [`wakelat_common::record::POLICY_UNKNOWN`].
    fn policy(self) -> u32;

    /// Whether a CPU runs it now.
    fn on_cpu(self) -> bool;

    /// Name.
    fn comm(self) -> [u8; COMM_LEN];

    /// The CPU whose run queue it is on, or was on last.
    fn cpu(self) -> u32;

    /// What becomes of it at a `sched_switch` that takes its CPU.
    fn prev_state(self, preempt: bool) -> PrevState;

    /// Id of its cgroup in the v2 hierarchy: the inode number of the cgroup's directory; 0 where it is not known.
    fn cgroup_id(self) -> u64;

    /// The clocks of its run queue as a wait begins.
    fn clocks(self) -> Clocks;

    /// Those of a wait under way: that of throttling only if `throttling`.
    fn clocks_of_wait(self, throttling: bool) -> Clocks;

    /// Whether `wanted` holds for its cgroup or one above.
    fn any_cgroup(self, wanted: impl Fn(u64) -> bool) -> bool;
}

/// A task, as a typed or raw tracepoint hands it over.
pub struct Task<R> {
    raw: *const task_struct,
    how: PhantomData<R>,
}

impl<R> Clone for Task<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Task<R> {}

impl<R: Read> Task<R> {
    #[inline(always)]
    pub fn new(raw: *const u8) -> Self {
        Self { raw: raw.cast(), how: PhantomData }
    }

    /// `TASK_*`; 0 is running or runnable.
    #[inline(always)]
    fn state(self) -> u64 {
        // Renamed in 5.14, from a long to an unsigned int.
        if task_struct::__state_exists() {
            R::read(task_struct::__state(self.raw)).into()
        } else {
            R::read(task_struct___pre_5_14::state(self.raw.cast())) as u64
        }
    }

    #[inline(always)]
    fn cgroup(self) -> *const cgroup {
        R::read(css_set::dfl_cgrp(R::read(task_struct::cgroups(self.raw))))
    }

    #[inline(always)]
    fn id_of(group: *const cgroup) -> u64 {
        R::read(kernfs_node::id(R::read(cgroup::kn(group))))
    }

    /// Its name as two words: as bytes it would be sixteen loads.
    #[inline(always)]
    pub fn comm_words(self) -> [u64; 2] {
        R::read(task_struct::comm(self.raw).cast())
    }

    /// Whether real-time tasks have used up their time on its CPU.
    #[inline(always)]
    pub fn rt_throttled(self) -> bool {
        clocks::rt_throttled(self)
    }

    /// Whether it is on a run queue.
    #[inline(always)]
    fn on_rq(self) -> bool {
        let at = task_struct::on_rq(self.raw);
        // An int became a byte in 7.2.
        if task_struct::on_rq_size() == 1 { R::read(at) != 0 } else { R::read(at.cast::<u32>()) != 0 }
    }

    /// How often its CPU has gone from one task to another, by the kernel's own count; 0 where it cannot be read.
    #[inline(always)]
    pub fn nr_switches(self) -> u64 {
        clocks::nr_switches(self)
    }

    /// When it came to the CPU that it is on, by the kernel's own account, if now is `now`: 0 where that is not kept.
    #[inline(always)]
    pub fn switched_in_ns(self, now: u64) -> u64 {
        clocks::switched_in_ns(self, now)
    }
}

impl<R: Read> TaskFields for Task<R> {
    /// Its address. Unlike its number it is not given to another task before this one has been switched out for the
    /// last time, which is when its state here is deleted.
    #[inline(always)]
    fn identity(self) -> u64 {
        self.raw as u64
    }

    #[inline(always)]
    fn pid(self) -> u32 {
        R::read(task_struct::pid(self.raw)) as u32
    }

    #[inline(always)]
    fn tgid(self) -> u32 {
        R::read(task_struct::tgid(self.raw)) as u32
    }

    #[inline(always)]
    fn is_in_process(self, tgid: u32) -> bool {
        self.tgid() == tgid
    }

    #[inline(always)]
    fn prio(self) -> i32 {
        R::read(task_struct::prio(self.raw))
    }

    #[inline(always)]
    fn policy(self) -> u32 {
        R::read(task_struct::policy(self.raw))
    }

    /// At a wakeup this is exact: the tracepoint fires under the lock of the task's run queue, or in the task itself
    /// (kernel/sched/core.c, `try_to_wake_up`).
    #[inline(always)]
    fn on_cpu(self) -> bool {
        let at = task_struct::on_cpu(self.raw);
        // An int became a byte in 7.2.
        if task_struct::on_cpu_size() == 1 { R::read(at) != 0 } else { R::read(at.cast::<u32>()) != 0 }
    }

    #[inline(always)]
    fn comm(self) -> [u8; COMM_LEN] {
        name_of(self.comm_words())
    }

    #[inline(always)]
    fn cpu(self) -> u32 {
        // Moved into thread_info in 5.16.
        if task_struct___pre_5_16::cpu_exists() {
            R::read(task_struct___pre_5_16::cpu(self.raw.cast()))
        } else {
            R::read(thread_info::cpu(task_struct::thread_info(self.raw)))
        }
    }

    /// Under the lock of its run queue, after the kernel took it off if it blocks (`__schedule()`, kernel/sched/core.c).
    #[inline(always)]
    fn prev_state(self, preempt: bool) -> PrevState {
        PrevState::of(preempt && (BLOCKED_AS_PREEMPTED.load() == 0 || self.on_rq()), self.state())
    }

    #[inline(always)]
    fn cgroup_id(self) -> u64 {
        Self::id_of(self.cgroup())
    }

    #[inline(always)]
    fn clocks(self) -> Clocks {
        clocks::at_start(self)
    }

    #[inline(always)]
    fn clocks_of_wait(self, throttling: bool) -> Clocks {
        clocks::during_wait(self, throttling)
    }

    #[inline(always)]
    fn any_cgroup(self, wanted: impl Fn(u64) -> bool) -> bool {
        let mut group = self.cgroup();
        for _ in 0..MAX_CGROUP_DEPTH {
            if wanted(Self::id_of(group)) {
                return true;
            }
            let parent = R::read(cgroup_subsys_state::parent(cgroup::self_(group)));
            if ptr::eq(parent, ptr::null()) {
                return false;
            }
            group = R::read(cgroup_subsys_state::cgroup(parent));
        }
        false
    }
}

/// A handler of a device's interrupt (include/linux/interrupt.h).
pub struct IrqAction<R> {
    raw: *const irqaction,
    how: PhantomData<R>,
}

impl<R: Read> IrqAction<R> {
    #[inline(always)]
    pub fn new(raw: *const u8) -> Self {
        Self { raw: raw.cast(), how: PhantomData }
    }

    /// The device's name, cut to the length of a task's; empty where it cannot be read.
    #[inline(always)]
    pub fn name(&self) -> [u8; COMM_LEN] {
        let mut name = [0; COMM_LEN];
        // SAFETY: the helper checks the address.
        _ = unsafe { bpf_probe_read_kernel_str_bytes(R::read(irqaction::name(self.raw)).cast(), &mut name) };
        name
    }
}

/// What a workqueue is to do (include/linux/workqueue.h, workqueue_types.h).
pub struct WorkStruct<R> {
    raw: *const work_struct,
    how: PhantomData<R>,
}

impl<R: Read> WorkStruct<R> {
    #[inline(always)]
    pub fn new(raw: *const u8) -> Self {
        Self { raw: raw.cast(), how: PhantomData }
    }

    /// The address of its function.
    #[inline(always)]
    pub fn function(&self) -> u64 {
        R::read(work_struct::func(self.raw)) as u64
    }
}

/// Whether the task that runs here, and is about to leave its CPU, stays on a run queue.
#[inline(always)]
pub fn current_stays_runnable() -> bool {
    // SAFETY: no arguments, no side effects.
    Task::<Probe>::new(unsafe { bpf_get_current_task() } as *const u8).on_rq()
}

/// Whether the thread that runs here is a worker of a workqueue, and not one that a softirq with works interrupted.
#[inline(always)]
pub fn is_worker() -> bool {
    /// `PF_WQ_WORKER` (include/linux/sched.h), the same from 5.10 to 7.2.
    const WORKER: u32 = 0x20;
    // SAFETY: no arguments; the task that runs here exists.
    let current = unsafe { bpf_get_current_task() } as *const task_struct;
    Probe::read(task_struct::flags(current)) & WORKER != 0
}

/// A sample of the timerlat tracer (include/linux/trace.h, from 6.15 on).
pub struct KernelTimerlatSample<R> {
    raw: *const timerlat_sample,
    how: PhantomData<R>,
}

impl<R: Read> KernelTimerlatSample<R> {
    #[inline(always)]
    pub fn new(raw: *const u8) -> Self {
        Self { raw: raw.cast(), how: PhantomData }
    }

    #[inline(always)]
    pub fn latency_ns(&self) -> u64 {
        R::read(timerlat_sample::timer_latency(self.raw))
    }

    /// The activation, counted by CPU.
    #[inline(always)]
    pub fn seqnum(&self) -> u32 {
        R::read(timerlat_sample::seqnum(self.raw))
    }

    /// 0 interrupt, 1 thread, 2 return to user space.
    #[inline(always)]
    pub fn context(&self) -> i32 {
        R::read(timerlat_sample::context(self.raw))
    }
}

/// A sample of the osnoise tracer (include/linux/trace.h, from 6.15 on).
pub struct KernelOsnoiseSample<R> {
    raw: *const osnoise_sample,
    how: PhantomData<R>,
}

impl<R: Read> KernelOsnoiseSample<R> {
    #[inline(always)]
    pub fn new(raw: *const u8) -> Self {
        Self { raw: raw.cast(), how: PhantomData }
    }

    #[inline(always)]
    pub fn runtime_us(&self) -> u64 {
        R::read(osnoise_sample::runtime(self.raw))
    }

    #[inline(always)]
    pub fn noise_us(&self) -> u64 {
        R::read(osnoise_sample::noise(self.raw))
    }

    /// The longest single noise.
    #[inline(always)]
    pub fn max_us(&self) -> u64 {
        R::read(osnoise_sample::max_sample(self.raw))
    }

    /// Noises by hardware, NMIs, interrupts, softirqs, threads.
    #[inline(always)]
    pub fn counts(&self) -> [u32; 5] {
        [
            R::read(osnoise_sample::hw_count(self.raw)) as u32,
            R::read(osnoise_sample::nmi_count(self.raw)) as u32,
            R::read(osnoise_sample::irq_count(self.raw)) as u32,
            R::read(osnoise_sample::softirq_count(self.raw)) as u32,
            R::read(osnoise_sample::thread_count(self.raw)) as u32,
        ]
    }
}

/// A name read as two words.
#[inline(always)]
pub fn name_of([low, high]: [u64; 2]) -> [u8; COMM_LEN] {
    let mut comm = [0; COMM_LEN];
    comm[..8].copy_from_slice(&low.to_ne_bytes());
    comm[8..].copy_from_slice(&high.to_ne_bytes());
    comm
}
