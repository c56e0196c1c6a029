//! Every switch is told, with the wait that ends in it.

use core::mem;

use aya_ebpf::{
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    programs::tracing::StackIdContext,
};
use wakelat_common::{
    Class, Counter,
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN},
    start::PrevState,
    timeline::{
        CpuState, CurrentTask, IDLE_STATE_UNKNOWN, NO_WAIT, SwitchRecord, SwitchRecordFull, UNSEEN_UNKNOWN, flag, kind,
        part, prev_state_to_u8, source,
    },
};

use crate::{
    filter,
    maps::{CpuCounters, WITH_CGROUP},
    sample, stack,
    switch::{self, EndedWait, SwitchContext},
    task::{Read, Task, TaskFields as _, name_of},
    timeline::{self, feature_enabled},
    window,
};

/// How many switches a CPU tells between two looks at how full the ring buffer is. Must be a power of two.
const CHECK_RING_EVERY: u32 = 16;

/// Takes the place of [`switch::switch`]. Goes from `prev` to `next` at one instant: where the wait of `prev` begins is where
/// its slice ends.
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
    let (prev_pid, next_pid) = (prev.pid(), next.pid());
    let leaving = prev.prev_state(preempt);
    let at = FixedSwitchContext { now, cpu };
    if prev_pid != 0 {
        stack::of_prev(ctx, prev, prev_pid, leaving, now);
        switch::switch_out(prev, prev_pid, leaving, at);
    }
    let mut waited = WaitInfo::NONE;
    if next_pid != 0
        && let Some(told) = switch::switch_in(next, at, |ending| WaitInfo::of(ending, next))
    {
        waited = told;
    }
    let sent = emit(now, cpu, (prev, prev_pid, leaving), (next, next_pid), waited);
    if let Some(tally) = Class::from_u8(waited.class).and_then(CpuCounters::of) {
        tally.count(if sent { Counter::Measured } else { Counter::RingBufferFull });
    }
}

/// When and where a switch is, known beforehand, and within the window.
#[derive(Clone, Copy)]
struct FixedSwitchContext {
    now: u64,
    cpu: u32,
}

impl SwitchContext for FixedSwitchContext {
    #[inline(always)]
    fn now(self) -> Option<u64> {
        Some(self.now)
    }

    #[inline(always)]
    fn cpu(self) -> u32 {
        self.cpu
    }
}

/// What there is to tell of a wait; plain numbers, as the verifier forgets what a pointer on the stack points to where it is
/// there on one of two ways.
#[derive(Clone, Copy)]
struct WaitInfo {
    sampling_shift: u8,
    class: u8,
    preempted_sleeping: u8,
    migrations: u8,
    flags: u8,
    prev_cpu: u32,
    waker_pid: u32,
    wait_cpu: u32,
    waker_cpu: u32,
    latency_ns: u64,
    delivery_ns: u64,
    throttled_ns: u64,
    stolen_ns: u64,
}

impl WaitInfo {
    /// Nobody has waited.
    const NONE: Self = Self {
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
        let EndedWait { pending: start, context: course, now, latency_ns, .. } = ending;
        let delivery_ns = start.delivery_ns();
        let parts = course.end(timeline::clocks_of_wait(next, course), now - start.at_ns);
        Self {
            sampling_shift: start.sampling_shift,
            class: start.class,
            preempted_sleeping: start.preempted_sleeping,
            migrations: course.migrations,
            flags: parts.flags,
            prev_cpu: start.prev_cpu,
            waker_pid: start.waker_pid,
            wait_cpu: course.cpu,
            waker_cpu: if delivery_ns == DELIVERY_UNKNOWN { CPU_UNKNOWN } else { course.waker_cpu },
            latency_ns,
            delivery_ns,
            throttled_ns: parts.throttled_ns,
            stolen_ns: parts.stolen_ns,
        }
    }
}

