//! Divides the latency of an activation into shares, one for each cause, that add up to it.
//!
//! The rules are in docs/timerlat.md. In short: latencies are gross and noise is net
//! (`get_int_safe_duration`, kernel/trace/trace_osnoise.c, 5.14 to 7.2), so the durations of noise can be
//! added without counting any time twice. Time that no record accounts for is unexplained.

use super::{
    assemble::{Activation, Noise, NoiseSource},
    record::{TimerlatContext, TracedTask, comm},
};

/// The cause of a share of a latency.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LatencyCause {
    /// The time from the due time of the timer to the start of its interrupt, while a thread ran:
    /// interrupts were masked, or the hardware was late.
    IrqDelay,
    /// The time from the due time of the timer to the start of its interrupt, while the CPU was idle:
    /// usually the exit from an idle state.
    IdleExit,
    /// The timer's own interrupt: its name and its vector.
    TimerIrq(String, i32),
    /// Another interrupt: its name and its number.
    Irq(String, i32),
    /// A softirq, by its number.
    Softirq(i32),
    /// Non-maskable interrupts.
    Nmi,
    /// The thread that was running when the timer's interrupt came, until it gave up the CPU: it had
    /// disabled preemption, or has a higher priority than the tracer's thread.
    Blocking(TracedTask),
    /// Another thread.
    Thread(TracedTask),
    /// The context switch from the last thread to the tracer's thread.
    Scheduling,
    /// The time from the thread's measurement to its return: the user's own code.
    UserSpace,
    /// Time that no record accounts for.
    Unexplained,
}

impl LatencyCause {
    /// The cause under which sums over several CPUs count this one: their idle tasks (`swapper/0` and so
    /// on, all with TID 0: `init_idle`, kernel/sched/core.c) become one.
    pub fn on_any_cpu(&self) -> Self {
        let merge_idle =
            |task: &TracedTask| if task.tid == 0 { TracedTask { tid: 0, comm: comm(b"swapper") } } else { *task };
        match self {
            Self::Blocking(task) => Self::Blocking(merge_idle(task)),
            Self::Thread(task) => Self::Thread(merge_idle(task)),
            other => other.clone(),
        }
    }
}

/// A share of a latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseShare {
    /// The cause.
    pub cause: LatencyCause,
    /// The total: ns.
    pub ns: u64,
    /// The number of times that the cause occurred.
    pub times: u64,
    /// The spans on the timeline.
    pub spans: Vec<ShareSpan>,
}

/// A piece of time, in ns since the timer was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareSpan {
    /// The beginning: ns.
    pub from_ns: u64,
    /// The end: ns.
    pub to_ns: u64,
}

/// An activation with the shares of its latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedActivation {
    /// The activation.
    pub activation: Activation,
    /// The context in which the last of its latencies was measured.
    pub context: TimerlatContext,
    /// The last of its latencies: ns.
    pub latency_ns: u64,
    /// When the timer was due: ns, on the clock of the records.
    pub due_at_ns: u64,
    /// The shares. Their sum is the latency.
    pub shares: Vec<CauseShare>,
}

