//! Where the time of an activation went: shares that add up to its latency.
//!
//! The rules are in docs/timerlat.md. In short: latencies are gross and noise is net (`get_int_safe_duration`,
//! kernel/trace/trace_osnoise.c, 5.14 to 7.2), so noise adds up without counting anything twice; what no record accounts
//! for is called unexplained.

use super::{
    assemble::{Activation, Noise, NoiseSource},
    live::layout::comm,
    record::{TimerlatContext, TracedTask},
};

/// What a share of a latency went to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LatencyCause {
    /// From the moment the timer was due to the beginning of its interrupt, while a thread ran: interrupts were masked, or
    /// the hardware was late.
    IrqDelay,
    /// The same while the CPU was idle: most often its way out of a sleep state.
    IdleExit,
    /// The timer's own interrupt.
    TimerIrq(String, i32),
    /// Another interrupt.
    Irq(String, i32),
    /// A softirq, by its number.
    Softirq(i32),
    /// Non-maskable interrupts.
    Nmi,
    /// The thread that ran when the timer's interrupt came, until it let the CPU go: it had disabled preemption, or
    /// outranks the tracer's thread.
    Blocking(TracedTask),
    /// Another thread.
    Thread(TracedTask),
    /// From the last thread to the tracer's: the context switch.
    Scheduling,
    /// Between the thread's measurement and its return: the user's own code.
    UserSpace,
    /// What no record accounts for.
    Unexplained,
}

impl LatencyCause {
    /// The cause as a sum over several CPUs has it: their idle tasks, `swapper/0` and so on, all with the thread id 0
    /// (`init_idle`, kernel/sched/core.c), are one.
    pub fn on_any_cpu(&self) -> Self {
        let one = |task: &TracedTask| if task.tid == 0 { TracedTask { tid: 0, comm: comm(b"swapper") } } else { *task };
        match self {
            Self::Blocking(task) => Self::Blocking(one(task)),
            Self::Thread(task) => Self::Thread(one(task)),
            other => other.clone(),
        }
    }
}

/// A share of a latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseShare {
    /// What it went to.
    pub cause: LatencyCause,
    /// How much: ns.
    pub ns: u64,
    /// In how many pieces.
    pub times: u64,
    /// The pieces on the time line.
    pub spans: Vec<ShareSpan>,
}

/// A piece of time, in ns since the timer was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareSpan {
    /// Where it begins.
    pub from_ns: u64,
    /// Where it ends.
    pub to_ns: u64,
}

/// An activation and where its time went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedActivation {
    /// The activation.
    pub activation: Activation,
    /// Where the last of its latencies was measured.
    pub context: TimerlatContext,
    /// That latency: ns.
    pub latency_ns: u64,
    /// When the timer was due: ns of the records' clock.
    pub due_at_ns: u64,
    /// Its shares, in the order of time. Their sum is the latency.
    pub shares: Vec<CauseShare>,
}

impl ExplainedActivation {
    /// Explains an activation; none where nothing was measured. `resolution_ns` is the precision of the records' `at_ns`.
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

    /// How much went to what `is` says: ns.
    pub fn sum_ns(&self, is: impl Fn(&LatencyCause) -> bool) -> u64 {
        self.shares.iter().filter(|share| is(&share.cause)).map(|share| share.ns).sum()
    }
}

/// The two clocks tied together: latencies are counted from when the timer was due, noise has instants of the trace's
/// clock.
struct Anchor {
    /// When the timer was due, by the trace's clock.
    due_at_ns: u64,
    /// From then to the beginning of the timer's interrupt.
    delay_ns: u64,
    /// Which noise is the timer's interrupt.
    timer: Option<usize>,
}

