//! Every switch is told, with the wait that ends in it.

use core::mem;

use aya_ebpf::{
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    programs::tracing::StackIdContext,
};
use wakelat_common::{
    Class, Counter,
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN},
    start::Leaving,
    timeline::{
        Came, FullTurn, HIDDEN_UNKNOWN, Here, IDLE_STATE_UNKNOWN, NO_WAIT, Turn, flag, kind, leaving_number, part,
        source,
    },
};

use crate::{
    filter,
    maps::{Tally, WITH_CGROUP},
    sample, stack,
    switch::{self, At, Ending},
    task::{Read, Task, TaskFields as _, name_of},
    timeline::{self, tells},
    window,
};

/// How many switches a CPU tells between two looks at how full the ring buffer is. Must be a power of two.
const LOOK_EVERY: u32 = 16;

/// Takes the place of [`switch::switch`]. Goes from `prev` to `next` at one instant: where the wait of `prev` begins is where
/// its slice ends.
#[inline(always)]
pub fn turn<R: Read>(ctx: &impl StackIdContext, preempt: bool, prev: Task<R>, next: Task<R>) {
    if !window::is_open() {
        return;
    }
    // SAFETY: no arguments, no side effects.
    let (now, cpu) = unsafe { (bpf_ktime_get_ns(), bpf_get_smp_processor_id()) };
    if !window::contains(now) {
        return;
    }
    let (prev_pid, next_pid) = (prev.pid(), next.pid());
    let leaving = prev.leaves(preempt);
    let at = Instant { now, cpu };
    if prev_pid != 0 {
        stack::of_leaver(ctx, prev, prev_pid, leaving, now);
        switch::switch_out(prev, prev_pid, leaving, at);
    }
    let mut waited = Waited::NONE;
    if next_pid != 0
        && let Some(told) = switch::switch_in(next, at, |ending| Waited::of(ending, next))
    {
        waited = told;
    }
    let sent = tell(now, cpu, (prev, prev_pid, leaving), (next, next_pid), waited);
    if let Some(tally) = Class::from_u8(waited.class).and_then(Tally::of) {
        tally.count(if sent { Counter::Delivered } else { Counter::RingFull });
    }
}

/// When and where a switch is, known beforehand, and within the window.
#[derive(Clone, Copy)]
struct Instant {
    now: u64,
    cpu: u32,
}

