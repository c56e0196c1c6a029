//! Groups records into activations, and counts what is missing.

use std::collections::{BTreeMap, VecDeque};

use super::record::{KernelFrame, TimerlatContext, TimerlatEvent, TimerlatRecord, TracedTask};

/// Maximum number of noise records kept before an activation, per CPU. Noise delays an activation only if
/// it lasts beyond the moment at which the timer is due.
const MAX_NOISE_BEFORE: usize = 256;

/// Maximum number of noise records kept from the beginning of an activation. Of those that follow until the thread
/// measures, and of those from then on until a user-space thread returns, the last 256 are kept: the thread that
/// delayed an activation is recorded last, when it gives up the CPU.
pub const MAX_NOISE: usize = 16_384;

/// One expiry of the timer of a CPU and what followed: interrupt, thread, return to user space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activation {
    /// The CPU.
    pub cpu: u32,
    /// The number of the activation on its CPU.
    pub seq: u64,
    /// The latency that the timer's interrupt measured.
    pub irq: Option<TimerLatency>,
    /// The latency that the thread measured.
    pub thread: Option<TimerLatency>,
    /// The latency that a user-space thread measured when it returned.
    pub user: Option<TimerLatency>,
    /// Noise recorded between the previous activation and the timer's interrupt.
    pub before: Vec<Noise>,
    /// Noise recorded from the timer's interrupt to the last measurement.
    pub noise: Vec<Noise>,
    /// Noise records of this time that are not in `noise`, because there were more than are kept.
    pub noise_left_out: u64,
    /// The stack that the timer's interrupt found.
    pub stack: Vec<KernelFrame>,
    /// Why the tracer stopped, if it did so in this activation.
    pub stopped: Option<String>,
    /// Whether records of this CPU were lost during the activation, so that noise may be missing.
    pub lossy: bool,
}

/// A latency of an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerLatency {
    /// The time of the record: ns.
    pub at_ns: u64,
    /// The time since the timer was due: ns.
    pub latency_ns: u64,
    /// The thread that the interrupt found running, or the thread that measured.
    pub task: Option<TracedTask>,
}

/// An interference: something that had the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noise {
    /// What had the CPU.
    pub source: NoiseSource,
    /// The start: ns.
    pub start_ns: u64,
    /// The net duration: ns.
    pub duration_ns: u64,
    /// The time of the record, which is written at the end of the noise: ns.
    pub at_ns: u64,
}

/// What had the CPU during a noise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoiseSource {
    /// An interrupt: its name and its number.
    Irq(String, i32),
    /// A softirq, by its number.
    Softirq(i32),
    /// A non-maskable interrupt.
    Nmi,
    /// A thread.
    Thread(TracedTask),
}

impl Activation {
    /// Whether its thread has not run yet: all noise until then is between the interrupt and the thread.
    fn is_waiting_for_thread(&self) -> bool {
        self.thread.is_none() && self.user.is_none()
    }

    /// The latency measured in `context`.
    pub fn measured(&self, context: TimerlatContext) -> Option<TimerLatency> {
        match context {
            TimerlatContext::Irq => self.irq,
            TimerlatContext::Thread => self.thread,
            TimerlatContext::User => self.user,
        }
    }

    /// The last latency measured, which is that of the whole activation.
    pub fn total(&self) -> Option<(TimerlatContext, TimerLatency)> {
        TimerlatContext::ALL.into_iter().rev().find_map(|context| Some((context, self.measured(context)?)))
    }

    fn measure(&mut self, context: TimerlatContext, measured: TimerLatency) {
        match context {
            TimerlatContext::Irq => self.irq = Some(measured),
            TimerlatContext::Thread => self.thread = Some(measured),
            TimerlatContext::User => self.user = Some(measured),
        }
    }
}

/// What became of the activations. Each is in exactly one of the counters except `restarts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivationCounts {
    /// Activations with the latencies of the interrupt and of the thread.
    pub complete: u64,
    /// Activations without the latency of the interrupt: its record was lost, or precedes the trace.
    pub without_irq: u64,
    /// Activations without the latency of the thread: its record was lost, or follows the trace.
    pub without_thread: u64,
    /// Activations without any record: gaps in the numbers.
    pub missing: u64,
    /// How often the numbers or the clock went back, because the input contains several traces.
    pub restarts: u64,
}

