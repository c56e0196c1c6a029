//! `sched_switch` with the run queue's own clock, and with a history of each CPU's switches: divides each wait that it
//! measures into causes, and adds them up by group. The rules: [`wakelat_common::wait_division`].

use aya_ebpf::{
    Global,
    bindings::{BPF_ANY, BPF_F_MMAPABLE},
    btf_maps::{Array, HashMap, PerCpuArray},
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::btf_map,
};
use wakelat_common::{
    Class,
    cause_sums::{
        BY_OWN_GROUP, BY_UNTRACKED, GroupSums, GroupSumsKey, LongestWait, MAX_GROUP_SUMS, MAX_PAIR_SUMS, PairKey,
        PairSum,
    },
    cpu_words::CpuWords,
    pending_wait::PrevState,
    wait_division::{
        CpuHistory, DividedCause, DivisionSink, EXACT_PARTS, EndingWait, GroupPart, GroupParts, GroupWords, NO_WAIT,
        PARTS, QueueInstant, Runner, SliceRing, has_group, rank,
    },
};

use crate::{
    cpu_array,
    direct_table::{self, DirectTable},
    interrupt_clock,
    kernel_structs::{QueuedTask, RunQueueFields},
    switch_queue_clock::{SwitchHooks, switch_with},
    throttled_clocks,
    wait_settings::LoadedSettings,
};

/// Key: a CPU. Value: its last switches. The loader sets the number of elements.
#[btf_map]
static LAST_SLICES: Array<CpuHistory, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// The waits of each group. Read and emptied by user space, one half at a time.
#[btf_map]
static GROUP_SUMS: HashMap<GroupSumsKey, GroupSums, { MAX_GROUP_SUMS as usize }> = HashMap::new();

/// Which group waited while which ran. Read and emptied by user space, one half at a time.
#[btf_map]
static PAIR_SUMS: HashMap<PairKey, PairSum, { MAX_PAIR_SUMS as usize }> = HashMap::new();

/// Groups that are found without [`GROUP_SUMS`].
#[btf_map]
static DIRECT_GROUPS: DirectTable<GroupSumsKey, GroupSums> = DirectTable::new();

/// Pairs that are found without [`PAIR_SUMS`].
#[btf_map]
static DIRECT_PAIRS: DirectTable<PairKey, PairSum> = DirectTable::new();

/// Places of each CPU and half in [`DIRECT_GROUPS`].
#[unsafe(no_mangle)]
static GROUP_PLACES: Global<u32> = Global::new(0);

/// Places of each CPU and half in [`DIRECT_PAIRS`].
#[unsafe(no_mangle)]
static PAIR_PLACES: Global<u32> = Global::new(0);

/// Key: a half. Value: this CPU's waits of groups for which [`GROUP_SUMS`] had no room.
#[btf_map]
static OTHER_GROUPS: PerCpuArray<GroupSums, 2> = PerCpuArray::new();

/// A group without waits: the value of a new element, which is too large for the stack. Never written.
#[btf_map]
static NO_CAUSES: Array<GroupSums, 1> = Array::new();

/// 1: groups are names of tasks; 0: cgroups.
#[unsafe(no_mangle)]
static GROUPS_ARE_NAMES: Global<u32> = Global::new(0);

/// Handles both halves of a switch on the CPU with these words, `prev` first.
#[inline(always)]
pub fn switch<T: QueuedTask>(words: *mut CpuWords, preempt: bool, prev: T, next: T) {
    switch_with::<LoadedSettings, T, _>(words, preempt, prev, next, |queue, clock_ns| {
        let history = cpu_array::own(&LAST_SLICES)?;
        // SAFETY: this CPU's own entry; `sched_switch` runs with interrupts off, so no other run of this program
        // comes between.
        let CpuHistory { slices: ring, parts } = unsafe { &mut *history };
        let irq_ns = if interrupt_clock::is_used() {
            interrupt_clock::at_switch(ring.longest_interrupt(), is_ksoftirqd(next))
        } else {
            queue.irq_ns()
        };
        let now = QueueInstant { clock_ns, stolen_ns: queue.stolen_ns(), irq_ns };
        // SAFETY: no arguments, no side effects.
        Some(CauseHooks { ring, parts, now, cpu: unsafe { bpf_get_smp_processor_id() }, period: 0 })
    });
}

/// Whether this is a thread of the kernel that runs softirqs.
#[inline(always)]
fn is_ksoftirqd<T: QueuedTask>(task: T) -> bool {
    const FIRST_WORD: u64 = u64::from_ne_bytes(*b"ksoftirq");
    task.name_words()[0] == FIRST_WORD && task.is_kernel_thread()
}

/// The history of this CPU, and this switch.
struct CauseHooks {
    ring: &'static mut SliceRing,
    parts: &'static mut GroupParts,
    now: QueueInstant,
    cpu: u32,
    /// The number of the measuring period.
    period: u8,
}

