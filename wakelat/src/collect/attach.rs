//! Attaching: which tracepoints the settings need, in which order, and by which attach method.

use anyhow::{Context as _, Result, bail};
use aya::{
    Btf, Ebpf,
    programs::{BtfTracePoint, Program, RawTracePoint, TracePoint, raw_trace_point, tp_btf, trace_point},
};
use wakelat_common::{Class, filter::part};

use super::Settings;

/// A method of attaching programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttachMethod {
    /// Typed tracepoints (tp_btf): kernel memory is read by plain loads.
    Typed,
    /// Raw tracepoints (raw_tp): kernel memory is read by helper calls.
    Raw,
    /// Classic tracepoints: only the event's record is read, and the kernel's types need not be known.
    Classic,
}

impl AttachMethod {
    /// Prefix of the names of the method's programs in the object.
    fn prefix(self) -> &'static str {
        match self {
            Self::Typed => "",
            Self::Raw => "raw_",
            Self::Classic => "classic_",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Typed => "tp_btf",
            Self::Raw => "raw_tp",
            Self::Classic => "a classic tracepoint",
        }
    }
}

/// A verified program and its tracepoint.
pub(super) struct LoadedProgram {
    /// Name in the object.
    name: String,
    pub(super) tracepoint: &'static str,
    follows_descendants: bool,
    link: Option<Link>,
}

enum Link {
    Typed(tp_btf::BtfTracePointLinkId),
    Raw(raw_trace_point::RawTracePointLinkId),
    Classic(trace_point::TracePointLinkId),
}

/// A program and its tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgramSpec {
    tracepoint: &'static str,
    /// Name in the object, without the prefix of the attach method.
    program: &'static str,
}

impl ProgramSpec {
    /// A program named after its tracepoint.
    pub(super) const fn new(tracepoint: &'static str) -> Self {
        Self { tracepoint, program: tracepoint }
    }

    /// Whether it keeps the map of descendants up to date: see `wakelat-ebpf/src/process_tree.rs`.
    fn follows_descendants(self) -> bool {
        ["tree_fork", "tree_free"].contains(&self.program)
    }
}

struct AttachPoint {
    program: ProgramSpec,
    needed: fn(&Settings) -> bool,
}

impl AttachPoint {
    const fn new(tracepoint: &'static str, needed: fn(&Settings) -> bool) -> Self {
        Self { program: ProgramSpec::new(tracepoint), needed }
    }
}

/// In the order of attaching: programs that end or describe a wait are attached before those that begin one,
/// and detached after them.
const SCHED_POINTS: [AttachPoint; 9] = [
    AttachPoint::new("sched_switch", |settings| settings.timeline.is_none() && !settings.queue_clock),
    // Replaces `sched_switch` if the run queue's clock measures the waits: then no other program is needed.
    AttachPoint {
        program: ProgramSpec { tracepoint: "sched_switch", program: "queue_switch" },
        needed: |settings| counts_by_queue_clock(settings) && !has_one_histogram(settings),
    },
    // Replaces `queue_switch` for the usual settings.
    AttachPoint {
        program: ProgramSpec { tracepoint: "sched_switch", program: "queue_histogram" },
        needed: |settings| counts_by_queue_clock(settings) && has_one_histogram(settings),
    },
    // Replaces `queue_switch` if the causes of waits are counted as well.
    AttachPoint {
        program: ProgramSpec { tracepoint: "sched_switch", program: "cause_switch" },
        needed: |settings| settings.queue_clock && settings.causes.is_some(),
    },
    // Replaces `sched_switch` if every switch is recorded.
    AttachPoint {
        program: ProgramSpec { tracepoint: "sched_switch", program: "switch_record" },
        needed: |settings| settings.timeline.is_some() && !settings.queue_clock,
    },
    // Replaces `queue_switch` if every switch is recorded.
    AttachPoint {
        program: ProgramSpec { tracepoint: "sched_switch", program: "queue_switch_record" },
        needed: |settings| settings.timeline.is_some() && settings.queue_clock,
    },
    AttachPoint::new("sched_waking", |settings| {
        measures_wakeups(settings, Class::Wakeup) && (settings.with_waking || settings.from_waking)
    }),
    AttachPoint::new("sched_wakeup", |settings| {
        // By the rules of the hist trigger, only one event starts the clock.
        (measures_wakeups(settings, Class::Wakeup) && !(settings.trigger_rules && settings.from_waking))
            || records_wakeups(settings)
    }),
    AttachPoint::new("sched_wakeup_new", |settings| {
        measures_wakeups(settings, Class::New) || records_wakeups(settings)
    }),
];

