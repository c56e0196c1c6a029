//! A recording as a run: the waits of each interval by group, and their causes.

use std::io::{self, Write};

use crate::{
    collect::TimelineSettings,
    config::Config,
    session::{View, replay},
};
use wakelat_core::{
    aggregate::key::Names,
    compare::{
        causes::CauseSums,
        run::{ComparedRun, Conditions},
    },
    recording::{CollectedEvents, Header, Kept},
    report::Report,
    timeline::event::Event,
    why::NameCache,
};

/// Collects the waits of a recording.
pub struct RunView {
    run: ComparedRun,
    /// The events from which the causes of waits are found, if the recording has them.
    timeline: Option<TimelineSettings>,
    causes: CauseSums,
    names: NameCache,
    /// CPU time that measuring took, and that of all CPUs: ns.
    cost_ns: [u64; 2],
}

impl RunView {
    /// No waits yet of the recording with this header, as `config` selects them.
    pub fn new(name: String, header: &Header, config: &Config) -> Self {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let machine = &header.machine;
        let classes = wakelat_common::Class::ALL.into_iter().filter(|class| config.classes.contains(*class));
        let conditions = Conditions {
            host: known(&machine.host),
            kernel: format!("{} {}", machine.kernel, machine.kernel_version).trim().to_owned(),
            scheduler: known(&machine.scheduler),
            cpus: known(&machine.cpus_online),
            from: config.from.name().to_owned(),
            classes: Some(classes.map(|class| class.name().to_owned()).collect()),
            threshold_ns: config.threshold.as_ref().map(|threshold| threshold.threshold_ns),
            collected: (header.kept == Kept::Events).then(|| collected(header.collected)),
            ..Conditions::default()
        };
        Self {
            run: ComparedRun { name, conditions, ..ComparedRun::default() },
            timeline: (header.kept == Kept::Events).then(|| TimelineSettings::of(header.collected)),
            causes: CauseSums::new(&config.by, config.merged, config.from, replay::own_pids(&[header])),
            names: NameCache::of(config.output.files.clone()),
            cost_ns: [0; 2],
        }
    }

    /// The run, once all of it has been shown.
    pub fn into_run(mut self) -> ComparedRun {
        let [spent, of] = self.cost_ns;
        self.run.conditions.overhead = (of > 0).then(|| spent as f64 / of as f64);
        if self.timeline.is_some() {
            self.causes.add_to(&mut self.run, &self.names);
        }
        self.run
    }
}

/// The events that were collected, in words.
fn collected(events: CollectedEvents) -> String {
    let all = [
        (events.irq, "irq"),
        (events.idle, "idle"),
        (events.throttling, "throttling"),
        (events.workqueue, "workqueue"),
        (events.fork, "fork"),
    ];
    let names: Vec<&str> = all.into_iter().filter(|(is_collected, _)| *is_collected).map(|(_, name)| name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl View for RunView {
    fn shows_events(&self) -> Option<TimelineSettings> {
        self.timeline
    }

    fn event(&mut self, event: &Event, _: i64, names: &dyn Names, _: &mut dyn Write) -> io::Result<()> {
        self.names.learn(event, names);
        self.causes.push(event);
        Ok(())
    }

    fn warmed_up(&mut self, _: &mut dyn Write) -> io::Result<()> {
        self.causes.clear();
        Ok(())
    }

    fn report(&mut self, report: &Report, _: &mut dyn Write) -> io::Result<()> {
        self.run.add_interval(report);
        if let Some(overhead) = &report.overhead {
            self.cost_ns[0] += overhead.total_ns();
            self.cost_ns[1] += overhead.capacity_ns(report.duration_ns);
        }
        Ok(())
    }
}
