//! What parts and culprits are called in text for people.

use crate::aggregate::bounded::Evicted;
use std::collections::BTreeMap;

use wakelat_common::timeline::vector;

use crate::{
    aggregate::container::Container,
    sink::{style::Style, text::clean, units},
    timeline::{
        event::InterruptSource,
        part::{Actor, Component, Culprit, RunningTask, UnknownReason},
    },
    timerlat::record::softirq_name,
};

/// Paths of cgroups.
pub type Cgroups = BTreeMap<u64, String>;

/// A part.
pub fn component(part: Component) -> &'static str {
    match part {
        Component::Placement => "delivery: placement",
        Component::Ipi => "delivery: IPI",
        Component::Idle => "exit from idle",
        Component::Higher => "higher priority",
        Component::Same => "same class",
        Component::Lower => "lower priority",
        Component::Irq => "interrupts",
        Component::Softirq => "softirqs",
        Component::Throttled => "throttled (quota)",
        Component::RtThrottled => "real-time throttling",
        Component::Stolen => "stolen by the hypervisor",
        Component::Unexplained => "unexplained",
    }
}

/// Who had a share, where the part is said already.
pub fn actor(who: &Actor, cgroups: &Cgroups, style: &Style) -> String {
    match who {
        Actor::Task(runner) => task(runner, style),
        Actor::Idle(Some(state)) => format!("C-state {state}"),
        Actor::Idle(None) => "C-state not known".to_owned(),
        Actor::Interrupt(source) => interrupt(source, style),
        Actor::Cgroup(id) => match *id {
            Some(id) if cgroups.get(&id).is_some_and(|path| path != "/") => place(id, cgroups, style),
            id => throttled(id, cgroups, style),
        },
        Actor::NoActor => String::new(),
        Actor::Unknown(why) => unknown(*why).to_owned(),
    }
}

/// Who had a share, and in which part.
pub fn culprit(culprit: &Culprit, cgroups: &Cgroups, style: &Style) -> String {
    let name = actor(&culprit.actor, cgroups, style);
    match (culprit.component, &culprit.actor) {
        (Component::Same | Component::Irq | Component::Softirq, _) => name,
        (Component::Higher, _) => format!("{name} (higher)"),
        (Component::Lower, _) => format!("{name} (lower)"),
        (Component::Throttled, _) => format!("throttled {name}"),
        (part_, Actor::NoActor) => component(part_).to_owned(),
        (part_, Actor::Idle(None)) => component(part_).to_owned(),
        (Component::Unexplained, _) => format!("unexplained: {name}"),
        (part_, _) => format!("{}, {name}", component(part_)),
    }
}

/// A task: `nginx/1234`.
pub fn task(runner: &RunningTask, style: &Style) -> String {
    format!("{}/{}", clean(&runner.comm.to_string(), style), runner.tid)
}

/// One that was in the way, and what it did where it is a worker, the function that had most first:
/// `kworker/0:1/77 (wb_workfn +2)`.
pub fn with_work_items(who: String, functions: &[&str], style: &Style) -> String {
    match functions {
        [] => who,
        [only] => format!("{who} ({})", clean(only, style)),
        [first, more @ ..] => format!("{who} ({} +{})", clean(first, style), more.len()),
    }
}

/// An interrupt or softirq: `IRQ nvme0q1:24`, `IRQ local_timer`, `softirq NET_RX`.
pub fn interrupt(source: &InterruptSource, style: &Style) -> String {
    match source {
        InterruptSource::Irq { number, name } => format!("IRQ {}:{number}", clean(&name.to_string(), style)),
        InterruptSource::Vector(number) => format!("IRQ {}", vector_name(*number).unwrap_or("unknown")),
        InterruptSource::Softirq(number) => format!("softirq {}", softirq(*number)),
    }
}

/// A softirq by its vector.
pub fn softirq(number: u32) -> &'static str {
    i32::try_from(number).ok().and_then(softirq_name).unwrap_or("unknown")
}

/// An interrupt of the CPU's own, as `include/asm/trace/irq_vectors.h` has it.
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

/// A cgroup where room is short: of a long path, the container is what is looked for.
pub fn place(id: u64, cgroups: &Cgroups, style: &Style) -> String {
    let Some(path) = cgroups.get(&id) else { return String::new() };
    container(path, style).unwrap_or_else(|| clean(path, style))
}

/// The container of a cgroup's path: `container 3f4e5d6c7b8a of pod 0f1e2d3c-…`.
pub fn container(path: &str, style: &Style) -> Option<String> {
    let Container { id, pod } = Container::of(path)?;
    let words: Vec<String> = [("container", id), ("pod", pod)]
        .into_iter()
        .filter_map(|(what, name)| Some(format!("{what} {}", clean(&name?, style))))
        .collect();
    Some(words.join(" of "))
}

/// A cgroup that was out of quota. The root of v2 has none: then it is one of the v1 hierarchy, whose path is not known.
pub fn throttled(id: Option<u64>, cgroups: &Cgroups, style: &Style) -> String {
    match id.and_then(|id| cgroups.get(&id)) {
        Some(path) if path != "/" => clean(path, style),
        _ => "(cgroup v1)".to_owned(),
    }
}

/// Those for whom a table had no room: `345 others: 1.2 ms; times above are at most 30.0 µs too low`. None where
/// there are none.
pub fn evicted(rest: Evicted, style: &Style) -> Option<String> {
    let others = units::counted(rest.count, "other");
    let time = |ns| units::duration(ns, style.unicode);
    (rest.count > 0)
        .then(|| format!("{others}: {}; times above are at most {} too low", time(rest.sum), time(rest.error)))
}

/// Why something is unexplained.
pub fn unknown(why: UnknownReason) -> &'static str {
    match why {
        UnknownReason::Lost => "records were lost",
        UnknownReason::Unseen => "a switch was not shown",
        UnknownReason::HistoryLimit => "too long ago",
        UnknownReason::BeforeStart => "before the first switch",
        UnknownReason::UnknownCpu => "moved unseen",
        UnknownReason::Clock => "clock",
    }
}
