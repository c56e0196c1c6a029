//! The waits of the tasks of a trace, by the rules of the BPF programs ([`wakelat_common::pending_wait`]).

use wakelat_common::{
    Class,
    pending_wait::{PendingWait, PrevState, WakeupOutcome},
    sample::{CPU_UNKNOWN, DELIVERY_UNKNOWN, KernelCounts},
};

use super::{
    event::{SwitchedTask, WokenTask},
    line::UNKNOWN_TID,
};
use crate::{
    aggregate::distribution::Maximum,
    decode::known_cpu,
    hash::HashMap,
    report::{Coverage, CoverageTerms},
    timeline::event::{DetailedWait, TaskInfo},
    trace_line::LineHead,
    wait::{Comm, Wait},
};

/// Maximum number of tasks that are tracked at once: a quarter of what the kernel allows (`PID_MAX_LIMIT`).
const MAX_TASKS: usize = 1 << 20;

/// The number of a policy that is unknown.
const UNKNOWN_POLICY: u32 = u32::MAX;

/// The waits of all tasks.
#[derive(Debug, Default)]
pub(super) struct Waits {
    tasks: HashMap<u32, TracedThread>,
    /// The latency of a wakeup starts at `sched_waking`.
    from_waking: bool,
    /// `sched_waking` is the only event of a wakeup.
    is_waking_only: bool,
    wakeups: CoverageTerms,
    preemptions: CoverageTerms,
    /// Number of losses. The end of a wait that began before the last one may be lost, too.
    losses: u64,
    /// Switch-ins whose wait began unseen.
    unknown_start: u64,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug)]
struct TracedThread {
    pending: PendingWait,
    /// The process; 0 if it is unknown.
    pid: u32,
    comm: Comm,
    /// The CPU that it was switched in on, or was seen on.
    on_cpu: Option<u32>,
    last_cpu: Option<u32>,
    /// The CPU on whose run queue the wait began.
    wait_cpu: u32,
    waker_tid: u32,
    waker_cpu: u32,
    remote: bool,
    migrations: u8,
    /// [`Waits::losses`] when the wait or its `sched_waking` was seen.
    losses: u64,
    /// With `sched_waking` as the only event of a wakeup: its time and [`Waits::losses`], if it came while the task was on
    /// a CPU. If the task sleeps and is switched in without another one, it was on its way to sleep.
    early_waking: Option<(u64, u64)>,
}

impl Default for TracedThread {
    fn default() -> Self {
        Self {
            pending: PendingWait::IDLE,
            pid: 0,
            comm: Comm::default(),
            on_cpu: None,
            last_cpu: None,
            wait_cpu: CPU_UNKNOWN,
            waker_tid: 0,
            waker_cpu: CPU_UNKNOWN,
            remote: false,
            migrations: 0,
            losses: 0,
            early_waking: None,
        }
    }
}

impl TracedThread {
    fn begin(&mut self, head: &LineHead, cpu: u32, losses: u64) {
        let waker_seen = self.pending.class == Class::Wakeup as u8 && self.waker_cpu != CPU_UNKNOWN;
        self.remote = waker_seen && self.waker_cpu != head.cpu;
        (self.wait_cpu, self.migrations, self.losses) = (cpu, 0, losses);
    }

    fn info(&self, task: &SwitchedTask) -> TaskInfo {
        let SwitchedTask { tid, comm, prio } = *task;
        TaskInfo { tid, pid: self.pid, comm, prio, policy: UNKNOWN_POLICY, cgroup_id: None, wanted: true }
    }
}

impl Waits {
    /// No waits. With `from_waking`, the latency of a wakeup starts at `sched_waking`, which is its only event with
    /// `is_waking_only`.
    pub fn new(from_waking: bool, is_waking_only: bool) -> Self {
        Self { from_waking, is_waking_only, ..Self::default() }
    }

    /// The thread, if it is known or there is room.
    fn thread(&mut self, tid: u32) -> Option<&mut TracedThread> {
        if self.tasks.len() >= MAX_TASKS && !self.tasks.contains_key(&tid) {
            return None;
        }
        Some(self.tasks.entry(tid).or_default())
    }

    fn terms(&mut self, class: Class) -> &mut CoverageTerms {
        if class == Class::Preempted { &mut self.preemptions } else { &mut self.wakeups }
    }

    /// The head of a line shows the task that has a CPU.
    pub fn seen_on_cpu(&mut self, head: &LineHead) {
        if head.tid == 0 {
            return;
        }
        if let Some(thread) = self.thread(head.tid) {
            thread.on_cpu = Some(head.cpu);
            thread.pid = head.pid.unwrap_or(thread.pid);
        }
    }

    /// Events were lost: no wait that is pending can be trusted any more. Its switch-in counts as missed.
    pub fn lose(&mut self) {
        self.losses += 1;
        for terms in [&mut self.wakeups, &mut self.preemptions] {
            terms.missed_switch += std::mem::take(&mut terms.still_waiting);
        }
    }

