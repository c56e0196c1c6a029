//! Places the trigger recipe in a tracefs instance of wakelat's own, and switches its counting on and off.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::{evaluation::TriggerCounts, side::SideCounts, window::TimeBracket};
use crate::session::clock::monotonic_ns;
use wakelat_tracefs::{
    Instance, Owner, TracefsMount,
    hist_trigger::{
        TriggerHistogram,
        parse::{self, Completeness},
        wakeup_latency::{EventTrigger, TriggerRecipe},
    },
};

/// Maximum number of bytes that a `trigger` file accepts in one write (`event_trigger_regex_write`,
/// kernel/trace/trace_events_trigger.c: less than a page).
const LONGEST: usize = 4095;

/// Placed triggers; removed on drop.
pub struct PlacedTriggers {
    instance: Instance,
    placed: [EventTrigger; 3],
    /// When the trigger at the start of waits was placed.
    pub starts_on: TimeBracket,
    /// When the trigger at the end of waits was placed.
    pub ends_on: TimeBracket,
}

impl PlacedTriggers {
    /// Checks that the kernel accepts triggers of this length.
    ///
    /// # Errors
    /// If the filter is too long.
    pub fn check(recipe: &TriggerRecipe) -> Result<()> {
        let longest = recipe.triggers().iter().map(|placed| placed.trigger.len()).max().unwrap_or(0);
        // A trigger grows by `!` for its removal and by `:pause`.
        if longest + "!:pause\n".len() > LONGEST {
            bail!(
                "the filter needs `{longest}` characters in a trigger, and the kernel's limit is {LONGEST}; select fewer threads, \
                 or select by `--comm`"
            );
        }
        Ok(())
    }

    /// Places the triggers; the last one, which counts, is paused.
    ///
    /// # Errors
    /// If the instance or the event already exists, or the kernel refuses a trigger. Then nothing is left
    /// in tracefs.
    pub fn place(tracefs: &TracefsMount, owner: &Owner, recipe: &TriggerRecipe) -> Result<Self> {
        let mut instance = Instance::create(tracefs, owner)?;
        instance.add_synthetic_event(&recipe.synthetic_event())?;
        let placed = recipe.triggers();
        let [start, end, count] = placed.clone();
        let (starts_on, ()) = TimeBracket::of(monotonic_ns, || instance.add_trigger(start))?;
        let (ends_on, ()) = TimeBracket::of(monotonic_ns, || instance.add_trigger(end))?;
        instance.add_trigger(EventTrigger { trigger: with(&count.trigger, "pause"), ..count })?;
        Ok(Self { instance, placed, starts_on, ends_on })
    }

    /// Starts counting; returns when.
    pub fn begin(&self) -> Result<TimeBracket> {
        self.switch("cont")
    }

    /// Stops counting; returns when.
    pub fn end(&self) -> Result<TimeBracket> {
        self.switch("pause")
    }

    fn switch(&self, word: &str) -> Result<TimeBracket> {
        let EventTrigger { event, trigger } = &self.placed[2];
        let (file, line) = (format!("events/{event}/trigger"), with(trigger, word));
        let (moment, ()) = TimeBracket::of(monotonic_ns, || self.instance.write(&file, &line))?;
        Ok(moment)
    }

    /// Reads the counts of all three triggers.
    ///
    /// # Errors
    /// If the kernel's histograms cannot be read, or do not have the expected keys and totals.
    pub fn counted(&self) -> Result<TriggerCounts> {
        let mut counted = TriggerCounts::default();
        for (index, placed) in self.placed.iter().enumerate() {
            let histogram = self.histogram(&placed.event)?;
            let totals = histogram.totals.context("the kernel's histogram has no totals")?;
            counted.tables[index] = totals;
            if index == 2 {
                counted.side =
                    SideCounts::of(&histogram).context("the kernel's histogram has other keys than expected")?;
            }
        }
        counted.side.totals.dropped = counted.tables.iter().map(|table| table.dropped).sum();
        Ok(counted)
    }

    fn histogram(&self, event: &str) -> Result<TriggerHistogram> {
        let file = format!("events/{event}/hist");
        let text = self.instance.read(&file)?;
        let histograms = parse::parse(text.as_bytes(), Completeness::Whole)
            .with_context(|| self.instance.file(&file).display().to_string())?;
        match <[TriggerHistogram; 1]>::try_from(histograms) {
            Ok([histogram]) => Ok(histogram),
            Err(several) => bail!("`{}` has {} histograms, expected one", Path::new(&file).display(), several.len()),
        }
    }

    /// Removes the triggers, the event and the instance.
    pub fn close(mut self) -> Result<()> {
        Ok(self.instance.close()?)
    }
}

/// Inserts an attribute into a trigger, before its filter.
fn with(trigger: &str, attribute: &str) -> String {
    match trigger.split_once(" if ") {
        Some((head, filter)) => format!("{head}:{attribute} if {filter}"),
        None => format!("{trigger}:{attribute}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_precedes_the_filter() {
        assert_eq!(with("hist:keys=a:sort=a", "cont"), "hist:keys=a:sort=a:cont");
        assert_eq!(with("hist:keys=a if b == 1", "pause"), "hist:keys=a:pause if b == 1");
    }
}
