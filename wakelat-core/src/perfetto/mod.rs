//! Traces for Perfetto (<https://ui.perfetto.dev>): scheduling slices, wakeups and interrupts of each CPU as ftrace
//! events, from which Perfetto makes its own tracks; and the waits of each thread as slices on the thread's track, with
//! the components of each wait as nested slices. Pure.
//!
//! Times are CLOCK_BOOTTIME, Perfetto's default. A trace has the clocks of the recording, so that Perfetto also shows wall
//! time. A trace of several recordings has times since 1970-01-01 UTC instead, the only clock that they share; IDs of
//! threads and CPUs are then those of the trace, of which no two recordings have the same.

mod messages;
mod slices;
mod trace_cpus;

use std::io::{self, Write};

use prost::Message as _;
use wakelat_common::{Class, pending_wait::PrevState};

use self::{
    messages::{
        BOOTTIME, Clock, ClockSnapshot, FtraceEvent, FtraceEventBundle, IrqHandlerEntry, IrqHandlerExit, MONOTONIC,
        PacketData, ProcessTree, REALTIME, SchedMigrateTask, SchedSwitch, SchedWakeup, SoftirqVector, SystemInfo,
        TracePacket, Tracepoint, TrackDescriptor, TreeProcess, TreeThread, Utsname,
    },
    trace_cpus::TraceCpus,
};
use crate::{
    aggregate::key::Names,
    files::{FileName, Files, own_number},
    hash::{HashMap, HashSet},
    recording::Header,
    render::{Style, labels::in_file},
    report::LatencyFrom,
    timeline::{
        Timeline,
        event::{DetailedWait, Event, EventKind, InterruptEvent, InterruptSource, SwitchEvent, TaskInfo},
    },
    wait::Comm,
    why::render::labels,
};

/// The most recordings in one trace, whose thread IDs are not negative.
pub const MAX_FILES: usize = crate::files::MAX_FILES / 2;

/// Events of one CPU in one packet.
const BUNDLE: usize = 256;

/// Tracks by UUID: of a CPU's own interrupts, its number and this.
const CPU_TRACKS: u64 = 2 << 32;

/// The sequence of all packets: the trace has one writer.
const SEQUENCE: u32 = 1;

/// `TASK_INTERRUPTIBLE`, `EXIT_DEAD`, and `TASK_REPORT_MAX` of a preempted task, as `sched_switch` reports them from 4.20
/// on (include/linux/sched.h, include/trace/events/sched.h).
const SLEEPING: i64 = 0x1;
const DEAD: i64 = 0x10;
const PREEMPTED: i64 = 0x100;

/// Writes a trace, packet by packet.
#[derive(Debug)]
pub struct PerfettoWriter {
    from: LatencyFrom,
    timeline: Timeline,
    /// For names of tasks and causes, with their files if there are several.
    style: Style,
    trace_cpus: TraceCpus,
    /// The shortest wait that has slices: ns.
    threshold_ns: u64,
    boottime_offset_ns: i64,
    unix_offset_ns: Option<i64>,
    cpus: HashMap<u32, CpuEvents>,
    /// Threads in the process tree, by TID: their names.
    threads: HashMap<u32, (u32, Comm)>,
    /// Additions to the process tree.
    tree: ProcessTree,
    tracks: HashSet<u64>,
    waits: u64,
}

/// How tasks and cgroups are named.
struct WaitNames<'a> {
    names: &'a dyn Names,
    style: &'a Style,
}

/// The events of one CPU that are not written yet.
#[derive(Debug, Default)]
struct CpuEvents {
    bundle: FtraceEventBundle,
    /// The number of the last event, once there is one.
    seq: Option<u32>,
    /// The current thread.
    tid: u32,
}

impl PerfettoWriter {
    /// A trace of the recordings with these headers, by their number in `files`. Waits of `threshold_ns` or more have
    /// slices.
    pub fn new(from: LatencyFrom, headers: &[&Header], files: &Files, threshold_ns: u64) -> Self {
        let boottime_offset_ns = match headers {
            [only] => only.boottime_offset_ns,
            // Times since 1970-01-01 UTC.
            _ => 0,
        };
        Self {
            from,
            timeline: Timeline::new(from),
            style: Style { files: files.clone(), ..Style::default() },
            trace_cpus: TraceCpus::new(headers, files),
            threshold_ns,
            boottime_offset_ns,
            unix_offset_ns: None,
            cpus: HashMap::default(),
            threads: HashMap::default(),
            tree: ProcessTree::default(),
            tracks: HashSet::default(),
            waits: 0,
        }
    }

