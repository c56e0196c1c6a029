//! How programs read kernel memory.

use core::{mem::MaybeUninit, ptr};

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;

use crate::accessors::{cfs_rq, sched_entity, task_struct};

/// How a program may read kernel memory.
pub trait Read {
    /// What a [`Task`](super::Task) keeps of the queue of its group.
    type KeptQueue: Copy;

    /// Reads the queue of the task's group when a program begins.
    fn keep_queue(task: *const task_struct) -> Self::KeptQueue;

    /// The queue of the task's group. To be called only if the kernel has task groups.
    fn queue(task: *const task_struct, kept: Self::KeptQueue) -> *const cfs_rq;

    /// Reads the value at `from`.
    fn read<T: Copy>(from: *const T) -> T;
}

/// Reads of tp_btf programs: the verifier knows the pointer's type, so a read is one load. A fault reads
/// zeros.
pub struct Direct;

/// Reads of the tp_btf programs that record switches: like [`Direct`], but the queue of a task's group is read once,
/// when the program begins.
///
/// From 6.3 to 6.19, whenever the verifier passes the read of a typed pointer from a task, it looks for a few names
/// among all types of the kernel, one type after the other (`btf_nested_type_is_trusted()`, kernel/bpf/btf.c). It passes
/// a read in the branches of these programs hundreds of times, and one before the first branch once.
pub struct DirectQueueOnce;

/// Reads of raw_tp programs: a pointer is a plain number, and a read is a helper call. A fault reads
/// zeros, as in a direct load.
#[allow(dead_code, reason = "the object with task storage has no raw_tp programs")]
pub struct Probe;

impl Read for Direct {
    type KeptQueue = ();

    #[inline(always)]
    fn keep_queue(_: *const task_struct) {}

    #[inline(always)]
    fn queue(task: *const task_struct, (): ()) -> *const cfs_rq {
        read_queue::<Self>(task)
    }

    #[inline(always)]
    fn read<T: Copy>(from: *const T) -> T {
        // SAFETY: the verifier admits this load only where it can do no harm.
        unsafe { *from }
    }
}

impl Read for DirectQueueOnce {
    type KeptQueue = *const cfs_rq;

    #[inline(always)]
    fn keep_queue(task: *const task_struct) -> *const cfs_rq {
        if sched_entity::cfs_rq_exists() { read_queue::<Self>(task) } else { ptr::null() }
    }

    #[inline(always)]
    fn queue(_: *const task_struct, kept: *const cfs_rq) -> *const cfs_rq {
        kept
    }

    #[inline(always)]
    fn read<T: Copy>(from: *const T) -> T {
        Direct::read(from)
    }
}

impl Read for Probe {
    type KeptQueue = ();

    #[inline(always)]
    fn keep_queue(_: *const task_struct) {}

    #[inline(always)]
    fn queue(task: *const task_struct, (): ()) -> *const cfs_rq {
        read_queue::<Self>(task)
    }

    #[inline(always)]
    fn read<T: Copy>(from: *const T) -> T {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the helper checks the address. It writes the whole value: zeros after a fault
        // (`bpf_probe_read_kernel_common()`, kernel/trace/bpf_trace.c, since 5.5). Its result is not looked at: the
        // verifier would follow everything after it twice, for each read. The types read here are plain
        // integers, for which any bytes are a value.
        unsafe {
            bpf_probe_read_kernel(value.as_mut_ptr().cast(), size_of::<T>() as u32, from.cast());
            value.assume_init()
        }
    }
}

#[inline(always)]
fn read_queue<R: Read>(task: *const task_struct) -> *const cfs_rq {
    R::read(sched_entity::cfs_rq(task_struct::se(task)))
}