impl At for Instant {
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
struct Waited {
    level: u8,
    class: u8,
    wakeable: u8,
    moves: u8,
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

impl Waited {
    /// Nobody has waited.
    const NONE: Self = Self {
        level: 0,
        class: NO_WAIT,
        wakeable: 0,
        moves: 0,
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
    fn of<R: Read>(ending: Ending, next: Task<R>) -> Self {
        let Ending { start, course, now, latency_ns, .. } = ending;
        let delivery_ns = start.delivery_ns();
        let parts = course.end(timeline::clocks_of_wait(next, course), now - start.at_ns);
        Self {
            level: start.level,
            class: start.class,
            wakeable: start.wakeable,
            moves: course.moves,
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
fn tell<R: Read>(
    now: u64,
    cpu: u32,
    (prev, prev_pid, leaving): (Task<R>, u32, Leaving),
    (next, next_pid): (Task<R>, u32),
    waited: Waited,
) -> bool {
    let Some(here) = timeline::here() else { return false };
    let (idle_state, look) = pass(here, prev_pid == 0);
    // SAFETY: the pointer is to this CPU's own entry. A switch has interrupts off, so nothing writes it meanwhile.
    let (hidden, idle_since_ns) = unsafe { ((*here).pass(prev.switches()), mem::take(&mut (*here).idle_since_ns)) };
    let mut flags = waited.flags;
    // Of a task that leaves the CPU asleep, and of one that comes, nobody wants to know unless each is shown.
    let is_preempted = matches!(leaving, Leaving::Runnable | Leaving::RunnableYetWakeable);
    let wants_cpu = filter::wants_cpu(|| cpu);
    if prev_pid != 0 && (is_preempted || tells(part::VERDICTS)) && wants_cpu && filter::wants(prev, prev_pid) {
        flags |= flag::PREV_WANTED;
    }
    if next_pid != 0 && tells(part::VERDICTS) && wants_cpu && filter::wants(next, next_pid) {
        flags |= flag::NEXT_WANTED;
    }
    if tells(part::CLOCKS) && prev.rt_throttled() {
        flags |= flag::RT_THROTTLED;
    }
    let with_cgroup = WITH_CGROUP.load() != 0;
    let came = came(next, next_pid);
    let turn = |kind: u8, lost: u32| Turn {
        kind,
        level: waited.level,
        class: waited.class,
        wakeable: waited.wakeable,
        cpu,
        at_ns: now,
        lost,
        leaving: leaving_number(leaving),
        flags,
        idle_state,
        moves: waited.moves,
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
    let told = unsafe { mem::replace(&mut (*here).came, came) };
    let is_as_told = (hidden == 0 || hidden == HIDDEN_UNKNOWN) && is_as_told(prev, prev_pid, told);
    let sent = if is_as_told {
        timeline::reserve(here).map(|(mut slot, lost)| {
            slot.write(turn(kind::TURN, lost));
            sample::submit(slot, look);
        })
    } else {
        timeline::reserve(here).map(|(mut slot, lost)| {
            slot.write(FullTurn {
                turn: turn(kind::FULL_TURN, lost),
                prev_tgid: prev.tgid(),
                prev_prio: prev.prio(),
                prev_policy: prev.policy(),
                hidden,
                came_ns: if prev_pid == 0 { idle_since_ns } else { prev.came_ns(now) },
                prev_cgroup_id: if with_cgroup { prev.cgroup_id() } else { 0 },
                prev_comm: prev.comm(),
            });
            sample::submit(slot, look);
        })
    };
    if sent.is_none() {
        // SAFETY: as above.
        unsafe { (*here).came.is_told = 0 };
    }
    sent.is_some()
}

/// `task` comes, and a record is to tell of it.
#[inline(always)]
fn came<R: Read>(task: Task<R>, pid: u32) -> Came {
    let cgroup_id = if WITH_CGROUP.load() != 0 { task.cgroup_id() } else { 0 };
    Came { pid, prio: task.prio(), policy: task.policy(), is_told: 1, cgroup_id, comm: task.comm_words() }
}

/// Whether what was `told` by the last record still holds of the task that leaves.
#[inline(always)]
fn is_as_told<R: Read>(prev: Task<R>, pid: u32, told: Came) -> bool {
    told.is_told != 0
        && told.pid == pid
        && told.prio == prev.prio()
        && told.policy == prev.policy()
        && (WITH_CGROUP.load() == 0 || told.cgroup_id == prev.cgroup_id())
        && told.comm == prev.comm_words()
}

/// One more switch `here`. Returns the last C-state, where the CPU comes `from_idle`, and whether to look at the ring buffer.
#[inline(always)]
fn pass(here: *mut Here, from_idle: bool) -> (u8, bool) {
    // SAFETY: the pointer is to this CPU's own entry. A switch has interrupts off, so no other reference into it is in use.
    let here = unsafe { &mut *here };
    if tells(part::NOISE) {
        // On PREEMPT_RT a softirq may lose the CPU like any code of its thread: what is under way belongs to the thread.
        here.from_ns[source::SOFTIRQ as usize] = 0;
    }
    here.turns = here.turns.wrapping_add(1);
    let look = here.turns & (LOOK_EVERY - 1) == 0;
    if from_idle && let state @ 1.. = mem::take(&mut here.idle_state) {
        ((state - 1) as u8, look)
    } else {
        (IDLE_STATE_UNKNOWN, look)
    }
}