impl Anchor {
    fn of(activation: &Activation, resolution_ns: u64) -> Self {
        let Some(irq) = activation.irq else {
            let due_at_ns = activation.total().map_or(0, |(_, m)| m.at_ns.saturating_sub(m.latency_ns));
            return Self { due_at_ns, delay_ns: 0, timer: None };
        };
        // Its noise is said at its end (`osnoise_trace_irq_exit`), so it is the first interrupt after the record that it
        // wrote.
        let said_ns = irq.at_ns.saturating_add(resolution_ns);
        let is_irq = |noise: &Noise| matches!(noise.source, NoiseSource::Irq(..));
        let timer = activation.noise.iter().position(is_irq).filter(|at| activation.noise[*at].start_ns <= said_ns);
        let begun_ns = timer.map(|timer| activation.noise[timer].start_ns);
        // `timerlat_irq` reads the clock for the latency, and at once again for the beginning of the thread's noise.
        let is_thread = |noise: &&Noise| matches!(noise.source, NoiseSource::Thread(_));
        let read_ns = activation
            .noise
            .iter()
            .find(is_thread)
            .map(|noise| noise.start_ns)
            .filter(|start| *start <= said_ns && begun_ns.is_none_or(|begun| begun <= *start))
            .unwrap_or(irq.at_ns);
        let due_at_ns = read_ns.saturating_sub(irq.latency_ns);
        // Two clocks: what would be negative is none.
        let delay = begun_ns.map_or(irq.latency_ns, |begun| begun.saturating_sub(due_at_ns));
        Self { due_at_ns, delay_ns: delay.min(irq.latency_ns), timer }
    }
}

/// The noise of the thread that the timer's interrupt found: the first of a thread, if it is the one that ran.
fn blocking(activation: &Activation) -> Option<usize> {
    let found = activation.irq?.task.map(|task| task.tid);
    let (index, task) = activation.noise.iter().enumerate().find_map(|(index, noise)| match noise.source {
        NoiseSource::Thread(task) => Some((index, task)),
        _ => None,
    })?;
    found.is_none_or(|found| found == task.tid).then_some(index)
}

/// From the end of the last thread's noise to `ready_ns`, when the tracer's thread read the clock, without the noise
/// between: at most so long did the switch take.
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

/// From when to when a noise was on the CPU, what interrupted it included.
fn noise_span(noise: &Noise) -> (u64, u64) {
    let net_end = noise.start_ns.saturating_add(noise.duration_ns);
    match noise.source {
        NoiseSource::Thread(_) => (noise.start_ns, noise.at_ns.max(net_end)),
        _ => (noise.start_ns, net_end),
    }
}

/// Shares on their way.
struct Shares {
    all: Vec<CauseShare>,
    due_at_ns: u64,
    /// The whole latency.
    end_ns: u64,
}

impl Shares {
    /// What delayed the timer's interrupt: other noise by name, and the rest.
    fn before_the_interrupt(&mut self, activation: &Activation, anchor: &Anchor, room_ns: u64) {
        let mut left = anchor.delay_ns.min(room_ns);
        let begins = anchor.due_at_ns.saturating_add(left);
        let mut noise = Vec::new();
        for known in &activation.before {
            let from = known.start_ns.max(anchor.due_at_ns);
            let to = known.start_ns.saturating_add(known.duration_ns).min(begins);
            if from < to {
                noise.push((cause(&known.source), from, to));
            }
        }
        let named: u64 = noise.iter().map(|(_, from, to)| to - from).fold(0, u64::saturating_add);
        let idle = activation.irq.and_then(|irq| irq.task).is_some_and(|task| task.tid == 0);
        let delay = if idle { LatencyCause::IdleExit } else { LatencyCause::IrqDelay };
        // First in time, so first in the list; its length is what the others leave.
        let rest = left.saturating_sub(named);
        self.take(delay, rest, &mut left, &(anchor.due_at_ns, begins));
        for (cause, from, to) in noise {
            self.take(cause, to - from, &mut left, &(from, to));
        }
    }

    /// Gives `cause` so many ns of what is left, and no more.
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
