//! Names of groups and tasks in text for people.

use wakelat_common::{Class, pending_wait::PrevState};

use super::{
    style::Style,
    text_line::{clean, fit},
    units,
};
use crate::{
    aggregate::{distribution::Distribution, estimate::ConfidenceInterval, percentile_rank::Percentile},
    files::own_tid,
    report::{Group, GroupClass, KeyPart, KeyValue, LatencyFrom, Report},
    wait::Comm,
};

/// The figure that a group shows, named as in docs/semantics.md.
pub fn figure(class: GroupClass, from: LatencyFrom) -> &'static str {
    match (class, from) {
        (GroupClass::One(Class::Wakeup), LatencyFrom::Wakeup | LatencyFrom::Queued) => "wakeup latency",
        (GroupClass::One(Class::Wakeup), LatencyFrom::Waking) => "delivery + wakeup latency",
        (GroupClass::One(Class::New), _) => "new-task latency",
        (GroupClass::One(Class::Preempted), _) => "preempted-task latency",
        (GroupClass::RunQueue, LatencyFrom::Wakeup | LatencyFrom::Queued) => "runqueue latency",
        (GroupClass::RunQueue, LatencyFrom::Waking) => "delivery + runqueue latency",
    }
}

/// What becomes of a task at its switch-out.
pub fn prev_state(state: PrevState) -> &'static str {
    match state {
        PrevState::Runnable | PrevState::PreemptedSleeping => "runnable",
        PrevState::Sleeping => "sleeping",
        PrevState::Dead => "dead",
    }
}