/// Sends the record; returns whether there was room.
#[inline(always)]
fn emit<R: Read>(
    now: u64,
    cpu: u32,
    (prev, prev_pid, leaving): (Task<R>, u32, PrevState),
    (next, next_pid): (Task<R>, u32),
    waited: WaitInfo,
) -> bool {
    let Some(here) = timeline::cpu_state() else { return false };
    let (idle_state, look) = count_switch(here, prev_pid == 0);
    // SAFETY: the pointer is to this CPU's own entry. A switch has interrupts off, so nothing writes it meanwhile.
    let (hidden, idle_since_ns) =
        unsafe { ((*here).count_unseen(prev.nr_switches()), mem::take(&mut (*here).idle_since_ns)) };
    let mut flags = waited.flags;
    // Of a task that leaves the CPU asleep, and of one that comes, nobody wants to know unless each is shown.
    let is_preempted = matches!(leaving, PrevState::Runnable | PrevState::PreemptedSleeping);
    let wants_cpu = filter::wants_cpu(|| cpu);
    if prev_pid != 0
        && (is_preempted || feature_enabled(part::FILTER_RESULTS))
        && wants_cpu
        && filter::wants(prev, prev_pid)
    {
        flags |= flag::PREV_WANTED;
    }
    if next_pid != 0 && feature_enabled(part::FILTER_RESULTS) && wants_cpu && filter::wants(next, next_pid) {
        flags |= flag::NEXT_WANTED;
    }
    if feature_enabled(part::CLOCKS) && prev.rt_throttled() {
        flags |= flag::RT_THROTTLED;
    }
    let with_cgroup = WITH_CGROUP.load() != 0;
    let came = current_task(next, next_pid);
    let turn = |kind: u8, lost: u32| SwitchRecord {
        kind,
        sampling_shift: waited.sampling_shift,
        class: waited.class,
        preempted_sleeping: waited.preempted_sleeping,
        cpu,
        at_ns: now,
        lost,
        prev_state: prev_state_to_u8(leaving),
        flags,
        idle_state,
        migrations: waited.migrations,
        prev_pid,
        pid: next_pid,
        tgid: next.tgid(),
        prio: came.prio,
        policy: came.policy,
        wait_cpu: waited.wait_cpu,
        waker_cpu: waited.waker_cpu,
        waker_pid: waited.waker_pid,
        prev_cpu: waited.prev_cpu,
        reserved: 0,
        latency_ns: waited.latency_ns,
        delivery_ns: waited.delivery_ns,
        throttled_ns: waited.throttled_ns,
        stolen_ns: waited.stolen_ns,
        cgroup_id: came.cgroup_id,
        comm: name_of(came.comm),
    };
    // SAFETY: as above.
    let told = unsafe { mem::replace(&mut (*here).current, came) };
    let is_as_told = (hidden == 0 || hidden == UNSEEN_UNKNOWN) && is_unchanged(prev, prev_pid, told);
    let sent = if is_as_told {
        timeline::reserve(here).map(|(mut slot, lost)| {
            slot.write(turn(kind::SWITCH, lost));
            sample::submit(slot, look);
        })
    } else {
        timeline::reserve(here).map(|(mut slot, lost)| {
            slot.write(SwitchRecordFull {
                switch: turn(kind::SWITCH_FULL, lost),
                prev_tgid: prev.tgid(),
                prev_prio: prev.prio(),
                prev_policy: prev.policy(),
                unseen: hidden,
                switched_in_ns: if prev_pid == 0 { idle_since_ns } else { prev.switched_in_ns(now) },
                prev_cgroup_id: if with_cgroup { prev.cgroup_id() } else { 0 },
                prev_comm: prev.comm(),
            });
            sample::submit(slot, look);
        })
    };
    if sent.is_none() {
        // SAFETY: as above.
        unsafe { (*here).current.is_recorded = 0 };
    }
    sent.is_some()
}

/// `task` comes, and a record is to tell of it.
#[inline(always)]
fn current_task<R: Read>(task: Task<R>, pid: u32) -> CurrentTask {
    let cgroup_id = if WITH_CGROUP.load() != 0 { task.cgroup_id() } else { 0 };
    CurrentTask { pid, prio: task.prio(), policy: task.policy(), is_recorded: 1, cgroup_id, comm: task.comm_words() }
}

/// Whether what was `told` by the last record still holds of the task that leaves.
#[inline(always)]
fn is_unchanged<R: Read>(prev: Task<R>, pid: u32, told: CurrentTask) -> bool {
    told.is_recorded != 0
        && told.pid == pid
        && told.prio == prev.prio()
        && told.policy == prev.policy()
        && (WITH_CGROUP.load() == 0 || told.cgroup_id == prev.cgroup_id())
        && told.comm == prev.comm_words()
}

/// One more switch `here`. Returns the last C-state, where the CPU comes `from_idle`, and whether to look at the ring buffer.
#[inline(always)]
fn count_switch(here: *mut CpuState, from_idle: bool) -> (u8, bool) {
    // SAFETY: the pointer is to this CPU's own entry. A switch has interrupts off, so no other reference into it is in use.
    let here = unsafe { &mut *here };
    if feature_enabled(part::INTERRUPTS) {
        // On PREEMPT_RT a softirq may lose the CPU like any code of its thread: what is under way belongs to the thread.
        here.from_ns[source::SOFTIRQ as usize] = 0;
    }
    here.switches_seen = here.switches_seen.wrapping_add(1);
    let look = here.switches_seen & (CHECK_RING_EVERY - 1) == 0;
    if from_idle && let state @ 1.. = mem::take(&mut here.idle_state) {
        ((state - 1) as u8, look)
    } else {
        (IDLE_STATE_UNKNOWN, look)
    }
}