/// Events between waits, in the order of attaching: the end of something before its beginning. Not every
/// kernel has all of them: those of `irq_vectors` exist only on x86
/// (arch/x86/include/asm/trace/irq_vectors.h).
const EVENT_POINTS: [AttachPoint; 22] = [
    AttachPoint {
        program: ProgramSpec { tracepoint: "sched_process_fork", program: "tree_fork" },
        needed: follows_descendants,
    },
    AttachPoint {
        program: ProgramSpec { tracepoint: "sched_process_free", program: "tree_free" },
        needed: follows_descendants,
    },
    AttachPoint::new("sched_migrate_task", |settings| settings.timeline.is_some()),
    AttachPoint::new("cpu_idle", |settings| settings.timeline.is_some_and(|timeline| timeline.idle)),
    AttachPoint::new("sched_process_exec", records_forks),
    AttachPoint::new("sched_process_fork", records_forks),
    AttachPoint::new("workqueue_execute_end", records_work_items),
    AttachPoint::new("workqueue_execute_start", records_work_items),
    AttachPoint::new("irq_handler_exit", traces_interrupts),
    AttachPoint::new("irq_handler_entry", traces_interrupts),
    AttachPoint::new("softirq_exit", traces_interrupts),
    AttachPoint::new("softirq_entry", traces_interrupts),
    AttachPoint::new("local_timer_exit", traces_interrupts),
    AttachPoint::new("local_timer_entry", traces_interrupts),
    AttachPoint::new("reschedule_exit", traces_interrupts),
    AttachPoint::new("reschedule_entry", traces_interrupts),
    AttachPoint::new("call_function_exit", traces_interrupts),
    AttachPoint::new("call_function_entry", traces_interrupts),
    AttachPoint::new("call_function_single_exit", traces_interrupts),
    AttachPoint::new("call_function_single_entry", traces_interrupts),
    AttachPoint::new("irq_work_exit", traces_interrupts),
    AttachPoint::new("irq_work_entry", traces_interrupts),
];

/// Whether waits are measured by the run queue's clock, and nothing else is.
fn counts_by_queue_clock(settings: &Settings) -> bool {
    settings.queue_clock && settings.causes.is_none() && settings.timeline.is_none()
}

/// Whether the settings have the values that `OneHistogram` (`wakelat-ebpf/src/wait_settings.rs`) makes constants.
fn has_one_histogram(settings: &Settings) -> bool {
    settings.aggregate
        && settings.groups.is_none()
        && settings.sampling_seed.is_none()
        && settings.threshold_ns == 0
        && settings.filter.parts & !part::OTHERS == 0
}

/// Whether the waits of this class begin at a wakeup event.
fn measures_wakeups(settings: &Settings, class: Class) -> bool {
    settings.classes.contains(class) && !settings.queue_clock
}

fn follows_descendants(settings: &Settings) -> bool {
    settings.filter.parts & part::DESCENDANTS != 0
}

fn traces_interrupts(settings: &Settings) -> bool {
    settings.timeline.is_some_and(|timeline| timeline.interrupts)
        || settings.causes.is_some_and(|causes| causes.trace_interrupts)
}

fn records_forks(settings: &Settings) -> bool {
    settings.timeline.is_some_and(|timeline| timeline.forks)
}

fn records_work_items(settings: &Settings) -> bool {
    settings.timeline.is_some_and(|timeline| timeline.work_items)
}

fn records_wakeups(settings: &Settings) -> bool {
    settings.timeline.is_some_and(|timeline| timeline.wakeups)
}

/// The programs that `settings` need, the one on `sched_switch` first. Programs of [`EVENT_POINTS`] are
/// included only if `exists` returns true for their tracepoint.
pub(super) fn needed_programs(settings: &Settings, exists: impl Fn(&str) -> bool) -> Vec<ProgramSpec> {
    let needed = |points: &[AttachPoint]| -> Vec<ProgramSpec> {
        points.iter().filter(|point| (point.needed)(settings)).map(|point| point.program).collect()
    };
    let (on_switch, on_wakeup) = SCHED_POINTS.split_at(6);
    let events = needed(&EVENT_POINTS).into_iter().filter(|event| exists(event.tracepoint));
    needed(on_switch).into_iter().chain(events).chain(needed(on_wakeup)).collect()
}

/// Loads and verifies the programs of `targets` by the first of `methods` that the kernel accepts. Attaches
/// nothing.
pub(super) fn verify(
    ebpf: &mut Ebpf,
    targets: &[ProgramSpec],
    methods: &[AttachMethod],
    btf: Option<&Btf>,
) -> Result<Vec<LoadedProgram>> {
    let mut refused: Option<anyhow::Error> = None;
    for method in methods {
        match verify_by(ebpf, targets, *method, btf) {
            Ok(programs) => return Ok(programs),
            Err(error) => {
                log::info!("{error:#}");
                refused = Some(match refused {
                    Some(earlier) => error.context(format!("{earlier:#}; and then")),
                    None => error,
                });
            }
        }
    }
    Err(refused.unwrap_or_else(|| anyhow::anyhow!("cannot attach BPF programs to this kernel; run `wakelat doctor`")))
}