/// Formats the key of a group: `nginx/1234`, `CPU 1, prio 120`. `None` if the key is empty.
pub fn key(key: &[KeyPart], style: &Style) -> Option<String> {
    let value_of = |name: &str| key.iter().find(|part| part.name == name).map(|part| part.value.to_string());
    // The name and the TID of a thread form one part, wherever they are in the key.
    let task = value_of("comm").zip(value_of("tid"));
    let leader = value_of("comm").zip(value_of("pid")).filter(|_| task.is_none());
    let waker = value_of("waker_comm").zip(value_of("waker"));
    let parts: Vec<String> = key
        .iter()
        .filter_map(|part| match (part.name, &task) {
            ("tid", Some(_)) => None,
            ("comm", Some((comm, tid))) => Some(format!("{comm}/{tid}")),
            ("pid", None) if leader.is_some() => leader.as_ref().map(|(comm, pid)| format!("{comm}, pid {pid}")),
            ("comm", None) if leader.is_some() => None,
            ("comm" | "cgroup" | "file" | "host", _) => Some(part.value.to_string()),
            ("container", _) if part.value.to_string() == "(none)" => Some("no container".to_owned()),
            ("cpu", _) => Some(format!("CPU {}", part.value)),
            ("waker_comm", _) => None,
            ("waker", _) => Some(match (&part.value, &waker) {
                (KeyValue::Number(0), _) => "woken by idle".to_owned(),
                (_, Some((comm, tid))) => format!("woken by {comm}/{tid}"),
                (value, None) => format!("woken by {value}"),
            }),
            (name, _) => Some(format!("{name} {}", part.value)),
        })
        .map(|part| clean(&part, style))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The heading of the column with the keys of groups.
pub fn key_title(groups: &[&Group]) -> String {
    let names = groups.first().map(|group| &group.key[..]).unwrap_or_default().iter().map(|part| part.name);
    let task = |name: &&str| matches!(*name, "comm" | "tid" | "pid");
    let names: Vec<_> = names.collect();
    if names.iter().all(task) { "task".to_owned() } else { names.join(", ") }
}

/// Formats a thread: `nginx/1234`, or `idle` for the idle task of any CPU. The name is cut if it does not
/// fit.
pub fn thread(comm: Option<Comm>, tid: u32, columns: usize, style: &Style) -> String {
    if tid == 0 {
        return "idle".to_owned();
    }
    let Some(comm) = comm else { return own_tid(tid).to_string() };
    let id = format!("/{}", own_tid(tid));
    let name = fit(&clean(&comm.to_string(), style), columns.saturating_sub(id.len()), style);
    format!("{name}{id}")
}

/// Formats a percentile, with its confidence interval if tasks were sampled: `1.2 µs (1.1 µs–1.3 µs)`.
pub fn percentile(distribution: &Distribution, percentile: Percentile, style: &Style) -> String {
    let time = |ns: u64| units::duration(ns, style.unicode);
    let value = time(distribution.percentile_ns(percentile));
    let Some(sampled) = distribution.sampled() else { return value };
    match sampled.interval(percentile) {
        Some(ConfidenceInterval { low_ns, high_ns: Some(high_ns) }) => {
            format!("{value} ({}{}{})", time(low_ns), style.pick('–', '-'), time(high_ns))
        }
        Some(ConfidenceInterval { low_ns, high_ns: None }) => {
            format!("{value} ({} {})", style.pick("≥", ">="), time(low_ns))
        }
        None => format!("{value} (?)"),
    }
}

/// Formats a task as a cell: `nginx[1234/1230]`, with TID and PID, or a single ID if they are equal or the PID is 0,
/// which is unknown. The name is cut before the IDs, and the PID is dropped before the TID.
pub fn task(comm: Comm, tid: u32, pid: u32, width: usize, style: &Style) -> String {
    /// Minimum width of the name that has to be left beside both IDs, in columns.
    const NAME: usize = 4;
    let (tid, pid) = (own_tid(tid), own_tid(pid));
    let both = format!("[{tid}/{pid}]");
    let ids = if tid == pid || pid == 0 || both.len() + NAME > width { format!("[{tid}]") } else { both };
    let name = fit(&clean(&comm.to_string(), style), width.saturating_sub(ids.len()), style);
    format!("{name}{ids}")
}

/// The recording of a task, if there are several: ` in web-1.wakelat`. Otherwise empty.
pub fn in_file(tid: u32, style: &Style) -> String {
    style.files.of_tid(tid).map_or_else(String::new, |file| format!(" in {}", clean(file, style)))
}

/// Whether the groups of a report have more than one class.
pub fn several_classes(report: &Report) -> bool {
    report.groups.iter().any(|group| group.class != report.groups[0].class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: &[(&'static str, KeyValue)]) -> Option<String> {
        let parts: Vec<_> = parts.iter().map(|(name, value)| KeyPart { name, value: value.clone() }).collect();
        key(&parts, &Style { unicode: true, ..Style::default() })
    }

    #[test]
    fn keys_are_readable() {
        let name = KeyValue::Text("nginx".to_owned());
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[("comm", name.clone())]).unwrap(), "nginx");
        assert_eq!(text(&[("tid", KeyValue::Number(12)), ("comm", name.clone())]).unwrap(), "nginx/12");
        assert_eq!(text(&[("pid", KeyValue::Number(12)), ("comm", name.clone())]).unwrap(), "nginx, pid 12");
        assert_eq!(text(&[("comm", name), ("cpu", KeyValue::Number(1))]).unwrap(), "nginx, CPU 1");
        assert_eq!(text(&[("prio", KeyValue::Number(120))]).unwrap(), "prio 120");
        let text_of = |text: &str| KeyValue::Text(text.to_owned());
        let of_pod = [("container", text_of("3f4e5d6c7b8a")), ("pod", text_of("7f"))];
        assert_eq!(text(&of_pod).unwrap(), "container 3f4e5d6c7b8a, pod 7f");
        assert_eq!(text(&[("container", text_of("(none)"))]).unwrap(), "no container");
    }

    #[test]
    fn a_waker_appears_once() {
        let name = |comm: &str| ("waker_comm", KeyValue::Text(comm.to_owned()));
        let waker = |tid| ("waker", KeyValue::Number(tid));
        assert_eq!(text(&[waker(77), name("bash")]).unwrap(), "woken by bash/77");
        assert_eq!(text(&[waker(77)]).unwrap(), "woken by 77");
        assert_eq!(text(&[waker(0), name("swapper/1")]).unwrap(), "woken by idle");
    }

    #[test]
    fn a_long_name_is_cut_but_not_its_tid() {
        let comm = Some(Comm::new(b"kworker/u16:12"));
        assert_eq!(thread(comm, 1_234_567, 14, &Style::default()), "kwork~/1234567");
        assert_eq!(thread(comm, 0, 14, &Style::default()), "idle");
        assert_eq!(thread(None, 7, 14, &Style::default()), "7");
    }
}