impl ExplainedActivation {
    /// Explains an activation. `None` if it has no latency. `resolution_ns` is the precision of `at_ns` of
    /// the records: ns.
    pub fn new(activation: Activation, resolution_ns: u64) -> Option<Self> {
        let (context, total) = activation.total()?;
        let anchor = Anchor::of(&activation, resolution_ns);
        let mut shares = Shares { all: Vec::new(), due_at_ns: anchor.due_at_ns, end_ns: total.latency_ns };
        let thread_ns = activation.thread.map_or(total.latency_ns, |thread| thread.latency_ns.min(total.latency_ns));

        shares.before_the_interrupt(&activation, &anchor, thread_ns);
        let mut left = thread_ns.saturating_sub(anchor.delay_ns);
        let thread_at = activation.thread.map(|thread| thread.at_ns.saturating_add(resolution_ns));
        let (within, after): (Vec<_>, Vec<_>) =
            activation.noise.iter().enumerate().partition(|(_, noise)| {
                context != TimerlatContext::User || thread_at.is_none_or(|at| noise.start_ns < at)
            });
        let blocking = blocking(&activation);
        for (index, noise) in within {
            let cause = match &noise.source {
                NoiseSource::Irq(name, vector) if anchor.timer == Some(index) => {
                    LatencyCause::TimerIrq(name.clone(), *vector)
                }
                NoiseSource::Thread(task) if blocking == Some(index) => LatencyCause::Blocking(*task),
                source => cause(source),
            };
            shares.take(cause, noise.duration_ns, &mut left, &noise_span(noise));
        }
        if activation.thread.is_some() {
            let ready = scheduling(&activation, anchor.due_at_ns.saturating_add(thread_ns), resolution_ns);
            let end = anchor.due_at_ns.saturating_add(thread_ns);
            let span = (end.saturating_sub(ready.min(left)), end);
            shares.take(LatencyCause::Scheduling, ready, &mut left, &span);
        }
        let mut in_user = total.latency_ns - thread_ns;
        for (_, noise) in after {
            shares.take(cause(&noise.source), noise.duration_ns, &mut in_user, &noise_span(noise));
        }
        let user = in_user;
        let span = (anchor.due_at_ns.saturating_add(thread_ns), anchor.due_at_ns.saturating_add(total.latency_ns));
        shares.take(LatencyCause::UserSpace, user, &mut in_user, &span);
        let rest = left;
        shares.take(LatencyCause::Unexplained, rest, &mut left, &(0, 0));
        let Shares { all, due_at_ns, .. } = shares;
        Some(Self { activation, context, latency_ns: total.latency_ns, due_at_ns, shares: all })
    }

    /// The sum of the shares whose causes satisfy `is`: ns.
    pub fn sum_ns(&self, is: impl Fn(&LatencyCause) -> bool) -> u64 {
        self.shares.iter().filter(|share| is(&share.cause)).map(|share| share.ns).sum()
    }
}

/// Relates the two clocks: latencies are relative to the due time of the timer, but noise has times on the
/// clock of the trace.
struct Anchor {
    /// The due time of the timer, on the clock of the trace: ns.
    due_at_ns: u64,
    /// The time from then to the start of the timer's interrupt: ns.
    delay_ns: u64,
    /// The index of the noise that is the timer's interrupt.
    timer: Option<usize>,
}

impl Anchor {
    fn of(activation: &Activation, resolution_ns: u64) -> Self {
        let Some(irq) = activation.irq else {
            let due_at_ns = activation.total().map_or(0, |(_, m)| m.at_ns.saturating_sub(m.latency_ns));
            return Self { due_at_ns, delay_ns: 0, timer: None };
        };
        // The noise of an interrupt is recorded at its end (`osnoise_trace_irq_exit`), so the timer's
        // interrupt is the first interrupt after the latency that it recorded.
        let recorded_ns = irq.at_ns.saturating_add(resolution_ns);
        let is_irq = |noise: &Noise| matches!(noise.source, NoiseSource::Irq(..));
        let timer = activation.noise.iter().position(is_irq).filter(|at| activation.noise[*at].start_ns <= recorded_ns);
        let started_ns = timer.map(|timer| activation.noise[timer].start_ns);
        // `timerlat_irq` reads the clock for the latency, and immediately again for the start of the
        // thread's noise.
        let is_thread = |noise: &&Noise| matches!(noise.source, NoiseSource::Thread(_));
        let read_ns = activation
            .noise
            .iter()
            .find(is_thread)
            .map(|noise| noise.start_ns)
            .filter(|start| *start <= recorded_ns && started_ns.is_none_or(|started| started <= *start))
            .unwrap_or(irq.at_ns);
        let due_at_ns = read_ns.saturating_sub(irq.latency_ns);
        // The two clocks may make the difference negative; that counts as 0.
        let delay = started_ns.map_or(irq.latency_ns, |started| started.saturating_sub(due_at_ns));
        Self { due_at_ns, delay_ns: delay.min(irq.latency_ns), timer }
    }
}

/// The index of the noise of the thread that the timer's interrupt found: the first noise of a thread, if
/// it is that thread.
fn blocking(activation: &Activation) -> Option<usize> {
    let found = activation.irq?.task.map(|task| task.tid);
    let (index, task) = activation.noise.iter().enumerate().find_map(|(index, noise)| match noise.source {
        NoiseSource::Thread(task) => Some((index, task)),
        _ => None,
    })?;
    found.is_none_or(|found| found == task.tid).then_some(index)
}

