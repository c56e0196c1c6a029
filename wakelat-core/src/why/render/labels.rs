//! Names of components and culprits in text for people.

use std::collections::BTreeMap;

use wakelat_common::timeline::vector;

use crate::{
    aggregate::{container_id::Container, key::Names, space_saving::Evicted},
    files::{own_number, own_tid},
    render::{self, style::Style, text_line::clean, units},
    softirq::softirq_name,
    timeline::{
        component::{Actor, Component, Culprit, RunningTask, UnknownReason},
        event::InterruptSource,
    },
};

/// The paths of cgroups, by ID.
pub type Cgroups = BTreeMap<u64, String>;

/// The cgroup of an actor with its path, if it has one.
pub fn cgroup_of(actor: &Actor, names: &dyn Names) -> Cgroups {
    let id = match actor {
        Actor::Task(task) => task.cgroup_id,
        Actor::Cgroup(id) => *id,
        _ => None,
    };
    id.map(|id| (id, names.cgroup(id))).into_iter().collect()
}

/// The name of a component.
pub fn component(component: Component) -> &'static str {
    match component {
        Component::Placement => "delivery (placement)",
        Component::Ipi => "delivery (IPI)",
        Component::Idle => "exit from idle",
        Component::Higher => "higher priority",
        Component::Same => "same class",
        Component::Lower => "lower priority",
        Component::Irq => "interrupts",
        Component::Softirq => "softirqs",
        Component::Throttled => "throttled (quota)",
        Component::RtThrottled => "real-time throttling",
        Component::Stolen => "steal time",
        Component::Unexplained => "unexplained",
    }
}

/// The name of an actor, where the component is already named.
pub fn actor(actor: &Actor, cgroups: &Cgroups, style: &Style) -> String {
    match actor {
        Actor::Task(runner) => task(runner, style),
        Actor::Idle(Some(state)) => format!("C-state {state}"),
        Actor::Idle(None) => "C-state unknown".to_owned(),
        Actor::Interrupt(source) => interrupt(source, style),
        Actor::Cgroup(id) => match *id {
            Some(id) if cgroups.get(&id).is_some_and(|path| path != "/") => place(id, cgroups, style),
            id => throttled(id, cgroups, style),
        },
        Actor::NoActor => String::new(),
        Actor::Unknown(why) => unknown(*why).to_owned(),
    }
}

/// The name of a culprit, with its component unless the actor implies it.
pub fn culprit(culprit: &Culprit, cgroups: &Cgroups, style: &Style) -> String {
    let name = actor(&culprit.actor, cgroups, style);
    match (culprit.component, &culprit.actor) {
        (Component::Same | Component::Irq | Component::Softirq, _) => name,
        (Component::Higher, _) => format!("{name} (higher)"),
        (Component::Lower, _) => format!("{name} (lower)"),
        (Component::Throttled, _) => format!("throttled {name}"),
        (other, Actor::NoActor) => component(other).to_owned(),
        (other, Actor::Idle(None)) => component(other).to_owned(),
        (Component::Unexplained, _) => format!("unexplained: {name}"),
        (other, _) => format!("{}, {name}", component(other)),
    }
}

/// What marks the name of a thread of wakelat itself.
pub const OWN: &str = " (wakelat's own)";

/// What follows the name of an actor: [`OWN`] for a task of the processes `own_pids`, nothing for others.
pub fn own_mark(actor: &Actor, own_pids: &[u32]) -> &'static str {
    if is_own(actor, own_pids) { OWN } else { "" }
}

/// Whether an actor is a task of the processes `own_pids`, which are wakelat itself.
pub fn is_own(actor: &Actor, own_pids: &[u32]) -> bool {
    matches!(actor, Actor::Task(task) if own_pids.contains(&task.pid))
}

/// Formats a task: `nginx/1234`.
pub fn task(runner: &RunningTask, style: &Style) -> String {
    let file = render::labels::in_file(runner.tid, style);
    format!("{}/{}{file}", clean(&runner.comm.to_string(), style), own_tid(runner.tid))
}