impl<T: QueuedTask> SwitchHooks<T> for CauseHooks {
    #[inline(always)]
    fn begin(&mut self, unseen: bool, period: u8) {
        self.period = period;
        self.ring.end_slice(self.now, unseen);
        self.set_ended(NO_WAIT, 0, false);
    }

    /// Notes the clock of a task that may be throttled.
    #[inline(always)]
    fn switch_out(&mut self, prev: T, pid: u32, leaving: PrevState) {
        throttled_clocks::switch_out(prev, pid, leaving, self.cpu, self.period);
    }

    #[inline(always)]
    fn aggregated(&mut self, half: u32, class: Class, latency_ns: u64) {
        self.set_ended(latency_ns, half, matches!(class, Class::Preempted));
    }

    /// Divides the wait that has ended, if one has. Here and not where it is measured: all ways through the program meet
    /// here, so that the verifier follows the loop once.
    #[inline(always)]
    fn end(&mut self, next: T, pid: u32) -> Option<bool> {
        if pid == 0 {
            self.ring.push(Runner::IDLE);
            return None;
        }
        let group = group(next);
        // SAFETY: a word of this CPU's entry, read in one access.
        let latency_ns = unsafe { (&raw const self.ring.ended_ns).read_volatile() };
        if latency_ns != NO_WAIT {
            self.divide(next, pid, group, latency_ns);
        }
        let rank = rank(next.prio(), next.policy());
        self.ring.push(Runner::task(group, rank, next.is_kernel_thread()));
        None
    }
}

impl CauseHooks {
    #[inline(always)]
    fn set_ended(&mut self, latency_ns: u64, half: u32, is_preempted: bool) {
        // SAFETY: words of this CPU's entry, each written in one access.
        unsafe {
            (&raw mut self.ring.ended_ns).write_volatile(latency_ns);
            (&raw mut self.ring.half).write_volatile(half.into());
            (&raw mut self.ring.is_preempted).write_volatile(is_preempted.into());
        }
    }

    /// Whether the wait that has ended is one of a preempted task.
    #[inline(always)]
    fn is_preempted(&self) -> bool {
        // SAFETY: a word of this CPU's entry, read in one access.
        unsafe { (&raw const self.ring.is_preempted).read_volatile() != 0 }
    }

    /// Divides a wait of `next`, which is of the group `waiting`, and adds its parts.
    #[inline(always)]
    fn divide<T: QueuedTask>(&mut self, next: T, pid: u32, waiting: GroupWords, latency_ns: u64) {
        // SAFETY: a word of this CPU's entry, read in one access.
        let half = unsafe { (&raw const self.ring.half).read_volatile() } as u32 & 1;
        let key = GroupSumsKey { cpu: self.cpu, half, waiting };
        let Some(sums) = sums_of(key) else { return self.count_undivided(half, next, pid, latency_ns) };
        // SAFETY: the element is written only by this CPU, with interrupts off. User space removes it only when no
        // program writes to its half.
        let sums = unsafe { &mut *sums };
        sums.begin_wait(latency_ns);
        let wait = EndingWait {
            latency_ns,
            queued_ns: self.now.clock_ns.wrapping_sub(next.last_queued_ns()),
            throttled_ns: throttled_clocks::since_switch_out(next, pid, self.cpu, self.period),
            rank: rank(next.prio(), next.policy()),
        };
        self.parts.begin(waiting);
        let start = self.ring.divide(wait, &mut CauseSink { sums: &mut *sums, parts: &mut *self.parts, key });
        for index in 0..PARTS {
            if index as u64 >= self.parts.end() {
                break;
            }
            let part = self.parts.take(index);
            if part.ns != 0 {
                add_part(sums, self.parts, key, part, index >= EXACT_PARTS);
            }
        }
        if self.is_preempted() {
            let (first, group) = self.ring.first_cause(start);
            let by_own = first == DividedCause::Task as u32 && group == waiting;
            sums.count_preemption(if by_own { BY_OWN_GROUP } else { first });
        }
        // Last: the verifier follows what comes after a branch once for each way through it.
        note_longest(sums, next, pid, latency_ns);
    }

    /// Counts a wait of a group without an element, which is not divided.
    #[inline(always)]
    fn count_undivided<T: QueuedTask>(&self, half: u32, next: T, pid: u32, latency_ns: u64) {
        let Some(sums) = OTHER_GROUPS.get_ptr_mut(half) else { return };
        // SAFETY: this CPU's own entry, written with interrupts off.
        let sums = unsafe { &mut *sums };
        sums.begin_wait(latency_ns);
        if self.is_preempted() {
            sums.count_preemption(BY_UNTRACKED);
        }
        note_longest(sums, next, pid, latency_ns);
    }
}

