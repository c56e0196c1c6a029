//! The trigger recipe in an instance of wakelat's own, with the counting switched on and off.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::{judge::TriggerCounts, side::SideCounts, window::TimeBracket};
use crate::{
    hist_trigger::{
        TriggerHistogram,
        parse::{self, Completeness},
        recipe::{EventTrigger, TriggerRecipe},
    },
    session::clock::monotonic_ns,
    tracefs::{Instance, Owner, TracefsMount},
};

/// Bytes that a `trigger` file takes at once (`event_trigger_regex_write`, kernel/trace/trace_events_trigger.c: less than
/// a page).
const LONGEST: usize = 4095;

/// Triggers in place. They go when this does.
pub struct PlacedTriggers {
    instance: Instance,
    placed: [EventTrigger; 3],
    /// When the first two began to work.
    pub starts_on: TimeBracket,
    /// As above, for ends.
    pub ends_on: TimeBracket,
}

impl PlacedTriggers {
    /// Whether the kernel would take the recipe's triggers at all.
    ///
    /// # Errors
    /// Where the filter is too long.
    pub fn check(recipe: &TriggerRecipe) -> Result<()> {
        let longest = recipe.triggers().iter().map(|placed| placed.trigger.len()).max().unwrap_or(0);
        // What is added to it for removal and for pausing.
        if longest + "!:pause\n".len() > LONGEST {
            bail!(
                "the filter takes `{longest}` characters as a trigger, and the kernel takes {LONGEST}; name fewer threads, \
                 or select by `--comm`"
            );
        }
        Ok(())
    }

    /// Places the triggers, the last one paused.
    ///
    /// # Errors
    /// Where the instance or the event is there already, or the kernel refuses something. Nothing stays behind.
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

    /// Counts from now on.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn begin(&self) -> Result<TimeBracket> {
        self.switch("cont")
    }

    /// Counts no more.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn end(&self) -> Result<TimeBracket> {
        self.switch("pause")
    }

    fn switch(&self, word: &str) -> Result<TimeBracket> {
        let EventTrigger { event, trigger } = &self.placed[2];
        let (file, line) = (format!("events/{event}/trigger"), with(trigger, word));
        let (moment, ()) = TimeBracket::of(monotonic_ns, || self.instance.write(&file, &line))?;
        Ok(moment)
    }

    /// What was counted.
    ///
    /// # Errors
    /// Where the kernel's histograms cannot be read, or are not what they should be.
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

    /// Takes everything away.
    ///
    /// # Errors
    /// Where something would not go.
    pub fn close(mut self) -> Result<()> {
        Ok(self.instance.close()?)
    }
}

/// A trigger with one more attribute, before its filter.
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
    fn an_attribute_stands_before_the_filter() {
        assert_eq!(with("hist:keys=a:sort=a", "cont"), "hist:keys=a:sort=a:cont");
        assert_eq!(with("hist:keys=a if b == 1", "pause"), "hist:keys=a:pause if b == 1");
    }
}
