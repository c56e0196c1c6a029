//! `sched_switch` when a timeline is requested: emits a switch record for every switch, with the wait
//! that it ends.
//!
//! Does the bookkeeping of [`switch_waits`] and also reads both tasks, the CPU's C-state and the
//! kernel's count of switches. Emits a [`SwitchRecord`], or a [`SwitchRecordFull`] if the last record
//! does not describe `prev`.

use core::mem;

use aya_ebpf::{
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    programs::tracing::StackIdContext,
};
use wakelat_common::{
    Class, Counter,
    cpu_state::{CpuState, CurrentTask, FirstRead},
    pending_wait::PrevState,
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN},
    timeline::{
        IDLE_STATE_UNKNOWN, NO_WAIT, SwitchRecord, SwitchRecordFull, UNSEEN_UNKNOWN, feature, flag, kind,
        prev_state_to_u8, source,
    },
};

use crate::{
    cpu_state,
    ended_wait::EndedWait,
    filter,
    kernel_structs::{Read, Task, TaskFields as _, name_of},
    maps::{CpuCounters, WITH_CGROUP, feature_enabled},
    record_slots, ring_buffers, stack,
    switch_waits::{self, SwitchContext},
    throttle_steal_clocks, window,
};

/// A CPU checks the fill level of the ring buffer once in this many switches. Must be a power of two.
const CHECK_RING_EVERY: u32 = 16;