    /// Drops a wait that began before the last loss, which has been counted, and a `sched_waking` before it.
    fn drop_uncertain(thread: &mut TracedThread, losses: u64) {
        if thread.losses != losses {
            (thread.pending, thread.losses) = (PendingWait::IDLE, losses);
        }
    }

    /// `sched_waking`. `is_running`: the task is on a CPU.
    pub fn waking(&mut self, head: &LineHead, woken: WokenTask, is_running: bool) {
        let losses = self.losses;
        if let Some(thread) = self.thread(woken.tid) {
            Self::drop_uncertain(thread, losses);
            if thread.pending.awaits_wakeup() {
                (thread.waker_tid, thread.waker_cpu) = (head.tid, head.cpu);
            }
            thread.pending.waking(head.at_ns, head.tid, woken.target_cpu);
        }
        if self.is_waking_only {
            self.settle_early_waking(woken.tid);
            match self.thread(woken.tid).filter(|_| is_running) {
                Some(thread) => thread.early_waking = Some((head.at_ns, losses)),
                None => self.wakeup(head, woken, Class::Wakeup, false),
            }
        }
    }

    /// Counts the last `sched_waking` of a running task as one that began no wait.
    fn settle_early_waking(&mut self, tid: u32) {
        let early = self.tasks.get_mut(&tid).and_then(|thread| thread.early_waking.take());
        if early.is_some_and(|(_, losses)| losses == self.losses) {
            self.wakeups.seen += 1;
            self.wakeups.already_running += 1;
        }
    }

    /// `sched_wakeup`, or `sched_wakeup_new` of class `new`. `is_running`: the task is on a CPU.
    pub fn wakeup(&mut self, head: &LineHead, woken: WokenTask, class: Class, is_running: bool) {
        self.wakeups.seen += 1;
        let losses = self.losses;
        let Some(thread) = self.thread(woken.tid) else {
            self.wakeups.task_table_full += 1;
            return;
        };
        Self::drop_uncertain(thread, losses);
        if is_running && class != Class::New {
            thread.pending.already_running();
            self.wakeups.already_running += 1;
            return;
        }
        let missed = thread.pending.drop_missed(class);
        if class == Class::New {
            *thread = TracedThread::default();
        }
        thread.comm = woken.comm;
        let outcome = thread.pending.wakeup(head.at_ns, woken.tid, class, false);
        if outcome == WakeupOutcome::Started {
            thread.begin(head, woken.target_cpu, losses);
        }
        match outcome {
            WakeupOutcome::Started => self.wakeups.still_waiting += 1,
            WakeupOutcome::AlreadyQueued => self.wakeups.already_queued += 1,
        }
        self.miss(missed);
    }

    /// The end of a pending wait was missed.
    fn miss(&mut self, class: Option<Class>) {
        if let Some(class) = class {
            let terms = self.terms(class);
            terms.missed_switch += 1;
            terms.still_waiting -= 1;
        }
    }

    /// A migration, which is that of the wakeup itself with `is_placement`. Returns whether the task was waiting.
    pub fn migrate(&mut self, tid: u32, to_cpu: u32, is_placement: bool) -> bool {
        let losses = self.losses;
        let Some(thread) = self.tasks.get_mut(&tid) else { return false };
        if thread.pending.at_ns == 0 || thread.losses != losses {
            return false;
        }
        if is_placement {
            thread.wait_cpu = to_cpu;
            return false;
        }
        thread.migrations = thread.migrations.saturating_add(1);
        true
    }

    /// A task is switched out. Returns what is known of it.
    pub fn switch_out(&mut self, head: &LineHead, prev: &SwitchedTask, state: PrevState) -> TaskInfo {
        let losses = self.losses;
        if prev.tid == 0 {
            return TracedThread::default().info(prev);
        }
        if state != PrevState::Sleeping {
            self.settle_early_waking(prev.tid);
        }
        let waits = state.starts_wait(true);
        self.preemptions.seen += u64::from(waits);
        let Some(thread) = self.thread(prev.tid) else {
            self.preemptions.task_table_full += u64::from(waits);
            return TracedThread::default().info(prev);
        };
        Self::drop_uncertain(thread, losses);
        let missed = thread.pending.switch_out();
        (thread.on_cpu, thread.last_cpu, thread.comm) = (None, Some(head.cpu), prev.comm);
        let info = thread.info(prev);
        if waits {
            thread.pending.preempt(head.at_ns, prev.tid, head.cpu, true, state);
            thread.begin(head, head.cpu, losses);
        }
        if state == PrevState::Dead {
            self.tasks.remove(&prev.tid);
        }
        self.preemptions.still_waiting += u64::from(waits);
        self.miss(missed);
        info
    }

