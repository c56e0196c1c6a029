//! `why --mode aggregate`: shows the causes of waits that the programs have counted.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use anyhow::Result;

use super::{measurement::measure, terminal_style::style};
use crate::{
    collect::Collector,
    config::Config,
    session::{StopReason, View},
};
use wakelat_core::{
    aggregate::key::Names,
    render::{OutputFormat, Style},
    report::Report,
    wait::Comm,
    why::{
        counted::{
            CauseGroups, CauseTotals,
            summary::{CountedCause, GroupNames, SummaryLimits},
        },
        render,
    },
};

/// `why --mode aggregate`: shows the causes of waits by `groups`, once or per interval.
///
/// # Errors
/// Errors of [`crate::session::run`].
pub fn why_counted(config: &Config, groups: CauseGroups) -> Result<StopReason> {
    let (style, _) = style(&config.output);
    let mut view = CountedView {
        groups,
        max_groups: config.max_groups,
        totals: CauseTotals::default(),
        paths: CgroupPaths::default(),
        not_separated: Vec::new(),
        json: config.output.format == OutputFormat::Json,
        style,
    };
    measure(config, &mut view)
}

/// Adds up the causes of a window, and shows them.
struct CountedView {
    groups: CauseGroups,
    max_groups: usize,
    totals: CauseTotals,
    paths: CgroupPaths,
    /// Causes that this kernel does not count, in words.
    not_separated: Vec<CountedCause>,
    json: bool,
    style: Style,
}

/// The paths of cgroups, as they were when the causes arrived.
#[derive(Default)]
struct CgroupPaths(HashMap<u64, String>);

impl Names for CgroupPaths {
    fn cgroup(&self, id: u64) -> String {
        self.0.get(&id).cloned().unwrap_or_else(|| format!("(cgroup {id})"))
    }

    fn comm(&self, _: u32) -> Option<Comm> {
        None
    }
}

impl View for CountedView {
    fn shows_causes(&self) -> Option<CauseGroups> {
        Some(self.groups)
    }

    fn loaded(&mut self, collector: &mut Collector) {
        self.not_separated = collector.causes_not_separated();
    }

    fn causes(&mut self, causes: CauseTotals, names: &dyn Names) {
        if self.groups != CauseGroups::Names {
            for [id, _] in causes.groups() {
                self.paths.0.entry(id).or_insert_with(|| names.cgroup(id));
            }
        }
        self.totals.merge(&causes);
    }

    fn warmed_up(&mut self, _: &mut dyn Write) -> io::Result<()> {
        self.totals = CauseTotals::default();
        Ok(())
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let names = GroupNames { by: self.groups, names: &self.paths };
        let totals = std::mem::take(&mut self.totals);
        let summary = totals.into_summary(&names, SummaryLimits::groups(self.max_groups), &self.not_separated);
        let written = if self.json {
            render::counted_json(&summary, report, out)
        } else {
            out.write_all(render::counted_text(&summary, report, "--max-groups", &self.style).as_bytes())
        };
        // Cgroups come and go: those of the next window come with its causes.
        self.paths = CgroupPaths::default();
        written
    }
}