/// Groups the records of one source into activations.
#[derive(Debug, Default)]
pub struct Assembler {
    cpus: BTreeMap<u32, Cpu>,
    counts: ActivationCounts,
}

#[derive(Debug, Default)]
struct Cpu {
    open: Option<Activation>,
    /// Noise since the last measurement of the open activation.
    since: VecDeque<Noise>,
    /// Noise since the last measurement of the open activation that was dropped.
    dropped: u64,
    /// Whether records were lost since the last measurement of the open activation.
    lossy: bool,
    last_seq: Option<u64>,
    last_at_ns: u64,
}

impl Assembler {
    /// What became of the activations so far, without those that are open.
    pub fn counts(&self) -> ActivationCounts {
        self.counts
    }

    /// Adds a record. Returns the activations that it completes. They are of several CPUs only if another
    /// trace begins.
    pub fn push(&mut self, record: TimerlatRecord) -> Vec<Activation> {
        let mut closed = Vec::new();
        if self.cpus.get(&record.cpu).is_some_and(|cpu| record.at_ns < cpu.last_at_ns) {
            self.counts.restarts += 1;
            closed = self.end();
        }
        let TimerlatRecord { at_ns, cpu: number, task, event } = record;
        let cpu = self.cpus.entry(number).or_default();
        cpu.last_at_ns = at_ns;
        let noise = |source, start_ns, duration_ns| Noise { source, start_ns, duration_ns, at_ns };
        match event {
            TimerlatEvent::Timerlat { seq, context, latency_ns } => {
                closed.extend(self.measured(number, seq, context, TimerLatency { at_ns, latency_ns, task }));
            }
            TimerlatEvent::IrqNoise { vector, desc, start_ns, duration_ns } => {
                cpu.noise(noise(NoiseSource::Irq(desc, vector), start_ns, duration_ns));
            }
            TimerlatEvent::SoftirqNoise { vector, start_ns, duration_ns } => {
                cpu.noise(noise(NoiseSource::Softirq(vector), start_ns, duration_ns));
            }
            TimerlatEvent::NmiNoise { start_ns, duration_ns } => {
                cpu.noise(noise(NoiseSource::Nmi, start_ns, duration_ns))
            }
            TimerlatEvent::ThreadNoise { tid, comm, start_ns, duration_ns } => {
                cpu.noise(noise(NoiseSource::Thread(TracedTask { tid, comm }), start_ns, duration_ns));
            }
            TimerlatEvent::Stack { seq, frames } => {
                if let Some(open) = cpu.open.as_mut().filter(|open| seq.is_none_or(|seq| seq == open.seq)) {
                    open.stack = frames;
                }
            }
            TimerlatEvent::Stopped { reason } => {
                if let Some(open) = &mut cpu.open {
                    open.stopped = Some(reason);
                }
            }
            TimerlatEvent::Osnoise(_) | TimerlatEvent::SampleThreshold { .. } => {}
        }
        closed
    }

    /// Notes that records of a CPU were lost: both the open activation and the next one may lack records.
    pub fn lost(&mut self, cpu: u32) {
        self.cpus.entry(cpu).or_default().lossy = true;
    }

    /// Returns the activations that are open at the end of the input.
    pub fn end(&mut self) -> Vec<Activation> {
        let cpus = std::mem::take(&mut self.cpus).into_values();
        let open: Vec<Activation> = cpus.filter_map(|mut cpu| cpu.close()).collect();
        open.iter().for_each(|activation| self.count(activation));
        open
    }

