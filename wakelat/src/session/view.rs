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
    /// counted in user space ([`Mode::Samples`]).
    fn shows_events(&self) -> Option<Timeline> {
        None
    }

    /// Whether each report covers all since the start, and not only what is new.
    fn is_cumulative(&self) -> bool {
        false
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

    /// A window has ended.
    ///
    /// # Errors
    /// Those of `out`.
    fn report(&mut self, report: &Report, out: &mut dyn Write) -> std::io::Result<()>;
}
