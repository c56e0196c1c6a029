//! The causes of the waits of a run, by group: what they are compared by is their names.

use super::run::{ComparedRun, GroupName};
use crate::{
    aggregate::{
        key::{GroupKey, Key, Names},
        space_saving::SpaceSaving,
    },
    hash::HashMap,
    render::Style,
    report::LatencyFrom,
    timeline::{Timeline, component::Component, event::Event},
    why::{
        causes::{Cause, CauseName},
        render::labels,
        sums::TimeSum,
    },
};

/// Maximum number of pairs of a group and a cause, and of groups.
const MAX_PAIRS: usize = 65_536;

/// The causes of the waits of a run that has not ended.
#[derive(Debug)]
pub struct CauseSums {
    by: Vec<Key>,
    merged: bool,
    own_pids: Vec<u32>,
    timeline: Timeline,
    sums: SpaceSaving<(GroupKey, Cause), TimeSum>,
    migrated: HashMap<GroupKey, u64>,
}

impl CauseSums {
    /// No waits yet, by these keys. Tasks of the processes `own_pids` are wakelat itself.
    pub fn new(by: &[Key], merged: bool, from: LatencyFrom, own_pids: Vec<u32>) -> Self {
        Self {
            by: by.to_vec(),
            merged,
            own_pids,
            timeline: Timeline::new(from),
            sums: SpaceSaving::default(),
            migrated: HashMap::default(),
        }
    }

    /// Adds an event.
    pub fn push(&mut self, event: &Event) {
        let Some(breakdown) = self.timeline.push(event) else { return };
        let key = GroupKey::new(&breakdown.ended_wait.wait, &self.by, self.merged);
        for share in &breakdown.shares {
            let cause = Cause::of(&share.culprit, &self.own_pids);
            self.sums.entry((key, cause), TimeSum::default).add(share.ns);
        }
        self.sums.evict_above(MAX_PAIRS, |_, _| ());
        if breakdown.ended_wait.migrations > 0 && (self.migrated.len() < MAX_PAIRS || self.migrated.contains_key(&key))
        {
            *self.migrated.entry(key).or_default() += 1;
        }
    }

    /// Forgets the waits so far: the warm-up has ended.
    pub fn clear(&mut self) {
        self.sums.clear();
        self.migrated.clear();
    }

    /// Adds the causes to the groups of `run`, which has the waits.
    pub fn add_to(&self, run: &mut ComparedRun, names: &dyn Names) {
        run.has_causes = true;
        run.groups.values_mut().for_each(|group| group.migrated = Some(0));
        let mut of_keys: HashMap<GroupKey, [GroupName; 2]> = HashMap::default();
        let mut both = |key: GroupKey| {
            let new = || {
                let name = GroupName::new(key.class().name(), &key.key_parts(&self.by, names));
                [name.of_class(), name]
            };
            let [whole, name] = of_keys.entry(key).or_insert_with(new).clone();
            let is_whole = whole == name;
            [Some(whole), (!is_whole).then_some(name)]
        };
        for ((key, cause), sum) in self.sums.ranking() {
            for name in both(key).into_iter().flatten() {
                if let Some(group) = run.groups.get_mut(&name) {
                    *group.causes.entry(label(&cause, names)).or_default() += sum.ns;
                }
            }
        }
        for (key, migrated) in &self.migrated {
            for name in both(*key).into_iter().flatten() {
                if let Some(group) = run.groups.get_mut(&name) {
                    group.migrated = group.migrated.map(|before| before + migrated);
                }
            }
        }
    }
}

/// The name of a cause in words, without the numbers of tasks and CPUs, which differ between runs.
fn label(cause: &Cause, names: &dyn Names) -> String {
    let component = labels::component(cause.component);
    let name = match cause.name {
        // The number of a worker says nothing in another run.
        CauseName::Task(comm) => {
            let comm = comm.to_string();
            let base = if comm.starts_with("kworker") { "kworker" } else { &comm };
            let base = if comm.starts_with("ksoftirqd") { "ksoftirqd" } else { base };
            base.escape_debug().to_string()
        }
        CauseName::Interrupt(source) => labels::interrupt(&source, &Style::default()),
        CauseName::Cgroup(Some(id)) => names.cgroup(id).escape_debug().to_string(),
        CauseName::Wakelat => "wakelat".to_owned(),
        CauseName::Cgroup(None) | CauseName::Many(_) | CauseName::Unnamed => return component.to_owned(),
    };
    match cause.component {
        Component::Same => format!("behind {name}"),
        Component::Higher | Component::Lower => format!("behind {name} ({component})"),
        Component::Irq | Component::Softirq => name,
        _ => format!("{component}: {name}"),
    }
}