/// Appends to the name of a worker the function with the most time, and the number of other functions:
/// `kworker/0:1/77 (wb_workfn +2)`.
pub fn with_work_items(name: String, functions: &[&str], style: &Style) -> String {
    match functions {
        [] => name,
        [only] => format!("{name} ({})", clean(only, style)),
        [first, more @ ..] => format!("{name} ({} +{})", clean(first, style), more.len()),
    }
}

/// The name of an interrupt or softirq: `IRQ nvme0q1:24`, `IRQ local_timer`, `softirq NET_RX`.
pub fn interrupt(source: &InterruptSource, style: &Style) -> String {
    match source {
        InterruptSource::Irq { number, name } => {
            format!("IRQ {}:{}", clean(&name.to_string(), style), own_number(*number))
        }
        InterruptSource::Vector(number) => format!("IRQ {}", vector_name(*number).unwrap_or("unknown")),
        InterruptSource::Softirq(number) => format!("softirq {}", softirq(*number)),
    }
}

/// The name of a softirq, by its number.
pub fn softirq(number: u32) -> &'static str {
    i32::try_from(number).ok().and_then(softirq_name).unwrap_or("unknown")
}

/// The name of an interrupt of the CPU's own, as in `include/asm/trace/irq_vectors.h`.
pub fn vector_name(number: u32) -> Option<&'static str> {
    Some(match number {
        vector::LOCAL_TIMER => "local_timer",
        vector::RESCHEDULE => "reschedule",
        vector::CALL_FUNCTION => "call_function",
        vector::CALL_FUNCTION_SINGLE => "call_function_single",
        vector::IRQ_WORK => "irq_work",
        _ => return None,
    })
}

/// The name of a cgroup in little space: the container if it is one, because readers look for that, or else
/// the path.
pub fn place(id: u64, cgroups: &Cgroups, style: &Style) -> String {
    let Some(path) = cgroups.get(&id) else { return String::new() };
    container(path, style).unwrap_or_else(|| clean(path, style))
}

/// The container in the path of a cgroup: `container 3f4e5d6c7b8a of pod 0f1e2d3c-…`.
pub fn container(path: &str, style: &Style) -> Option<String> {
    let Container { id, pod } = Container::of(path)?;
    let words: Vec<String> = [("container", id), ("pod", pod)]
        .into_iter()
        .filter_map(|(what, name)| Some(format!("{what} {}", clean(&name?, style))))
        .collect();
    Some(words.join(" of "))
}

/// The name of a throttled cgroup. The root cgroup of v2 has no quota, so if the path is the root or
/// unknown, the cgroup is one of the v1 hierarchy, whose path is not known.
pub fn throttled(id: Option<u64>, cgroups: &Cgroups, style: &Style) -> String {
    match id.and_then(|id| cgroups.get(&id)) {
        Some(path) if path != "/" => clean(path, style),
        _ => "(cgroup v1)".to_owned(),
    }
}

/// Formats the entries that a bounded table evicted: `345 others: 1.2 ms; times above are at most 30.0 µs
/// too low`. `None` if there are none.
pub fn evicted(rest: Evicted, style: &Style) -> Option<String> {
    let others = units::counted(rest.count, "other");
    let time = |ns| units::duration(ns, style.unicode);
    (rest.count > 0)
        .then(|| format!("{others}: {}; times above are at most {} too low", time(rest.sum), time(rest.error)))
}

/// The reason why time is unexplained.
pub fn unknown(why: UnknownReason) -> &'static str {
    match why {
        UnknownReason::Lost => "lost events",
        UnknownReason::Unseen => "unseen switch",
        UnknownReason::HistoryLimit => "beyond the kept history",
        UnknownReason::BeforeStart => "before the first recorded switch",
        UnknownReason::UnknownCpu => "CPU unknown",
        UnknownReason::Clock => "clock",
    }
}
