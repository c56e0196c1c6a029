//! What a command shows of a run.

use std::io::Write;

use crate::{
    aggregate::key::Names,
    collect::{Collector, Timeline},
    report::Report,
    timeline::event::Event,
    wait::Wait,
};

/// What a command shows of a run.
pub trait View {
    /// Whether it shows single waits: then they are given as they come.
    fn shows_waits(&self) -> bool {
        false
    }

    /// What it shows of the course of events on each CPU, if anything: then that is given as it comes. Waits have to be
    /// counted in user space ([`crate::report::Mode::Samples`]).
    fn shows_events(&self) -> Option<Timeline> {
        None
    }

    /// Whether each report covers all since the start, and not only what is new.
    fn is_cumulative(&self) -> bool {
        false
    }

    /// Whether it takes keys, where a terminal gives them, and has to know of a new size of the terminal.
    fn takes_input(&self) -> bool {
        false
    }

    /// Something came from the terminal. Returns what is to happen.
    fn input(&mut self, _input: Input) -> Answer {
        Answer::Nothing
    }

    /// The programs are loaded, and not attached yet.
    fn loaded(&mut self, _collector: &mut Collector) {}

    /// Before anything else.
    ///
    /// # Errors
    /// Those of `out`.
    fn begin(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// One wait.
    ///
    /// # Errors
    /// Those of `out`.
    fn wait(
        &mut self,
        _wait: &Wait,
        _unix_offset_ns: i64,
        _names: &dyn Names,
        _out: &mut dyn Write,
    ) -> std::io::Result<()> {
        Ok(())
    }

    /// One event, in the order of its CPU. Those of the warm-up come, too, for what they tell of what comes after it, but
    /// without the waits that ended in it; [`View::warmed_up`] stands between. Where [`View::shows_waits`], a wait was given
    /// to [`View::wait`] before its event.
    ///
    /// # Errors
    /// Those of `out`.
    fn event(
        &mut self,
        _event: &Event,
        _unix_offset_ns: i64,
        _names: &dyn Names,
        _out: &mut dyn Write,
    ) -> std::io::Result<()> {
        Ok(())
    }

    /// The warm-up has ended: what came so far is only the past of what comes.
    ///
    /// # Errors
    /// Those of `out`, and where what was counted so far cannot be read.
    fn warmed_up(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// The last window has ended now; its report comes when the ring buffer is empty.
    fn ended(&mut self) {}

    /// Adds to a report what only this view shows. It comes as soon as the window has ended, before [`View::report`].
    fn complete(&mut self, _report: &mut Report) {}

    /// A window has ended.
    ///
    /// # Errors
    /// Those of `out`.
    fn report(&mut self, report: &Report, out: &mut dyn Write) -> std::io::Result<()>;
}

/// What comes from a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A key.
    Key(u8),
    /// It has another size.
    Resized,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    Nothing,
    /// A report now, in place of at the end of the interval.
    Report,
    /// The end of the run.
    Quit,
}
