//! Records the scheduler's events in the kernel's own ring buffer, with the clock of the BPF programs.

use std::{
    fs,
    io::{ErrorKind, Read as _},
    os::unix::fs::OpenOptionsExt as _,
};

use crate::{
    machine,
    replay::{ReplayEvent, ReplayEventKind},
    trace_buffer::{self, FtraceFormat},
    trace_instance::TraceInstance,
    tracefs,
};

const EVENTS: [&str; 4] = ["sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_switch"];

/// Buffer size with room for the longest load: KiB per CPU.
const BUFFER_KB: &str = "16384";

/// A recording of events in an instance of tracefs. Dropping it removes the instance, if it is the
/// recording's own.
pub struct EventRecording(TraceInstance);

impl EventRecording {
    /// Starts recording in an instance of its own.
    pub fn start() -> Self {
        let instance = TraceInstance::create("wl-oracle");
        instance.append("trace_clock", "mono");
        Self(instance).switch_on()
    }

    /// Starts recording in an existing instance, such as that of a running `wakelat verify`: there an
    /// event has the same time for the record and for the triggers on it
    /// (`ring_buffer_event_time_stamp`, kernel/trace/ring_buffer.c).
    ///
    /// # Panics
    /// If the kernel refuses, or the instance uses another clock.
    pub fn within(instance: &str) -> Self {
        let instance = TraceInstance::existing(instance);
        let clock = instance.read("trace_clock");
        assert!(clock.contains("[mono]"), "{clock}");
        Self(instance).switch_on()
    }

    fn switch_on(self) -> Self {
        self.0.append("buffer_size_kb", BUFFER_KB);
        self.enable(true);
        self
    }

    /// Stops recording and returns the kernel's own text of the events.
    pub fn stopped_text(&self) -> String {
        self.stop();
        self.0.read("trace")
    }

    fn stop(&self) {
        self.enable(false);
    }

    fn enable(&self, is_on: bool) {
        EVENTS.iter().for_each(|event| self.0.enable(&format!("sched/{event}"), is_on));
    }

    /// Stops recording and returns the events, ordered by time.
    ///
    /// # Panics
    /// If an event was lost, or a record cannot be read.
    pub fn events(self) -> Vec<ReplayEvent> {
        self.stop();
        let formats = EVENTS.map(|event| {
            let text = tracefs::read(&format!("events/sched/{event}/format"));
            FtraceFormat::parse(&text).unwrap_or_else(|| panic!("format of {event}: {text}"))
        });
        let mut events = Vec::new();
        for cpu in machine::cpus() {
            let stats = self.0.read(&format!("per_cpu/cpu{cpu}/stats"));
            for lost in ["overrun: 0\n", "commit overrun: 0\n", "dropped events: 0\n"] {
                assert!(stats.contains(lost), "events lost: {stats}");
            }
            for page in self.pages(cpu) {
                let records = trace_buffer::records(&page).unwrap_or_else(|error| panic!("CPU {cpu}: {error}"));
                events.extend(records.into_iter().map(|(at_ns, record)| {
                    event(&formats, at_ns, cpu as u32, record).unwrap_or_else(|| panic!("cannot read {record:?}"))
                }));
            }
        }
        events.sort_by_key(|event| event.at_ns);
        events
    }

    fn pages(&self, cpu: usize) -> Vec<Vec<u8>> {
        let path = tracefs::path(&self.0.file(&format!("per_cpu/cpu{cpu}/trace_pipe_raw")));
        let mut file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut pages = Vec::new();
        loop {
            let mut page = vec![0; machine::page_size()];
            match file.read(&mut page) {
                Ok(0) => return pages,
                Ok(_) => pages.push(page),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return pages,
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }
}

fn event(formats: &[FtraceFormat; 4], at_ns: u64, cpu: u32, record: &[u8]) -> Option<ReplayEvent> {
    let which = formats.iter().position(|format| trace_buffer::id(record) == Some(format.id))?;
    let format = &formats[which];
    let number = |name: &str| format.number(record, name);
    let what = match EVENTS[which] {
        "sched_waking" => ReplayEventKind::Waking { tid: number("pid")? },
        "sched_switch" => ReplayEventKind::Switch {
            prev: number("prev_pid")?,
            prev_comm: format.text(record, "prev_comm")?,
            prev_state: number("prev_state")?,
            next: number("next_pid")?,
        },
        name => ReplayEventKind::Wakeup {
            tid: number("pid")?,
            comm: format.text(record, "comm")?,
            new: name == "sched_wakeup_new",
        },
    };
    Some(ReplayEvent { at_ns, cpu, current: number("common_pid")?, what })
}