    /// The first and the last CPU of each recording in the trace, if there are several.
    pub fn cpus(&self) -> impl Iterator<Item = (&FileName, u32, u32)> {
        let ranges = self.trace_cpus.of_recordings().into_iter();
        ranges.filter_map(|(file, from, to)| Some((self.style.files.get(u32::try_from(file).ok()?)?, from, to)))
    }

    /// Writes the description of the first machine. Must come first.
    pub fn begin(&self, header: &Header, out: &mut dyn Write) -> io::Result<()> {
        let machine = &header.machine;
        let utsname = Utsname {
            sysname: "Linux".to_owned(),
            version: machine.kernel_version.clone(),
            release: machine.kernel.clone(),
            machine: machine.architecture.clone(),
        };
        write(None, PacketData::SystemInfo(SystemInfo { utsname: Some(utsname) }), out)
    }

    /// Adds an event; `unix_offset_ns` is the offset from CLOCK_MONOTONIC to the Unix epoch then.
    pub fn event(
        &mut self,
        event: &Event,
        unix_offset_ns: i64,
        names: &dyn Names,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        // Times of several recordings do not change with the clock of one of them.
        let unix_offset_ns = if self.style.files.are_several() { 0 } else { unix_offset_ns };
        if self.unix_offset_ns.replace(unix_offset_ns) != Some(unix_offset_ns) {
            self.clocks(event.kind.at_ns(), unix_offset_ns, out)?;
        }
        self.follow(event, out)?;
        match &event.kind {
            EventKind::Switch(switch) => self.switch(event.cpu, switch, out)?,
            EventKind::Interrupt(interrupt) => self.interrupt(event.cpu, interrupt, out)?,
            EventKind::Migration(migration) => {
                let event = Tracepoint::SchedMigrateTask(SchedMigrateTask {
                    comm: Some(migration.comm.to_string()),
                    pid: Some(signed(migration.tid)),
                    prio: None,
                    orig_cpu: Some(signed(self.trace_cpus.number(migration.from_cpu))),
                    dest_cpu: Some(signed(self.trace_cpus.number(migration.to_cpu))),
                });
                self.push(migration.from_cpu, migration.at_ns, None, event, out)?;
            }
            EventKind::Wakeup(_) | EventKind::WorkItem(_) | EventKind::ForkExec(_) | EventKind::Stack(_) => {}
        }
        let (threshold_ns, boottime) = (self.threshold_ns, self.boottime());
        let Some(breakdown) = self.timeline.push(event) else { return Ok(()) };
        if breakdown.latency_ns >= threshold_ns {
            self.waits += 1;
            let shown = WaitNames { names, style: &self.style };
            slices::of_wait(breakdown, &mut self.tracks, &mut self.trace_cpus, &shown, &boottime, out)?;
        }
        Ok(())
    }

    /// Writes what is left. Must come last. Returns the number of waits that have slices.
    pub fn end(&mut self, out: &mut dyn Write) -> io::Result<u64> {
        let mut cpus: Vec<u32> = self.cpus.keys().copied().collect();
        cpus.sort_unstable();
        cpus.into_iter().try_for_each(|cpu| self.flush(cpu, out))?;
        Ok(self.waits)
    }

    /// Writes the clocks at a time of CLOCK_MONOTONIC.
    fn clocks(&self, at_ns: u64, unix_offset_ns: i64, out: &mut dyn Write) -> io::Result<()> {
        let boottime_ns = self.boottime()(at_ns);
        let clocks =
            [(BOOTTIME, boottime_ns), (MONOTONIC, at_ns), (REALTIME, at_ns.saturating_add_signed(unix_offset_ns))];
        let clocks = clocks.map(|(clock_id, timestamp)| Clock { clock_id, timestamp }).into();
        let snapshot = ClockSnapshot { clocks, primary_trace_clock: BOOTTIME };
        write(Some(boottime_ns), PacketData::ClockSnapshot(snapshot), out)
    }