    fn measured(
        &mut self,
        number: u32,
        seq: u64,
        context: TimerlatContext,
        measured: TimerLatency,
    ) -> Option<Activation> {
        let cpu = self.cpus.entry(number).or_default();
        if let Some(open) = cpu.open.as_mut().filter(|open| open.seq == seq) {
            match open.measured(context) {
                None if TimerlatContext::ALL[context as usize..]
                    .iter()
                    .all(|context| open.measured(*context).is_none()) =>
                {
                    open.measure(context, measured);
                    open.noise.extend(cpu.since.drain(..));
                    open.noise_left_out += std::mem::take(&mut cpu.dropped);
                    open.lossy |= std::mem::take(&mut cpu.lossy);
                    return None;
                }
                // Both the tracer and `timerlat_sample` report this latency.
                Some(known) if known.latency_ns == measured.latency_ns => return None,
                _ => {}
            }
        }
        let closed = cpu.close();
        let lossy = std::mem::take(&mut cpu.lossy);
        let dropped = std::mem::take(&mut cpu.dropped);
        let mut open = Activation { cpu: number, seq, lossy, ..Activation::default() };
        open.measure(context, measured);
        match context {
            TimerlatContext::Irq => open.before.extend(cpu.since.drain(..)),
            TimerlatContext::Thread | TimerlatContext::User => {
                open.noise.extend(cpu.since.drain(..));
                open.noise_left_out = dropped;
            }
        }
        cpu.open = Some(open);
        match cpu.last_seq.replace(seq) {
            Some(last) if seq > last => self.counts.missing = self.counts.missing.saturating_add(seq - last - 1),
            Some(last) if seq < last => self.counts.restarts += 1,
            _ => {}
        }
        closed.inspect(|activation| self.count(activation))
    }

    fn count(&mut self, activation: &Activation) {
        let term = match (activation.irq, activation.thread.or(activation.user)) {
            (None, _) => &mut self.counts.without_irq,
            (Some(_), None) => &mut self.counts.without_thread,
            (Some(_), Some(_)) => &mut self.counts.complete,
        };
        *term += 1;
    }
}

impl Cpu {
    /// Takes the open activation. If it still waits for its thread and has no room, it lacks the noise since then.
    fn close(&mut self) -> Option<Activation> {
        let mut open = self.open.take()?;
        if open.is_waiting_for_thread() && open.noise.len() >= MAX_NOISE {
            open.noise_left_out += std::mem::take(&mut self.dropped) + self.since.len() as u64;
        }
        Some(open)
    }

