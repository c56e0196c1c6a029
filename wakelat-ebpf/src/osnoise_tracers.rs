//! Tracepoints of the timerlat and osnoise tracers (`osnoise:*`): emits their samples, and the noise
//! that they report, as a [`TracerRecord`] each.
//!
//! Holds both the entry points and the bodies, as each body is only a few lines. The prototypes are
//! those of include/trace/events/osnoise.h from 5.14 on; the samples are tracepoints from 6.15 on.

use aya_ebpf::{
    helpers::{
        bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns,
        bpf_probe_read_kernel_str_bytes,
    },
    macros::{btf_tracepoint, raw_tracepoint},
    programs::{BtfTracePointContext, RawTracePointContext},
};
use wakelat_common::osnoise_tracers::{NAME_LEN, TracerRecord, kind};

use crate::{
    kernel_structs::{Direct, KernelOsnoiseSample, KernelTimerlatSample, Probe, Read, Task, TaskFields},
    maps::TRACER_LOST,
    ring_buffers,
};

/// Sends a record with time, CPU and current task, to which `fill` adds the rest. Counts a record that
/// finds no room.
#[inline(always)]
fn emit(kind: u32, fill: impl FnOnce(&mut TracerRecord)) {
    // SAFETY: no arguments, no side effects.
    let (at_ns, cpu, pid) =
        unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id(), bpf_get_current_pid_tgid() as u32) };
    let Some(mut slot) = ring_buffers::reserve::<TracerRecord>(cpu) else {
        if let Some(lost) = TRACER_LOST.get_ptr_mut(0) {
            // SAFETY: the pointer is to this CPU's own entry, which no other CPU writes.
            unsafe { *lost += 1 };
        }
        return;
    };
    let comm = bpf_get_current_comm().unwrap_or_default();
    fill(slot.write(TracerRecord { kind, cpu, at_ns, pid, comm, ..TracerRecord::default() }));
    // The reader polls: a machine whose latencies are measured must not be woken for each of them.
    ring_buffers::submit(slot, cpu, false);
}

#[inline(always)]
fn irq(vector: i32, name: *const u8, start_ns: u64, duration_ns: u64) {
    emit(kind::IRQ, |record| {
        *record = TracerRecord { number: vector, start_ns, duration_ns, ..*record };
        // SAFETY: the helper checks the address. A name that cannot be read stays empty.
        _ = unsafe { bpf_probe_read_kernel_str_bytes(name, &mut record.name) };
    });
}

#[inline(always)]
fn thread<R: Read>(task: Task<R>, start_ns: u64, duration_ns: u64) {
    emit(kind::THREAD, |record| {
        *record = TracerRecord { number: task.pid() as i32, start_ns, duration_ns, ..*record };
        record.name[..NAME_LEN / 2].copy_from_slice(&task.comm());
    });
}

#[inline(always)]
fn interference(kind: u32, number: i32, start_ns: u64, duration_ns: u64) {
    emit(kind, |record| *record = TracerRecord { number, start_ns, duration_ns, ..*record });
}

#[inline(always)]
fn threshold(start_ns: u64, duration_ns: u64, extra: u64) {
    emit(kind::THRESHOLD, |record| *record = TracerRecord { start_ns, duration_ns, extra, ..*record });
}

#[inline(always)]
fn timerlat<R: Read>(sample: KernelTimerlatSample<R>) {
    emit(kind::TIMERLAT, |record| {
        let counts = [sample.seqnum(), 0, 0, 0, 0];
        *record = TracerRecord { number: sample.context(), duration_ns: sample.latency_ns(), counts, ..*record };
    });
}

#[inline(always)]
fn osnoise<R: Read>(sample: KernelOsnoiseSample<R>) {
    emit(kind::OSNOISE, |record| {
        let (extra, duration_ns, max_us) = (sample.runtime_us(), sample.noise_us(), sample.max_us());
        *record = TracerRecord { extra, duration_ns, max_us, counts: sample.counts(), ..*record };
    });
}