fn verify_by(
    ebpf: &mut Ebpf,
    targets: &[ProgramSpec],
    method: AttachMethod,
    btf: Option<&Btf>,
) -> Result<Vec<LoadedProgram>> {
    let load = |target: &ProgramSpec| {
        let ProgramSpec { tracepoint, program } = *target;
        let name = format!("{}{program}", method.prefix());
        let loaded = match (ebpf.program_mut(&name), btf) {
            (Some(Program::BtfTracePoint(program)), Some(btf)) => program.load(tracepoint, btf),
            (Some(Program::RawTracePoint(program)), _) => program.load(),
            (Some(Program::TracePoint(program)), _) => program.load(),
            _ => bail!("the BPF object has no program `{name}` that can be loaded"),
        };
        loaded
            .with_context(|| format!("the kernel rejects the BPF program for `{tracepoint}` as {}", method.name()))?;
        if let Some(instructions) = ebpf.program(&name).and_then(verified_instructions) {
            log::info!("program {name}: {instructions} instructions verified");
        }
        Ok(LoadedProgram { name, tracepoint, follows_descendants: target.follows_descendants(), link: None })
    };
    targets.iter().map(load).collect()
}

/// Number of instructions that the verifier processed; `None` before 5.16.
fn verified_instructions(program: &Program) -> Option<u32> {
    program.info().ok()?.verified_instruction_count()
}

impl LoadedProgram {
    /// Whether it is attached to a classic tracepoint.
    pub(super) fn is_classic(&self) -> bool {
        self.name.starts_with(AttachMethod::Classic.prefix())
    }

    fn attach(&mut self, ebpf: &mut Ebpf) -> Result<()> {
        let name = &self.name;
        let link = match ebpf.program_mut(name) {
            Some(Program::BtfTracePoint(program)) => BtfTracePoint::attach(program).map(Link::Typed),
            Some(Program::RawTracePoint(program)) => RawTracePoint::attach(program, self.tracepoint).map(Link::Raw),
            Some(Program::TracePoint(program)) => {
                TracePoint::attach(program, "sched", self.tracepoint).map(Link::Classic)
            }
            _ => bail!("the BPF object has no program `{name}`"),
        };
        self.link = Some(link.with_context(|| format!("cannot attach to the tracepoint `{}`", self.tracepoint))?);
        Ok(())
    }

    fn detach(&mut self, ebpf: &mut Ebpf) -> Result<()> {
        match (self.link.take(), ebpf.program_mut(&self.name)) {
            (Some(Link::Typed(link)), Some(Program::BtfTracePoint(program))) => program.detach(link)?,
            (Some(Link::Raw(link)), Some(Program::RawTracePoint(program))) => program.detach(link)?,
            (Some(Link::Classic(link)), Some(Program::TracePoint(program))) => program.detach(link)?,
            _ => {}
        }
        Ok(())
    }

    /// The program in `ebpf`.
    pub(super) fn program<'a>(&self, ebpf: &'a Ebpf) -> Option<&'a Program> {
        ebpf.program(&self.name)
    }
}

/// Attaches all programs in order, except for those that are attached.
pub(super) fn attach(ebpf: &mut Ebpf, programs: &mut [LoadedProgram]) -> Result<()> {
    programs.iter_mut().filter(|program| program.link.is_none()).try_for_each(|program| program.attach(ebpf))
}

/// Detaches all attached programs in reverse order. A program that is running continues to its end: see
/// [`super::rcu_grace_period`].
pub(super) fn detach(ebpf: &mut Ebpf, programs: &mut [LoadedProgram]) -> Result<()> {
    programs.iter_mut().rev().try_for_each(|program| program.detach(ebpf))
}

/// Like [`detach`], for a pause: the programs that follow descendants stay attached, because processes are forked in a pause
/// too. Forks are rare, so their calls cost little.
pub(super) fn detach_for_pause(ebpf: &mut Ebpf, programs: &mut [LoadedProgram]) -> Result<()> {
    detached_for_pause(programs).try_for_each(|program| program.detach(ebpf))
}

/// The programs to detach for a pause, in the order of detaching.
fn detached_for_pause(programs: &mut [LoadedProgram]) -> impl Iterator<Item = &mut LoadedProgram> {
    programs.iter_mut().rev().filter(|program| !program.follows_descendants)
}

#[cfg(test)]
mod tests {
    use wakelat_common::Classes;

    use super::{super::load::tests::settings, *};

    #[test]
    fn only_the_programs_that_follow_descendants_stay_attached_in_a_pause() {
        let mut settings = settings();
        settings.classes = Class::ALL.into_iter().fold(Classes::NONE, Classes::with);
        settings.filter.parts = part::DESCENDANTS;
        let needed = needed_programs(&settings, |_| true);
        let names: Vec<&str> = needed.iter().map(|needed| needed.program).collect();
        assert_eq!(names, ["sched_switch", "tree_fork", "tree_free", "sched_wakeup", "sched_wakeup_new"]);
        let loaded = |needed: ProgramSpec| LoadedProgram {
            name: needed.program.to_owned(),
            tracepoint: needed.tracepoint,
            follows_descendants: needed.follows_descendants(),
            link: None,
        };
        let mut programs: Vec<LoadedProgram> = needed.into_iter().map(loaded).collect();
        let detached: Vec<String> = detached_for_pause(&mut programs).map(|program| program.name.clone()).collect();
        assert_eq!(detached, ["sched_wakeup_new", "sched_wakeup", "sched_switch"]);
    }
}
