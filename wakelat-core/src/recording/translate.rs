//! Frames of one of several recordings: with IDs that no other recording has, and times of the Unix epoch.

use std::borrow::Cow;

use super::{Frame, histograms::Longest};
use crate::{
    aggregate::{RecordedKey, key::KeyValues},
    files::{FileIds, number_of_cpu},
    report::Report,
    timeline::{
        event::{
            DetailedWait, Event, EventKind, ForkExecEvent, InterruptEvent, InterruptSource, MigrationEvent,
            SwitchEvent, TaskInfo, WakeupEvent, WorkItemEvent,
        },
        stack_event::{StackEvent, StackId},
    },
    wait::Wait,
};

/// Translates the frames of one recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Translation {
    pub ids: FileIds,
    /// What is added to times of CLOCK_MONOTONIC: ns.
    pub shift_ns: i64,
}

impl Translation {
    /// Translates the IDs and times in a frame.
    pub fn frame(self, frame: &mut Frame<'_>) {
        match frame {
            Frame::Cgroup { id, .. } => *id = self.ids.cgroup(*id),
            Frame::Task { tid, .. } | Frame::Namespace { tid, .. } => *tid = self.ids.tid(*tid),
            Frame::Function { address, name } => {
                // Where there is no name, the address is shown: that of the machine.
                name.get_or_insert_with(|| Cow::Owned(format!("{address:#x}")));
                *address = self.ids.address(*address);
            }
            Frame::Event(event) => self.event(event.to_mut()),
            Frame::Wait(wait) => self.wait(wait.to_mut()),
            Frame::Group { number, key } => {
                *number = self.ids.number(*number);
                if let RecordedKey::Values(values) = key {
                    self.key_values(values);
                }
            }
            Frame::Histograms(histograms) => histograms.iter_mut().for_each(|histogram| {
                histogram.group = self.ids.number(histogram.group);
                if let Some(Longest { at_ns, tid, cpu }) = &mut histogram.longest {
                    self.time(at_ns);
                    (*tid, *cpu) = (self.ids.tid(*tid), self.ids.number(*cpu));
                }
            }),
            Frame::Reading(report) | Frame::End(report) => self.report(report),
            // A user stack has the process's ID, which no other recording has.
            Frame::Stack { process: Some(process), .. } => *process = self.ids.tid(*process),
            Frame::Stack { process: None, id, .. } => *id = self.ids.stack(*id),
            Frame::Header(_) | Frame::UnixOffset(_) | Frame::WarmedUp | Frame::Start(_) | Frame::StackCounts(_) => {}
        }
    }

    fn key_values(self, values: &mut KeyValues) {
        let KeyValues { class: _, tid, pid, comm: _, cgroup_id, cpu, file } = values;
        (*tid, *pid) = (self.ids.tid(*tid), self.ids.tid(*pid));
        (*cgroup_id, *cpu) = (self.ids.cgroup(*cgroup_id), self.ids.number(*cpu));
        *file = number_of_cpu(*cpu);
    }

    fn report(self, report: &mut Report) {
        report.unix_offset_ns = report.unix_offset_ns.saturating_sub(self.shift_ns);
        if let Some(oldest) = &mut report.coverage.oldest_waiting {
            (oldest.tid, oldest.cpu) = (self.ids.tid(oldest.tid), self.ids.number(oldest.cpu));
            self.time(&mut oldest.at_ns);
        }
    }

    fn event(self, event: &mut Event) {
        event.cpu = self.ids.number(event.cpu);
        match &mut event.kind {
            EventKind::Switch(switch) => self.switch(switch),
            EventKind::Interrupt(InterruptEvent { source, from_ns, to_ns }) => {
                if let InterruptSource::Irq { number, .. } = source {
                    *number = self.ids.number(*number);
                }
                self.time(from_ns);
                self.time(to_ns);
            }
            EventKind::Migration(MigrationEvent { at_ns, tid, comm: _, waiting: _, from_cpu, to_cpu }) => {
                self.time(at_ns);
                *tid = self.ids.tid(*tid);
                (*from_cpu, *to_cpu) = (self.ids.number(*from_cpu), self.ids.number(*to_cpu));
            }
            EventKind::Wakeup(WakeupEvent { at_ns, tid, comm: _, new: _, running: _, target_cpu, waker_tid }) => {
                self.time(at_ns);
                (*tid, *waker_tid) = (self.ids.tid(*tid), self.ids.tid(*waker_tid));
                *target_cpu = self.ids.number(*target_cpu);
            }
            EventKind::WorkItem(WorkItemEvent { at_ns, tid, function }) => {
                self.time(at_ns);
                *tid = self.ids.tid(*tid);
                *function = function.map(|address| self.ids.address(address));
            }
            EventKind::ForkExec(ForkExecEvent { at_ns, tid, comm: _, child }) => {
                self.time(at_ns);
                *tid = self.ids.tid(*tid);
                *child = child.map(|tid| self.ids.tid(tid));
            }
            EventKind::Stack(StackEvent { at_ns, role: _, tid, by_tid, by_pid, kernel, user: _ }) => {
                self.time(at_ns);
                if let StackId::Id(id) = kernel {
                    *id = self.ids.stack(*id);
                }
                (*tid, *by_tid, *by_pid) = (self.ids.tid(*tid), self.ids.tid(*by_tid), self.ids.tid(*by_pid));
            }
        }
    }

    fn switch(self, switch: &mut SwitchEvent) {
        let SwitchEvent { at_ns, prev, unseen, prev_state: _, next, ended_wait, idle_state: _, rt_throttled: _ } =
            switch;
        self.time(at_ns);
        unseen.iter_mut().filter_map(|unseen| unseen.switched_in_ns.as_mut()).for_each(|at_ns| self.time(at_ns));
        for TaskInfo { tid, pid, cgroup_id, .. } in [prev, next] {
            (*tid, *pid) = (self.ids.tid(*tid), self.ids.tid(*pid));
            *cgroup_id = cgroup_id.map(|id| self.ids.cgroup(id));
        }
        let Some(DetailedWait { wait, cpu, waker_cpu, .. }) = ended_wait else { return };
        [cpu, waker_cpu].into_iter().flatten().for_each(|cpu| *cpu = self.ids.number(*cpu));
        self.wait(wait);
    }

    fn wait(self, wait: &mut Wait) {
        let Wait { at_ns, tid, pid, cgroup_id, cpu, prev_cpu, waker_tid, prev_tid, .. } = wait;
        self.time(at_ns);
        for tid in [tid, pid, prev_tid].into_iter().chain(waker_tid) {
            *tid = self.ids.tid(*tid);
        }
        for cpu in [cpu].into_iter().chain(prev_cpu) {
            *cpu = self.ids.number(*cpu);
        }
        *cgroup_id = cgroup_id.map(|id| self.ids.cgroup(id));
    }

    fn time(self, at_ns: &mut u64) {
        *at_ns = at_ns.saturating_add_signed(self.shift_ns);
    }
}