/// Replaces [`switch_waits`]. Handles `prev` and `next` at one instant, so the wait of `prev` begins
/// exactly where its slice ends.
#[inline(always)]
pub fn switch<R: Read>(ctx: &impl StackIdContext, preempt: bool, prev: Task<R>, next: Task<R>) {
    if !window::is_open() {
        return;
    }
    // SAFETY: no arguments, no side effects.
    let (now, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    if !window::contains(now) {
        return;
    }
    if read_first(prev, next).is_none() {
        return;
    }
    let (prev_pid, next_pid) = (prev.pid(), next.pid());
    let prev_state = prev.prev_state(preempt);
    let mut at = FixedSwitchContext { now, cpu };
    if prev_pid != 0 {
        stack::of_prev(ctx, prev, prev_pid, prev_state, now);
        switch_waits::switch_out(prev, prev_pid, prev_state, &mut at);
    }
    let mut wait = WaitInfo::NONE;
    if next_pid != 0
        && let Some(ended) = switch_waits::switch_in(next, &mut at, |ending| WaitInfo::of(ending, next))
    {
        wait = ended;
    }
    let sent = emit(now, cpu, (prev, prev_pid, prev_state), (next, next_pid), wait);
    if let Some(tally) = Class::from_u8(wait.class).and_then(CpuCounters::of) {
        tally.count(if sent { Counter::Measured } else { Counter::RingBufferFull });
    }
}

/// Reads and keeps what a record says of the queue and the cgroups of the tasks. To be called before the first branch
/// that the verifier follows both ways: see [`DirectQueueOnce`](crate::kernel_structs::DirectQueueOnce).
#[inline(always)]
pub fn read_first<R: Read>(prev: Task<R>, next: Task<R>) -> Option<()> {
    let here = cpu_state::get()?;
    let with_cgroup = WITH_CGROUP.load() != 0;
    let read = FirstRead {
        nr_switches: prev.nr_switches(),
        prev_cgroup_id: if with_cgroup { prev.cgroup_id() } else { 0 },
        next_cgroup_id: if with_cgroup { next.cgroup_id() } else { 0 },
        rt_throttled: (feature_enabled(feature::CLOCKS) && prev.rt_throttled()).into(),
    };
    // SAFETY: the pointer is to this CPU's own entry. A switch has interrupts off, so nothing else writes these words.
    unsafe { (&raw mut (*here).first_read).write_volatile(read) };
    Some(())
}

/// Time and CPU of a switch that have been read already, within the window.
struct FixedSwitchContext {
    now: u64,
    cpu: u32,
}

impl SwitchContext for FixedSwitchContext {
    #[inline(always)]
    fn now(&mut self) -> Option<u64> {
        Some(self.now)
    }

    #[inline(always)]
    fn cpu(&self) -> u32 {
        self.cpu
    }

    #[inline(always)]
    fn counters(&self, class: Class) -> Option<CpuCounters> {
        CpuCounters::of(class)
    }
}

/// Where [`emit`] takes the wait from.
pub trait WaitSource: Copy {
    /// What the record says about the wait. Called just before the record is written.
    fn wait(self) -> WaitInfo;
}

impl WaitSource for WaitInfo {
    #[inline(always)]
    fn wait(self) -> WaitInfo {
        self
    }
}

/// What a record says about the wait that ended. Plain numbers: the verifier forgets what a pointer on
/// the stack points to if only one of two paths sets it.
#[derive(Clone, Copy)]
pub struct WaitInfo {
    pub sampling_shift: u8,
    pub class: u8,
    pub preempted_sleeping: u8,
    pub migrations: u8,
    pub flags: u8,
    pub prev_cpu: u32,
    pub waker_pid: u32,
    pub wait_cpu: u32,
    pub waker_cpu: u32,
    pub latency_ns: u64,
    pub delivery_ns: u64,
    pub throttled_ns: u64,
    pub stolen_ns: u64,
}

impl WaitInfo {
    /// No wait ended.
    pub const NONE: Self = Self {
        sampling_shift: 0,
        class: NO_WAIT,
        preempted_sleeping: 0,
        migrations: 0,
        flags: 0,
        prev_cpu: CPU_UNKNOWN,
        waker_pid: 0,
        wait_cpu: CPU_UNKNOWN,
        waker_cpu: CPU_UNKNOWN,
        latency_ns: 0,
        delivery_ns: 0,
        throttled_ns: 0,
        stolen_ns: 0,
    };

    #[inline(always)]
    fn of<R: Read>(ending: EndedWait, next: Task<R>) -> Self {
        let EndedWait { pending, context, now, latency_ns, .. } = ending;
        let delivery_ns = pending.delivery_ns();
        let deltas = context.end(throttle_steal_clocks::during(next, context), now - pending.at_ns);
        Self {
            sampling_shift: pending.sampling_shift,
            class: pending.class,
            preempted_sleeping: pending.preempted_sleeping,
            migrations: context.migrations,
            flags: deltas.flags,
            prev_cpu: pending.prev_cpu,
            waker_pid: pending.waker_pid,
            wait_cpu: context.cpu,
            waker_cpu: if delivery_ns == DELIVERY_UNKNOWN { CPU_UNKNOWN } else { context.waker_cpu },
            latency_ns,
            delivery_ns,
            throttled_ns: deltas.throttled_ns,
            stolen_ns: deltas.stolen_ns,
        }
    }
}

/// Sends the record. Returns whether there was room.
#[inline(always)]
pub fn emit<R: Read, W: WaitSource>(
    now: u64,
    cpu: u32,
    (prev, prev_pid, prev_state): (Task<R>, u32, PrevState),
    (next, next_pid): (Task<R>, u32),
    wait: W,
) -> bool {
    let Some(here) = cpu_state::get() else { return false };
    let (idle_state, check_ring) = count_switch(here, prev_pid == 0);
    let first = KeptReads(here);
    // SAFETY: the pointer is to this CPU's own entry. A switch has interrupts off, so nothing writes it
    // meanwhile.
    let (unseen, idle_since_ns) =
        unsafe { ((*here).count_unseen(first.nr_switches()), mem::take(&mut (*here).idle_since_ns)) };
    let mut flags = wait.wait().flags;
    // The filter result for a task that goes to sleep, or that is switched in, only matters if all are
    // requested.
    let is_preempted = matches!(prev_state, PrevState::Runnable | PrevState::PreemptedSleeping);
    let wants_cpu = filter::wants_cpu(|| cpu);
    if prev_pid != 0
        && (is_preempted || feature_enabled(feature::FILTER_RESULTS))
        && wants_cpu
        && filter::wants(prev, prev_pid)
    {
        flags |= flag::PREV_WANTED;
    }
    if next_pid != 0 && feature_enabled(feature::FILTER_RESULTS) && wants_cpu && filter::wants(next, next_pid) {
        flags |= flag::NEXT_WANTED;
    }
    if first.rt_throttled() {
        flags |= flag::RT_THROTTLED;
    }
    let current = CurrentTask {
        pid: next_pid,
        prio: next.prio(),
        policy: next.policy(),
        is_recorded: 1,
        cgroup_id: first.next_cgroup_id(),
        comm: next.comm_words(),
    };
    // In one function with the caller: the compiler would make it one of its own for its size.
    let record = #[inline(always)]
    |kind: u8, lost: u32, wait: WaitInfo| SwitchRecord {
        kind,
        sampling_shift: wait.sampling_shift,
        class: wait.class,
        preempted_sleeping: wait.preempted_sleeping,
        cpu,
        at_ns: now,
        lost,
        prev_state: prev_state_to_u8(prev_state),
        flags,
        idle_state,
        migrations: wait.migrations,
        prev_pid,
        pid: next_pid,
        tgid: next.tgid(),
        prio: current.prio,
        policy: current.policy,
        wait_cpu: wait.wait_cpu,
        waker_cpu: wait.waker_cpu,
        waker_pid: wait.waker_pid,
        prev_cpu: wait.prev_cpu,
        reserved: 0,
        latency_ns: wait.latency_ns,
        delivery_ns: wait.delivery_ns,
        throttled_ns: wait.throttled_ns,
        stolen_ns: wait.stolen_ns,
        cgroup_id: current.cgroup_id,
        comm: name_of(current.comm),
    };
    // SAFETY: the pointer is to this CPU's own entry. A switch has interrupts off, so nothing writes it
    // meanwhile.
    let recorded = unsafe { mem::replace(&mut (*here).current, current) };
    let unchanged =
        (unseen == 0 || unseen == UNSEEN_UNKNOWN) && is_unchanged(prev, prev_pid, first.prev_cgroup_id(), recorded);
    let sent = if unchanged {
        match record_slots::reserve(cpu) {
            Some(mut room) => {
                // SAFETY: the pointer is to this CPU's own entry; an aligned word is read in one access.
                let lost = unsafe { (&raw const (*here).lost).read_volatile() } as u32;
                room.write(record(kind::SWITCH, lost, wait.wait()));
                room.publish(cpu, check_ring);
                Some(())
            }
            None => cpu_state::count_lost(here),
        }
    } else {
        cpu_state::reserve(here, cpu).map(
            #[inline(always)]
            |(mut slot, lost)| {
                slot.write(SwitchRecordFull {
                    switch: record(kind::SWITCH_FULL, lost, wait.wait()),
                    prev_tgid: prev.tgid(),
                    prev_prio: prev.prio(),
                    prev_policy: prev.policy(),
                    unseen,
                    switched_in_ns: if prev_pid == 0 { idle_since_ns } else { prev.switched_in_ns(now) },
                    prev_cgroup_id: first.prev_cgroup_id(),
                    prev_comm: prev.comm(),
                });
                ring_buffers::submit(slot, cpu, check_ring);
            },
        )
    };
    if sent.is_none() {
        // SAFETY: the pointer is to this CPU's own entry. A switch has interrupts off, so nothing writes
        // it meanwhile.
        unsafe { (*here).current.is_recorded = 0 };
    }
    sent.is_some()
}

/// What [`read_first`] has kept of this switch. It is read where it is needed: the record takes most of the stack.
#[derive(Clone, Copy)]
struct KeptReads(*const CpuState);

impl KeptReads {
    #[inline(always)]
    fn nr_switches(self) -> u64 {
        // SAFETY: the pointer is to this CPU's own entry, which only this program writes.
        unsafe { (&raw const (*self.0).first_read.nr_switches).read_volatile() }
    }

    #[inline(always)]
    fn prev_cgroup_id(self) -> u64 {
        // SAFETY: the pointer is to this CPU's own entry, which only this program writes.
        unsafe { (&raw const (*self.0).first_read.prev_cgroup_id).read_volatile() }
    }

    #[inline(always)]
    fn next_cgroup_id(self) -> u64 {
        // SAFETY: the pointer is to this CPU's own entry, which only this program writes.
        unsafe { (&raw const (*self.0).first_read.next_cgroup_id).read_volatile() }
    }

    #[inline(always)]
    fn rt_throttled(self) -> bool {
        // SAFETY: the pointer is to this CPU's own entry, which only this program writes.
        unsafe { (&raw const (*self.0).first_read.rt_throttled).read_volatile() != 0 }
    }
}

/// Whether the description in the last record, `recorded`, still holds for `prev`.
#[inline(always)]
fn is_unchanged<R: Read>(prev: Task<R>, pid: u32, cgroup_id: u64, recorded: CurrentTask) -> bool {
    recorded.is_recorded != 0
        && recorded.pid == pid
        && recorded.prio == prev.prio()
        && recorded.policy == prev.policy()
        && recorded.cgroup_id == cgroup_id
        && recorded.comm == prev.comm_words()
}

/// Counts a switch on this CPU. Returns the last C-state if the CPU comes `from_idle`, and whether to
/// check the fill level of the ring buffer.
#[inline(always)]
fn count_switch(here: *mut CpuState, from_idle: bool) -> (u8, bool) {
    // SAFETY: the pointer is to this CPU's own entry. A switch has interrupts off, so no other reference
    // into it is in use.
    let here = unsafe { &mut *here };
    if feature_enabled(feature::INTERRUPTS) {
        // On PREEMPT_RT a softirq can be switched out like any code of its thread: an unfinished one
        // belongs to the thread.
        here.from_ns[source::SOFTIRQ as usize] = 0;
    }
    here.switches_seen = here.switches_seen.wrapping_add(1);
    let check_ring = here.switches_seen & (CHECK_RING_EVERY - 1) == 0;
    if from_idle && let state @ 1.. = mem::take(&mut here.idle_state) {
        ((state - 1) as u8, check_ring)
    } else {
        (IDLE_STATE_UNKNOWN, check_ring)
    }
}