    /// Converts a time of CLOCK_MONOTONIC to one of CLOCK_BOOTTIME.
    fn boottime(&self) -> impl Fn(u64) -> u64 + use<> {
        let offset_ns = self.boottime_offset_ns;
        move |at_ns| at_ns.saturating_add_signed(offset_ns)
    }

    /// Marks a loss before `event`.
    fn follow(&mut self, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        let cpu = self.cpus.entry(event.cpu).or_default();
        let mut last = cpu.seq.unwrap_or(event.seq.wrapping_sub(1));
        let lost = event.lost_since(&mut last);
        cpu.seq = Some(last);
        if lost > 0 {
            self.flush(event.cpu, out)?;
            self.cpus.entry(event.cpu).or_default().bundle.lost_events = true;
        }
        Ok(())
    }

    fn switch(&mut self, on: u32, switch: &SwitchEvent, out: &mut dyn Write) -> io::Result<()> {
        [&switch.prev, &switch.next].into_iter().for_each(|task| self.add_to_tree(task));
        if let Some(waited) = &switch.ended_wait {
            self.wakeup(waited, out)?;
        }
        let event = Tracepoint::SchedSwitch(SchedSwitch {
            prev_comm: Some(switch.prev.comm.to_string()),
            prev_pid: Some(signed(switch.prev.tid)),
            prev_prio: Some(switch.prev.prio),
            prev_state: Some(match switch.prev_state {
                PrevState::Runnable if switch.prev.tid == 0 => 0,
                PrevState::Runnable | PrevState::PreemptedSleeping => PREEMPTED,
                PrevState::Sleeping => SLEEPING,
                PrevState::Dead => DEAD,
            }),
            next_comm: Some(switch.next.comm.to_string()),
            next_pid: Some(signed(switch.next.tid)),
            next_prio: Some(switch.next.prio),
        });
        self.push(on, switch.at_ns, Some(switch.prev.tid), event, out)?;
        self.cpus.entry(on).or_default().tid = switch.next.tid;
        Ok(())
    }

    /// Adds the wakeup that a wait began with: a recording has it with the end of the wait.
    fn wakeup(&mut self, waited: &DetailedWait, out: &mut dyn Write) -> io::Result<()> {
        let wait = &waited.wait;
        let target = waited.cpu.unwrap_or(wait.cpu);
        let message = SchedWakeup {
            comm: Some(wait.comm.to_string()),
            pid: Some(signed(wait.tid)),
            prio: Some(wait.prio),
            success: None,
            target_cpu: Some(signed(self.trace_cpus.number(target))),
        };
        let start_ns = wait.at_ns.saturating_sub(wait.latency_ns);
        let delivery_ns = wait.delivery_ns.unwrap_or(0);
        let queued_ns = if self.from == LatencyFrom::Waking { start_ns.saturating_add(delivery_ns) } else { start_ns };
        // Perfetto begins the state Runnable with `sched_waking`, which therefore must not be missing: without a known
        // waker, it comes from the idle task.
        let (waker_cpu, waker) = (waited.waker_cpu.unwrap_or(target), wait.waker_tid.unwrap_or(0));
        match wait.class {
            Class::Preempted => Ok(()),
            Class::New => self.push(target, start_ns, Some(waker), Tracepoint::SchedWakeupNew(message), out),
            Class::Wakeup => {
                let waking = Tracepoint::SchedWaking(message.clone());
                self.push(waker_cpu, queued_ns.saturating_sub(delivery_ns), Some(waker), waking, out)?;
                let (on, by) = if waited.remote { (target, None) } else { (waker_cpu, Some(waker)) };
                self.push(on, queued_ns, by, Tracepoint::SchedWakeup(message), out)
            }
        }
    }

