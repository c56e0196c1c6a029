//! `why`: where the time of waits went.

use std::io::{self, Write};

use anyhow::Result;

use super::{run, stacks::Stacks, style};
use crate::{
    aggregate::key::Names,
    collect::{Collector, Timeline},
    config::{self, Config},
    report::Report,
    session::{Stop, View, output::Output},
    sink::{self, Style},
    timeline::{event::Event, stack::Role},
    why,
};

/// `why`: where the time of waits went.
///
/// # Errors
/// Those of [`crate::session::run`], and where the file of folded stacks cannot be written.
pub fn why(config: &Config, why: &config::Why) -> Result<Stop> {
    let (style, _) = style(&config.output);
    let mut folded = why.folded.as_deref().map(|path| Output::open(Some(path))).transpose()?;
    let untold =
        [(why.noise, "interrupts and softirqs"), (why.idle, "C-states"), (why.quota, "throttling and stolen time")];
    let roles = [(why.waker_stacks, Role::Waker), (why.wakee_stacks, Role::Wakee)];
    let roles: Vec<Role> = roles.into_iter().filter(|(told, _)| *told).map(|(_, role)| role).collect();
    let rules = why::Rules {
        from: config.from,
        by: config.by.clone(),
        merged: config.merged,
        max_groups: config.max_groups,
        worst: why.worst,
        untold: untold.into_iter().filter(|(told, _)| !told).map(|(_, what)| what).collect(),
        stacks: roles.clone(),
    };
    let timeline = Timeline {
        noise: why.noise,
        idle: why.idle,
        clocks: why.quota,
        works: why.works,
        forks: why.forks,
        stacks: roles.iter().fold(0, |roles, role| roles | role.bit()),
        cgroups: true,
        ..Timeline::OF_WAITS
    };
    let mut summing = why::Summing::new(rules);
    if folded.is_some() {
        summing.fold();
    }
    let json = config.output.format == sink::Format::Json;
    let mut view = Why { timeline, summing, known: why::Known::default(), stacks: None, json, style };
    let stop = run(config, &mut view)?;
    if let (Some(output), Some(folded), Some(stacks)) = (&mut folded, view.summing.folded(), &view.stacks) {
        output.write(|out| folded.write(&roles, stacks, &view.known, out))?;
    }
    Ok(stop)
}

struct Why {
    timeline: Timeline,
    summing: why::Summing,
    known: why::Known,
    /// Where stacks are asked for, and the programs are loaded.
    stacks: Option<Stacks>,
    json: bool,
    style: Style,
}

impl View for Why {
    fn shows_events(&self) -> Option<Timeline> {
        Some(self.timeline)
    }

    fn loaded(&mut self, collector: &mut Collector) {
        self.stacks = collector.take_stacks().map(Stacks::new);
    }

    fn event(&mut self, event: &Event, _: i64, names: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        self.known.learn(event, names);
        let longest = self.summing.push(event, &self.known);
        if let (Some(pair), Some(stacks)) = (longest, &mut self.stacks) {
            stacks.note(&pair);
        }
        Ok(())
    }

    fn warmed_up(&mut self) -> io::Result<()> {
        self.summing.begin();
        self.stacks.as_mut().map_or(Ok(()), |stacks| stacks.counts().map(drop))
    }

    fn report(&mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let mut summary = self.summing.summary(report.duration_ns, &self.known);
        if let Some(stacks) = &mut self.stacks {
            let counts = stacks.counts()?;
            summary.stacks = Some(self.summing.stacks(counts, stacks, &self.known));
        }
        self.summing.begin();
        if self.json {
            return why::sink::json(&summary, report, out);
        }
        out.write_all(why::sink::text(&summary, report, &self.style).as_bytes())
    }
}
