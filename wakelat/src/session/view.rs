//! The interface between a run and the command that shows its results.

use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
};

use tokio::{signal::unix::SignalKind, sync::Notify};

use super::writer::OutputWriter;
use crate::collect::{Collector, TimelineSettings};
use wakelat_core::{
    aggregate::{Groups, key::Names},
    recording::Frame,
    report::Report,
    terminal_input::TerminalInput,
    timeline::{decode::KnownSwitch, event::Event},
    wait::Wait,
    why::counted::{CauseGroups, CauseTotals},
};

/// Receives the results of a run, and shows them.
pub trait View {
    /// Whether the view shows single waits: if so, [`View::wait`] gets each as it ends.
    fn shows_waits(&self) -> bool {
        false
    }

    /// The events between waits that the view shows, if any: if so, [`View::event`] gets each. Waits then
    /// have to be aggregated in user space ([`wakelat_core::report::Mode::Samples`]).
    fn shows_events(&self) -> Option<TimelineSettings> {
        None
    }

    /// The groups by which the view shows causes of waits that the programs count, if it does: if so, [`View::causes`]
    /// gets them. Waits then have to be aggregated in the kernel ([`wakelat_core::report::Mode::Aggregate`]).
    fn shows_causes(&self) -> Option<CauseGroups> {
        None
    }

    /// Adds causes of waits that the programs have counted since the last call, also those of the warm-up. Called before
    /// the report of a window.
    fn causes(&mut self, _causes: CauseTotals, _names: &dyn Names) {}

    /// Whether waits need the cgroups of their tasks, also if they are not grouped by them.
    fn needs_cgroups(&self) -> bool {
        false
    }

    /// Whether the view shows the groups of single waits. Without an overhead limit, the reports of other views have none.
    fn shows_groups(&self) -> bool {
        true
    }

    /// Whether the view records the groups of each interval: if so, [`View::groups`] gets them, and reports have none. Each
    /// group then has the waits since the last report.
    fn takes_groups(&self) -> bool {
        false
    }

    /// Takes the waits since the last report, by group. Called before the report of a window.
    fn groups(&mut self, _groups: &Groups, _unix_offset_ns: i64, _names: &dyn Names) -> std::io::Result<()> {
        Ok(())
    }

    /// Whether the view shows how long the tasks of each group of a recording ran.
    fn shows_run_times(&self) -> bool {
        false
    }

    /// Whether each report covers everything since the start instead of only the last window.
    fn is_cumulative(&self) -> bool {
        false
    }

    /// Whether the view makes a recording. Then its times follow the wall clock if that is set during the run: a report and
    /// the events after it have the time of the clock at that report. A recording of events has the PID namespace of each
    /// thread that waits.
    fn makes_recording(&self) -> bool {
        false
    }

    /// Whether the view needs a report at the end of an interval, if each report covers everything since the start.
    fn is_report_due(&self) -> bool {
        true
    }

    /// Notifies the run that the view needs a report before the end of the interval, if the view can.
    fn report_requests(&self) -> Option<Arc<Notify>> {
        None
    }

    /// Whether the view accepts connections on a socket that it has opened before the run.
    fn accepts_connections(&self) -> bool {
        false
    }

    /// The directories below which the view reads files while it measures.
    fn reads_below(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The directories in which the view creates, renames and removes files while it measures.
    fn writes_in(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Whether the view starts programs while it measures.
    fn starts_programs(&self) -> bool {
        false
    }

    /// The signal that is a request to the view, if there is one: [`View::request`].
    fn request_signal(&self) -> Option<SignalKind> {
        None
    }

    /// Carries out a request by [`View::request_signal`].
    fn request(&mut self) {}

    /// CPU time (ns) of threads that no overhead limit applies to, if there are any.
    fn unlimited_cpu_ns(&self) -> Option<Arc<AtomicU64>> {
        None
    }

    /// The TCP ports that the view connects to while it measures.
    fn connects_to(&self) -> Vec<u16> {
        Vec::new()
    }

    /// Whether the view draws on the whole terminal and handles its keys: then standard input and the view's output are
    /// a terminal.
    fn is_interactive(&self) -> bool {
        false
    }

    /// Handles input from the terminal. Returns what the run has to do.
    fn input(&mut self, _input: TerminalInput) -> InputAction {
        InputAction::Nothing
    }

    /// Whether the view shows something new, besides the result of an input or a report.
    fn has_news(&mut self) -> bool {
        false
    }

    /// Saved input has been read to this part: percent.
    fn reading(&mut self, _percent: u128) {}

    /// Draws the screen: writes what has changed on the terminal since the last call.
    fn draw(&mut self, _frame: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// The screen has been closed: writes what stays on the terminal.
    fn closed(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// The output on which the view draws, if it is not that of the run.
    fn own_output(&mut self) -> Option<&mut OutputWriter> {
        None
    }

    /// Called when the view has got all events so far, except the last few that are not settled.
    fn caught_up(&mut self) {}

    /// Whether the run has to end, because the view needs nothing more.
    fn is_satisfied(&mut self) -> bool {
        false
    }

    /// Whether an output of the view's own is blocked: it gets no further waits and events, which count as not written.
    fn is_full(&self) -> bool {
        false
    }

    /// Takes a frame of a recording that says what is on a stack, or what became of the stacks: before the events with it,
    /// and before the report.
    fn recorded_stacks(&mut self, _frame: &Frame<'_>) {}

    /// Called when the programs are loaded and not attached yet.
    fn loaded(&mut self, _collector: &mut Collector) {}

    /// Called before all other output.
    fn begin(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// Called when the programs have begun to measure. `report` has no time and no waits yet.
    fn started(&mut self, _report: &Report, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// Shows a wait.
    fn wait(
        &mut self,
        _wait: &Wait,
        _unix_offset_ns: i64,
        _names: &dyn Names,
        _out: &mut dyn Write,
    ) -> std::io::Result<()> {
        Ok(())
    }

    /// Shows an event; events arrive in the order of their CPU. Events of the warm-up are included, because
    /// later ones depend on them, but without the waits that ended in it; [`View::warmed_up`] comes between.
    /// If [`View::shows_waits`], a wait is passed to [`View::wait`] before its event.
    fn event(
        &mut self,
        _event: &Event,
        _unix_offset_ns: i64,
        _names: &dyn Names,
        _out: &mut dyn Write,
    ) -> std::io::Result<()> {
        Ok(())
    }

    /// Offers a switch between tasks that earlier events describe, before it is decoded. If the view returns true, it has
    /// taken the switch, and [`View::event`] does not get it. Switches of the warm-up are not offered.
    fn known_switch(&mut self, _known: &KnownSwitch<'_>, _unix_offset_ns: i64) -> bool {
        false
    }

    /// Called when the warm-up has ended: the events so far are only the history of later ones.
    ///
    /// # Errors
    /// If `out` cannot be written, or the counts so far cannot be read.
    fn warmed_up(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// Called when the last window has ended; its report follows when the ring buffer is empty.
    fn ended(&mut self) {}

    /// Adds data to a report that only this view shows. Called as soon as the window has ended, before
    /// [`View::report`].
    fn complete(&mut self, _report: &mut Report) {}

    /// Shows the report of a window that has ended.
    fn report(&mut self, report: &Report, out: &mut dyn Write) -> std::io::Result<()>;
}

/// What the run does after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputAction {
    /// Nothing.
    Nothing,
    /// Draw the screen.
    Redraw,
    /// Report now instead of at the end of the interval.
    Report,
    /// End the run.
    Quit,
}