/// The time from the end of the last thread's noise to `ready_ns`, when the tracer's thread read the clock,
/// without the noise between them: ns. This is an upper bound for the context switch.
fn scheduling(activation: &Activation, ready_ns: u64, resolution_ns: u64) -> u64 {
    let is_thread = |noise: &&Noise| {
        matches!(noise.source, NoiseSource::Thread(_)) && noise.at_ns <= ready_ns.saturating_add(resolution_ns)
    };
    let Some(last) = activation.noise.iter().rfind(is_thread) else { return 0 };
    let between = activation.noise.iter().filter(|noise| noise.start_ns >= last.at_ns && noise.start_ns < ready_ns);
    let noise_ns: u64 = between.map(|noise| noise.duration_ns).fold(0, u64::saturating_add);
    (ready_ns.saturating_add(resolution_ns)).saturating_sub(last.at_ns).saturating_sub(noise_ns)
}

fn cause(source: &NoiseSource) -> LatencyCause {
    match source {
        NoiseSource::Irq(name, vector) => LatencyCause::Irq(name.clone(), *vector),
        NoiseSource::Softirq(vector) => LatencyCause::Softirq(*vector),
        NoiseSource::Nmi => LatencyCause::Nmi,
        NoiseSource::Thread(task) => LatencyCause::Thread(*task),
    }
}

/// The span in which a noise was on the CPU, including what interrupted it.
fn noise_span(noise: &Noise) -> (u64, u64) {
    let net_end = noise.start_ns.saturating_add(noise.duration_ns);
    match noise.source {
        NoiseSource::Thread(_) => (noise.start_ns, noise.at_ns.max(net_end)),
        _ => (noise.start_ns, net_end),
    }
}

/// Shares under construction.
struct Shares {
    all: Vec<CauseShare>,
    due_at_ns: u64,
    /// The latency of the activation: ns.
    end_ns: u64,
}

impl Shares {
    /// Adds the shares of what delayed the timer's interrupt: other noise by name, and the remainder.
    fn before_the_interrupt(&mut self, activation: &Activation, anchor: &Anchor, room_ns: u64) {
        let mut left = anchor.delay_ns.min(room_ns);
        let begins = anchor.due_at_ns.saturating_add(left);
        let mut noise = Vec::new();
        for earlier in &activation.before {
            let from = earlier.start_ns.max(anchor.due_at_ns);
            let to = earlier.start_ns.saturating_add(earlier.duration_ns).min(begins);
            if from < to {
                noise.push((cause(&earlier.source), from, to));
            }
        }
        let named: u64 = noise.iter().map(|(_, from, to)| to - from).fold(0, u64::saturating_add);
        let idle = activation.irq.and_then(|irq| irq.task).is_some_and(|task| task.tid == 0);
        let delay = if idle { LatencyCause::IdleExit } else { LatencyCause::IrqDelay };
        // First in time, so first in the list. Its length is what the named noise leaves.
        let rest = left.saturating_sub(named);
        self.take(delay, rest, &mut left, &(anchor.due_at_ns, begins));
        for (cause, from, to) in noise {
            self.take(cause, to - from, &mut left, &(from, to));
        }
    }

    /// Adds to `cause` up to `ns`, limited by `left`, the time that has no cause yet.
    fn take(&mut self, cause: LatencyCause, ns: u64, left: &mut u64, (from, to): &(u64, u64)) {
        let ns = ns.min(*left);
        if ns == 0 {
            return;
        }
        *left -= ns;
        let inside = |at: u64| at.saturating_sub(self.due_at_ns).min(self.end_ns);
        let span = ShareSpan { from_ns: inside(*from), to_ns: inside(*to) };
        let span = (span.from_ns < span.to_ns).then_some(span);
        match self.all.iter_mut().find(|share| share.cause == cause) {
            Some(share) => {
                share.ns += ns;
                share.times += 1;
                share.spans.extend(span);
            }
            None => self.all.push(CauseShare { cause, ns, times: 1, spans: span.into_iter().collect() }),
        }
    }
}

#[cfg(test)]
mod tests;