    /// A task is switched in: its wait ends. Returns what is known of the task, and the wait.
    pub fn switch_in(
        &mut self,
        head: &LineHead,
        prev: &SwitchedTask,
        next: &SwitchedTask,
    ) -> (TaskInfo, Option<DetailedWait>) {
        let (losses, from_waking, is_waking_only) = (self.losses, self.from_waking, self.is_waking_only);
        if next.tid == 0 {
            return (TracedThread::default().info(next), None);
        }
        let Some(thread) = self.thread(next.tid) else {
            self.unknown_start += 1;
            return (TracedThread::default().info(next), None);
        };
        let is_uncertain = thread.pending.at_ns != 0 && thread.losses != losses;
        Self::drop_uncertain(thread, losses);
        (thread.on_cpu, thread.comm) = (Some(head.cpu), next.comm);
        let early = thread.early_waking.take().filter(|(_, of)| *of == losses);
        if let (0, Some((waking_ns, _))) = (thread.pending.at_ns, early) {
            thread.pending.wakeup(waking_ns, next.tid, Class::Wakeup, false);
            // The CPU that the kernel selected is not known.
            (thread.wait_cpu, thread.remote, thread.migrations) = (CPU_UNKNOWN, false, 0);
            self.wakeups.seen += 1;
            self.wakeups.still_waiting += 1;
        }
        let Some(thread) = self.tasks.get_mut(&next.tid) else { return (TracedThread::default().info(next), None) };
        let (info, known) = (thread.info(next), *thread);
        let ended = thread.pending.switch_in(|pending| Some(*pending));
        let prev_cpu = thread.last_cpu;
        (thread.last_cpu, thread.waker_cpu) = (Some(head.cpu), CPU_UNKNOWN);
        let Some(pending) = ended else {
            self.unknown_start += u64::from(!is_uncertain);
            return (info, None);
        };
        let class = Class::from_u8(pending.class).unwrap_or(Class::Wakeup);
        let terms = self.terms(class);
        terms.still_waiting -= 1;
        let Some(latency_ns) = pending.latency_ns(head.at_ns, from_waking && !is_waking_only) else {
            terms.invalid += 1;
            return (info, None);
        };
        terms.measured += 1;
        let is_woken = class == Class::Wakeup;
        let delivery_ns = pending.delivery_ns();
        let delivery_ns = (is_woken && !is_waking_only && delivery_ns != DELIVERY_UNKNOWN).then_some(delivery_ns);
        let is_waker_known = (delivery_ns.is_some() || is_woken && is_waking_only) && known.waker_tid != UNKNOWN_TID;
        let wait = Wait {
            class,
            at_ns: head.at_ns,
            latency_ns,
            delivery_ns,
            tid: next.tid,
            pid: info.pid,
            comm: next.comm,
            cgroup_id: None,
            prio: next.prio,
            policy: UNKNOWN_POLICY,
            cpu: head.cpu,
            prev_cpu: known_cpu(pending.prev_cpu).or(prev_cpu),
            waker_tid: is_waker_known.then_some(known.waker_tid),
            prev_tid: prev.tid,
            prev_comm: prev.comm,
            prev_prio: prev.prio,
            kernel_counts: KernelCounts::of_preempted_sleeping(pending.preempted_sleeping != 0),
            sampling_shift: 0,
        };
        let waited = DetailedWait {
            wait,
            cpu: known_cpu(known.wait_cpu),
            waker_cpu: if is_waker_known { known_cpu(known.waker_cpu) } else { None },
            remote: is_woken && known.remote,
            migrations: known.migrations,
            throttled_ns: None,
            throttled_at_start: false,
            stolen_ns: 0,
        };
        (info, Some(waited))
    }

    /// Whether the last line that shows this thread shows it on a CPU: that CPU.
    pub fn on_cpu(&self, tid: u32) -> Option<u32> {
        self.tasks.get(&tid)?.on_cpu
    }

    /// Fills in what became of the wakeups and preemptions so far.
    pub fn coverage(&self, coverage: &mut Coverage) {
        (coverage.wakeups, coverage.preemptions) = (self.wakeups, Some(self.preemptions));
    }

    /// Switch-ins so far whose wait began unseen.
    pub fn unknown_start(&self) -> u64 {
        self.unknown_start
    }

    /// The oldest of the waits that are still pending.
    pub fn oldest_waiting(&self, now_ns: u64) -> Option<Maximum> {
        let waiting = self.tasks.iter().filter(|(_, thread)| thread.pending.at_ns != 0 && thread.losses == self.losses);
        let (tid, thread) = waiting.min_by_key(|(tid, thread)| (thread.pending.at_ns, **tid))?;
        let latency_ns = now_ns.saturating_sub(thread.pending.at_ns);
        Some(Maximum { latency_ns, at_ns: now_ns, tid: *tid, comm: thread.comm, cpu: thread.wait_cpu })
    }
}
