//! Where a text comes from: what its comments and its first events say.

use wakelat_common::Class;

use super::event::TracedEvent;
use crate::{
    recording::{CollectedEvents, Header, MoreEvents, RecordedMachine, TextSource},
    report::LatencyFrom,
    trace_line::LineHead,
};

pub(super) use crate::recording::TextKind;

/// What is known of the trace and its machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    kind: Option<TextKind>,
    machine: RecordedMachine,
    command_line: String,
    /// Number of CPUs, if a comment has it; otherwise the highest CPU seen, plus one.
    cpus: Option<u32>,
    seen_cpus: u32,
    has_events: bool,
    has_switch: bool,
    has_waking: bool,
    has_wakeup: bool,
    has_new: bool,
    has_migration: bool,
    has_processes: bool,
    has_ns: bool,
    collected: CollectedEvents,
}

impl Origin {
    /// Takes a line that is no event.
    pub fn comment(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else { return };
        let line = line.trim();
        if let Some(cpus) = line.strip_prefix("cpus=") {
            (self.kind, self.cpus) = (Some(TextKind::TraceCmd), cpus.parse().ok());
        }
        if let Some((_, cpus)) = line.rsplit_once(" #P:").filter(|_| line.starts_with("# entries-in-buffer")) {
            self.cpus = cpus.trim().parse().ok();
        }
        let Some((key, value)) = line.strip_prefix("# ").and_then(|line| line.split_once(" : ")) else { return };
        match key.trim_end() {
            "hostname" => self.machine.host = value.to_owned(),
            "os release" => self.machine.kernel = value.to_owned(),
            "arch" => self.machine.architecture = value.to_owned(),
            "nrcpus online" => self.cpus = value.trim().parse().ok(),
            "cmdline" => self.command_line = value.trim().to_owned(),
            _ => {}
        }
    }

    /// Takes an event.
    pub fn event(&mut self, kind: TextKind, head: &LineHead, event: &TracedEvent) {
        self.kind.get_or_insert(kind);
        self.has_events = true;
        self.seen_cpus = self.seen_cpus.max(head.cpu.saturating_add(1));
        self.has_processes |= head.pid.is_some();
        self.has_ns |= !head.at_ns.is_multiple_of(1_000);
        match event {
            TracedEvent::Switch { .. } => self.has_switch = true,
            TracedEvent::Waking(_) => self.has_waking = true,
            TracedEvent::Wakeup(_) => self.has_wakeup = true,
            TracedEvent::New(_) => self.has_new = true,
            TracedEvent::Migration { .. } => self.has_migration = true,
            TracedEvent::IrqEntry { .. } | TracedEvent::SoftirqEntry(_) => self.collected.irq = true,
            TracedEvent::Idle { .. } => self.collected.idle = true,
            _ => {}
        }
    }

    /// Whether there was a `sched_switch`.
    pub fn has_switch(&self) -> bool {
        self.has_switch
    }

    /// Whether there was any event.
    pub fn has_events(&self) -> bool {
        self.has_events
    }

    /// The kernel's release; empty if it is unknown.
    pub fn kernel(&self) -> &str {
        &self.machine.kernel
    }

    /// The header of a recording with these events.
    pub fn header(&self) -> Header {
        let mut machine = self.machine.clone();
        let cpus = self.cpus.unwrap_or(0).max(self.seen_cpus);
        machine.cpus_online = if cpus <= 1 { "0".to_owned() } else { format!("0-{}", cpus - 1) };
        let has_wakeups = self.has_waking || self.has_wakeup;
        let has = |class: &Class| match class {
            Class::Wakeup => has_wakeups,
            // There may be none in the beginning of the trace.
            Class::New => has_wakeups || self.has_new,
            Class::Preempted => true,
        };
        Header {
            command_line: Some(self.command_line.clone()).filter(|line| !line.is_empty()).into_iter().collect(),
            machine,
            from: if self.has_waking { LatencyFrom::Waking } else { LatencyFrom::Wakeup },
            classes: Class::ALL.into_iter().filter(has).collect(),
            collected: self.collected,
            more: MoreEvents { wakeups: has_wakeups, migrations: self.has_migration, ..MoreEvents::default() },
            text: Some(TextSource {
                kind: self.kind.unwrap_or(TextKind::Ftrace),
                has_delivery: self.has_waking && self.has_wakeup,
                has_processes: self.has_processes,
                resolution_ns: if self.has_ns { 1 } else { 1_000 },
            }),
            ..Header::default()
        }
    }
}