    fn interrupt(&mut self, cpu: u32, interrupt: &InterruptEvent, out: &mut dyn Write) -> io::Result<()> {
        let InterruptEvent { from_ns, to_ns, .. } = *interrupt;
        let (entry, exit) = match interrupt.source {
            InterruptSource::Irq { number, name } => (
                Tracepoint::IrqHandlerEntry(IrqHandlerEntry {
                    irq: Some(signed(own_number(number))),
                    name: Some(name.to_string()),
                }),
                Tracepoint::IrqHandlerExit(IrqHandlerExit { irq: Some(signed(own_number(number))), ret: Some(1) }),
            ),
            InterruptSource::Softirq(number) => {
                let vector = SoftirqVector { vec: Some(number) };
                (Tracepoint::SoftirqEntry(vector.clone()), Tracepoint::SoftirqExit(vector))
            }
            InterruptSource::Vector(_) => {
                let uuid = CPU_TRACKS | u64::from(self.trace_cpus.number(cpu));
                if self.tracks.insert(uuid) {
                    let file = self.style.files.of_cpu(cpu).map_or_else(String::new, |file| format!(" in {file}"));
                    let name = Some(format!("CPU {}{file}: its own interrupts", own_number(cpu)));
                    write(
                        None,
                        PacketData::TrackDescriptor(TrackDescriptor { uuid: Some(uuid), name, thread: None }),
                        out,
                    )?;
                }
                let boottime = self.boottime();
                slices::begin(
                    uuid,
                    boottime(from_ns),
                    "interrupt",
                    labels::interrupt(&interrupt.source, &self.style),
                    Vec::new(),
                    out,
                )?;
                return slices::end(uuid, boottime(to_ns), out);
            }
        };
        self.push(cpu, from_ns, None, entry, out)?;
        self.push(cpu, to_ns, None, exit, out)
    }

    /// Adds an event of `cpu`, on which `tid` ran; without, the current thread.
    fn push(
        &mut self,
        cpu: u32,
        at_ns: u64,
        tid: Option<u32>,
        event: Tracepoint,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let boottime_ns = self.boottime()(at_ns);
        let CpuEvents { bundle, tid: current, .. } = self.cpus.entry(cpu).or_default();
        let pid = Some(tid.unwrap_or(*current));
        bundle.event.push(FtraceEvent { timestamp: Some(boottime_ns), pid, event: Some(event) });
        if bundle.event.len() < BUNDLE { Ok(()) } else { self.flush(cpu, out) }
    }

    /// Writes the events of a CPU, after the names of their threads.
    fn flush(&mut self, cpu: u32, out: &mut dyn Write) -> io::Result<()> {
        if self.tree != ProcessTree::default() {
            write(None, PacketData::ProcessTree(std::mem::take(&mut self.tree)), out)?;
        }
        let Some(events) = self.cpus.get_mut(&cpu).filter(|events| !events.bundle.event.is_empty()) else {
            return Ok(());
        };
        let bundle = std::mem::take(&mut events.bundle);
        write(
            None,
            PacketData::FtraceEvents(FtraceEventBundle { cpu: Some(self.trace_cpus.number(cpu)), ..bundle }),
            out,
        )
    }

    fn add_to_tree(&mut self, task: &TaskInfo) {
        let known = self.threads.insert(task.tid, (task.pid, task.comm));
        if task.tid == 0 || known == Some((task.pid, task.comm)) {
            return;
        }
        let (name, tgid) = (thread_name(task, &self.style), signed(process(task)));
        if task.tid == process(task) {
            self.tree.processes.push(TreeProcess { pid: tgid, cmdline: vec![name.clone()], cmdline_is_comm: true });
        }
        self.tree.threads.push(TreeThread { tid: signed(task.tid), name, tgid });
    }
}

/// The process of a task. If it is unknown, the thread is a process of its own, not a thread of the idle task.
fn process(task: &TaskInfo) -> u32 {
    if task.pid == 0 { task.tid } else { task.pid }
}

/// The name of a thread, with its file if there are several.
fn thread_name(task: &TaskInfo, style: &Style) -> String {
    format!("{}{}", task.comm, in_file(task.tid, style))
}

/// The kernel's IDs and CPU numbers fit, and those of [`MAX_FILES`] recordings.
fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(-1)
}

/// Writes a packet as a field of `Trace`, whose only one it is: a trace is a sequence of these.
fn write(timestamp: Option<u64>, data: PacketData, out: &mut dyn Write) -> io::Result<()> {
    let packet = TracePacket { timestamp, trusted_packet_sequence_id: SEQUENCE, data: Some(data) };
    let mut bytes = Vec::new();
    prost::encoding::message::encode(1, &packet, &mut bytes);
    debug_assert!(bytes.len() > packet.encoded_len());
    out.write_all(&bytes)
}

#[cfg(test)]
mod tests;