// TP_PROTO(int vector, const char *desc, u64 start, u64 duration)
#[btf_tracepoint(function = "irq_noise")]
fn irq_noise(ctx: BtfTracePointContext) -> i32 {
    irq(ctx.arg(0), ctx.arg(1), ctx.arg(2), ctx.arg(3));
    0
}

#[raw_tracepoint(tracepoint = "irq_noise")]
fn raw_irq_noise(ctx: RawTracePointContext) -> i32 {
    irq(ctx.arg(0), ctx.arg(1), ctx.arg(2), ctx.arg(3));
    0
}

// TP_PROTO(int vector, u64 start, u64 duration)
#[btf_tracepoint(function = "softirq_noise")]
fn softirq_noise(ctx: BtfTracePointContext) -> i32 {
    interference(kind::SOFTIRQ, ctx.arg(0), ctx.arg(1), ctx.arg(2));
    0
}

#[raw_tracepoint(tracepoint = "softirq_noise")]
fn raw_softirq_noise(ctx: RawTracePointContext) -> i32 {
    interference(kind::SOFTIRQ, ctx.arg(0), ctx.arg(1), ctx.arg(2));
    0
}

// TP_PROTO(u64 start, u64 duration)
#[btf_tracepoint(function = "nmi_noise")]
fn nmi_noise(ctx: BtfTracePointContext) -> i32 {
    interference(kind::NMI, 0, ctx.arg(0), ctx.arg(1));
    0
}

#[raw_tracepoint(tracepoint = "nmi_noise")]
fn raw_nmi_noise(ctx: RawTracePointContext) -> i32 {
    interference(kind::NMI, 0, ctx.arg(0), ctx.arg(1));
    0
}

// TP_PROTO(struct task_struct *t, u64 start, u64 duration)
#[btf_tracepoint(function = "thread_noise")]
fn thread_noise(ctx: BtfTracePointContext) -> i32 {
    thread(Task::<Direct>::new(ctx.arg(0)), ctx.arg(1), ctx.arg(2));
    0
}

#[raw_tracepoint(tracepoint = "thread_noise")]
fn raw_thread_noise(ctx: RawTracePointContext) -> i32 {
    thread(Task::<Probe>::new(ctx.arg(0)), ctx.arg(1), ctx.arg(2));
    0
}

// TP_PROTO(u64 start, u64 duration, u64 interference)
#[btf_tracepoint(function = "sample_threshold")]
fn sample_threshold(ctx: BtfTracePointContext) -> i32 {
    threshold(ctx.arg(0), ctx.arg(1), ctx.arg(2));
    0
}

#[raw_tracepoint(tracepoint = "sample_threshold")]
fn raw_sample_threshold(ctx: RawTracePointContext) -> i32 {
    threshold(ctx.arg(0), ctx.arg(1), ctx.arg(2));
    0
}

// TP_PROTO(struct timerlat_sample *s)
#[btf_tracepoint(function = "timerlat_sample")]
fn timerlat_sample(ctx: BtfTracePointContext) -> i32 {
    timerlat(KernelTimerlatSample::<Direct>::new(ctx.arg(0)));
    0
}

#[raw_tracepoint(tracepoint = "timerlat_sample")]
fn raw_timerlat_sample(ctx: RawTracePointContext) -> i32 {
    timerlat(KernelTimerlatSample::<Probe>::new(ctx.arg(0)));
    0
}

// TP_PROTO(struct osnoise_sample *s)
#[btf_tracepoint(function = "osnoise_sample")]
fn osnoise_sample(ctx: BtfTracePointContext) -> i32 {
    osnoise(KernelOsnoiseSample::<Direct>::new(ctx.arg(0)));
    0
}

#[raw_tracepoint(tracepoint = "osnoise_sample")]
fn raw_osnoise_sample(ctx: RawTracePointContext) -> i32 {
    osnoise(KernelOsnoiseSample::<Probe>::new(ctx.arg(0)));
    0
}