    fn noise(&mut self, noise: Noise) {
        let has_room = |open: &Activation| open.noise.len() < MAX_NOISE;
        match &mut self.open {
            // Until the thread has run, all noise is between the interrupt and the thread.
            Some(open) if open.is_waiting_for_thread() && has_room(open) => open.noise.push(noise),
            _ => {
                if self.since.len() == MAX_NOISE_BEFORE {
                    self.since.pop_front();
                    self.dropped += 1;
                }
                self.since.push_back(noise);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timerlat(at_ns: u64, seq: u64, context: TimerlatContext) -> TimerlatRecord {
        TimerlatRecord { at_ns, cpu: 0, task: None, event: TimerlatEvent::Timerlat { seq, context, latency_ns: at_ns } }
    }

    fn irq(at_ns: u64) -> TimerlatRecord {
        let event = TimerlatEvent::IrqNoise { vector: 1, desc: "disk".to_owned(), start_ns: at_ns - 1, duration_ns: 1 };
        TimerlatRecord { at_ns, cpu: 0, task: None, event }
    }

    fn assemble(records: impl IntoIterator<Item = TimerlatRecord>) -> (Vec<Activation>, ActivationCounts) {
        let mut assembler = Assembler::default();
        let mut all: Vec<Activation> = records.into_iter().flat_map(|record| assembler.push(record)).collect();
        all.extend(assembler.end());
        (all, assembler.counts())
    }

    #[test]
    fn t30_every_noise_belongs_to_exactly_one_activation() {
        use TimerlatContext::{Irq, Thread};
        let records = [
            timerlat(10, 1, Irq),
            irq(12),
            timerlat(15, 1, Thread),
            irq(17),
            timerlat(20, 2, Irq),
            timerlat(25, 2, Thread),
        ];
        let (all, counts) = assemble(records);
        let noise = |noise: &[Noise]| noise.iter().map(|noise| noise.at_ns).collect::<Vec<_>>();
        assert_eq!((noise(&all[0].before), noise(&all[0].noise)), (vec![], vec![12]));
        assert_eq!((noise(&all[1].before), noise(&all[1].noise)), (vec![17], vec![]));
        assert_eq!(counts, ActivationCounts { complete: 2, ..ActivationCounts::default() });
    }

    #[test]
    fn noise_before_the_return_to_user_space_belongs_to_the_activation_that_returns() {
        let records = [
            timerlat(10, 1, TimerlatContext::Irq),
            timerlat(15, 1, TimerlatContext::Thread),
            irq(17),
            timerlat(20, 1, TimerlatContext::User),
            irq(22),
        ];
        let (all, _) = assemble(records);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].noise.len(), 1);
        assert_eq!(
            all[0].total().map(|(context, total)| (context, total.latency_ns)),
            Some((TimerlatContext::User, 20))
        );
    }

    #[test]
    fn the_noise_of_a_long_activation_is_bounded_and_what_is_left_out_is_counted() {
        use TimerlatContext::{Irq, Thread, User};
        let many = (MAX_NOISE + MAX_NOISE_BEFORE) as u64 + 7;
        let in_user_space = MAX_NOISE_BEFORE as u64 + 5;
        let end = 100 + many;
        let noise = (0..many).map(|n| irq(100 + n));
        let later = (0..in_user_space).map(|n| irq(end + 1 + n));
        let records = [timerlat(99, 1, Irq)].into_iter().chain(noise).chain([timerlat(end, 1, Thread)]);
        let (all, _) = assemble(records.clone());
        assert_eq!((all[0].noise.len(), all[0].noise_left_out), (MAX_NOISE + MAX_NOISE_BEFORE, 7));
        let at = |noise: Option<&Noise>| noise.map(|noise| noise.at_ns);
        assert_eq!((at(all[0].noise.first()), at(all[0].noise.last())), (Some(100), Some(end - 1)));
        let (all, _) = assemble(records.chain(later).chain([timerlat(end + 1_000, 1, User)]));
        assert_eq!((all[0].noise.len(), all[0].noise_left_out), (MAX_NOISE + 2 * MAX_NOISE_BEFORE, 7 + 5));
        // One whose thread never ran lacks all that it had no room for, whether the next one follows or not.
        let unfinished = [timerlat(99, 1, Irq)].into_iter().chain((0..many).map(|n| irq(100 + n)));
        for next in [None, Some(timerlat(end, 2, Irq))] {
            let (all, _) = assemble(unfinished.clone().chain(next));
            let left_out = (MAX_NOISE_BEFORE + 7) as u64;
            assert_eq!((all[0].noise.len(), all[0].noise_left_out), (MAX_NOISE, left_out));
        }
        // What ended long before the next activation cannot have delayed it.
        let (all, _) = assemble((0..1_000).map(|n| irq(1 + n)).chain([timerlat(2_000, 1, Irq)]));
        assert_eq!((all[0].before.len(), all[0].noise_left_out), (MAX_NOISE_BEFORE, 0));
    }

    #[test]
    fn missing_records_are_counted_once() {
        use TimerlatContext::{Irq, Thread};
        let records = [timerlat(5, 1, Thread), timerlat(10, 2, Irq), timerlat(40, 5, Irq), timerlat(45, 5, Thread)];
        let (all, counts) = assemble(records);
        assert_eq!(all.len(), 3);
        let expected = ActivationCounts { complete: 1, without_irq: 1, without_thread: 1, missing: 2, restarts: 0 };
        assert_eq!(counts, expected);
    }

    #[test]
    fn records_of_the_tracer_and_its_tracepoint_are_of_the_same_activation() {
        use TimerlatContext::{Irq, Thread};
        let same = |at_ns, written_ns, context| TimerlatRecord { at_ns: written_ns, ..timerlat(at_ns, 1, context) };
        let (all, counts) =
            assemble([same(10, 10, Irq), same(10, 11, Irq), irq(12), same(15, 15, Thread), same(15, 16, Thread)]);
        assert_eq!((all.len(), counts.complete), (1, 1));
        assert_eq!(all[0].noise.len(), 1);
    }

    #[test]
    fn a_loss_marks_the_activation_that_may_lack_records() {
        let mut assembler = Assembler::default();
        let mut all = assembler.push(timerlat(10, 1, TimerlatContext::Irq));
        assembler.lost(0);
        all.extend(assembler.push(timerlat(15, 1, TimerlatContext::Thread)));
        all.extend(assembler.push(timerlat(20, 2, TimerlatContext::Irq)));
        all.extend(assembler.end());
        assert_eq!(all.iter().map(|activation| activation.lossy).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_clock_that_goes_back_starts_another_trace() {
        let (all, counts) = assemble([timerlat(50, 7, TimerlatContext::Irq), timerlat(10, 7, TimerlatContext::Irq)]);
        assert_eq!((all.len(), counts.restarts, counts.missing), (2, 1, 0));
    }
}
