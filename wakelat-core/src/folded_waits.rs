//! Waits as folded stacks, for flame graphs: cgroup, task, component and culprit instead of functions. Pure.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use crate::{
    aggregate::key::Names,
    render::Style,
    timeline::{Breakdown, component::Actor},
    why::render::labels,
};

/// Maximum number of distinct lines; the time of further ones goes into one line.
const MAX_LINES: usize = 1 << 16;

/// The time that tasks waited, by cgroup, name, component and culprit.
#[derive(Debug, Default)]
pub struct FoldedWaits {
    sums: BTreeMap<String, u128>,
    others_ns: u128,
}

impl FoldedWaits {
    /// Adds a wait.
    pub fn add(&mut self, breakdown: &Breakdown, names: &dyn Names) {
        let waiter = &breakdown.waiter;
        let cgroup = waiter.cgroup_id.map_or("(unknown)".to_owned(), |id| names.cgroup(id));
        for share in &breakdown.shares {
            let culprit = &share.culprit;
            let cgroups = labels::cgroup_of(&culprit.actor, names);
            let actor = match culprit.actor {
                // Threads of the same name share a frame.
                Actor::Task(task) => task.comm.to_string(),
                actor => labels::actor(&actor, &cgroups, &Style::default()),
            };
            let frames = [&cgroup, &waiter.comm.to_string(), culprit.component.name(), &actor].map(frame);
            let line = frames.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(";");
            if self.sums.len() < MAX_LINES || self.sums.contains_key(&line) {
                *self.sums.entry(line).or_default() += u128::from(share.ns);
            } else {
                self.others_ns += u128::from(share.ns);
            }
        }
    }

    /// Writes a line for each stack: frames from the outermost to the innermost, separated by `;`, and the ns that tasks
    /// waited. The lines add up to all waits.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.sums.iter().try_for_each(|(line, ns)| writeln!(out, "{line} {ns}"))?;
        if self.others_ns > 0 { writeln!(out, "(other) {}", self.others_ns) } else { Ok(()) }
    }
}

/// A name without the characters that separate frames and lines.
fn frame(name: &str) -> String {
    name.replace([';', '\n'], ":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::LatencyFrom,
        timeline::Timeline,
        why::testing::{TestNames, stories},
    };

    #[test]
    fn the_lines_add_up_to_all_waits() {
        for (name, stream) in stories() {
            let (mut folded, mut timeline, mut total) = (FoldedWaits::default(), Timeline::new(LatencyFrom::Waking), 0);
            for event in &stream.events {
                if let Some(breakdown) = timeline.push(event) {
                    total += u128::from(breakdown.latency_ns);
                    folded.add(breakdown, &TestNames);
                }
            }
            let mut text = Vec::new();
            folded.write(&mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let sum: u128 = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u128>().unwrap()).sum();
            assert!(total > 0 && sum == total, "{name}: {text}");
            assert!(text.lines().all(|line| (3..=4).contains(&line.split(';').count())), "{name}: {text}");
        }
    }

    #[test]
    fn a_name_is_one_frame_whatever_it_contains() {
        assert_eq!(frame("a;b\nc"), "a:b:c");
    }
}