/// The group that a task counts for.
#[inline(always)]
fn group<T: QueuedTask>(task: T) -> GroupWords {
    if GROUPS_ARE_NAMES.load() != 0 { task.name_words() } else { [task.cgroup_id(), 0] }
}

/// The element of a group; `None` if there is no room for one.
#[inline(always)]
fn sums_of(key: GroupSumsKey) -> Option<*mut GroupSums> {
    let direct = direct_table::find(&DIRECT_GROUPS, GROUP_PLACES.load(), key.cpu, key.half, &key);
    if let Some(sums) = direct.or_else(|| GROUP_SUMS.get_ptr_mut(key)) {
        return Some(sums);
    }
    GROUP_SUMS.insert(key, NO_CAUSES.get(0)?, BPF_ANY.into()).ok()?;
    GROUP_SUMS.get_ptr_mut(key)
}

/// Keeps the task of a wait that has been counted, if it is the longest. Most waits are not, so that the task's name and
/// the time are rarely read.
#[inline(always)]
fn note_longest<T: QueuedTask>(sums: &mut GroupSums, task: T, pid: u32, latency_ns: u64) {
    if sums.is_longest(latency_ns) {
        // SAFETY: no arguments, no side effects.
        let at_ns = unsafe { bpf_ktime_get_ns() };
        sums.longest = LongestWait { at_ns, pid: pid.into(), comm: task.name_words() };
    }
}

/// Adds the parts of a wait to the sums of its group, and keeps the ones in which tasks ran.
struct CauseSink<'a> {
    sums: &'a mut GroupSums,
    parts: &'a mut GroupParts,
    key: GroupSumsKey,
}

impl DivisionSink for CauseSink<'_> {
    #[inline(always)]
    fn add(&mut self, cause: DividedCause, ns: u64) {
        if ns != 0 {
            self.sums.add_only(cause as u32, ns);
        }
    }

    #[inline(always)]
    fn add_ran(&mut self, cause: u32, running: GroupWords, ns: u64) {
        self.sums.add(cause, ns, self.parts.zero());
        self.parts.add(cause, running, ns);
    }

    #[inline(always)]
    fn add_only(&mut self, cause: u32, running: GroupWords, ns: u64) {
        if ns == 0 {
            return;
        }
        self.sums.add_only(cause, ns);
        if has_group(cause) {
            add_part(self.sums, self.parts, self.key, GroupPart::new(cause, running, ns), false);
        }
    }

    #[inline(always)]
    fn add_drawn(&mut self, cause: u32, running: GroupWords, ns: u64) {
        self.sums.add_only(cause, ns);
        self.parts.add_drawn(cause, running, ns);
    }

    #[inline(always)]
    fn random_below(&mut self, ns: u64) -> u64 {
        self.parts.random_below(ns)
    }
}

/// Adds a part, more than 0 ns, of the wait that was counted last in `sums`, to its pair. If its group was drawn, or if the
/// group that waited has had a pair without room, the part is carried, so that a wait on a busy CPU rarely needs a pair.
#[inline(always)]
fn add_part(sums: &mut GroupSums, random: &mut GroupParts, of: GroupSumsKey, part: GroupPart, is_drawn: bool) {
    let GroupPart { cause, group: running, ns, .. } = part;
    let is_own = cause == DividedCause::Task as u32 && running == of.waiting;
    let is_full = sums.pairs_lost != 0;
    let is_carried = !is_own && (is_drawn || is_full);
    let (mut running, mut time) = (running, PairSum::of(ns, 1));
    if is_carried {
        sums.pairs_lost += u64::from(is_full);
        let sum_ns = sums.sum_ns;
        let carried = sums.carried(cause, random.zero());
        carried.add(running, ns, 1, random);
        let Some(taken) = carried.take(sum_ns) else { return };
        (running, time) = (taken.running, PairSum::of(taken.ns, taken.waits));
    }
    let key = PairKey::new(of.cpu, of.half, cause, of.waiting, running);
    let direct = direct_table::find(&DIRECT_PAIRS, PAIR_PLACES.load(), key.cpu, key.half(), &key);
    if let Some(sum) = direct.or_else(|| PAIR_SUMS.get_ptr_mut(key)) {
        // SAFETY: the element is written only by this CPU, with interrupts off.
        unsafe { (*sum).add_only(time.ns, time.waits) };
        return;
    }
    // A full map takes long to say so: it is not asked again in this half.
    if is_full || PAIR_SUMS.insert(key, time, BPF_ANY.into()).is_err() {
        // Each part is counted once.
        sums.pairs_lost += u64::from(!(is_carried && is_full));
        let carried = sums.carried(cause, random.zero());
        if is_carried {
            carried.put_back(running, time.ns, time.waits);
        } else {
            carried.add(running, time.ns, time.waits, random);
        }
    }
}
