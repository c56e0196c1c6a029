//! The accounts of a window, added up.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    chain::{Chain, Chains},
    finding::{Finding, findings},
    folded::Folded,
    imposed::{Antagonist, Imposed},
    names::Known,
    stacks::{Code, Counts, Pair, Shown, Stacks},
    storms::{Storm, Storms},
    sums::Sums,
    wakers::{Ranking, Wakings},
    works::{self, WorkSum, Works},
};
use crate::{
    aggregate::key::{GroupKey, Key, Names, by_name},
    report::{From, GroupClass, KeyPart, KeyValue},
    timeline::{
        Account, Timeline,
        attribute::Told,
        event::{Event, What},
        part::Who,
        stack::Role,
    },
    wait::{Comm, Namespace},
};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Where the latency of a wakeup begins.
    pub from: From,
    /// By what waits are grouped; empty for one group per class.
    pub by: Vec<Key>,
    /// All classes go into one.
    pub merged: bool,
    /// Groups that are kept apart.
    pub max_groups: usize,
    /// How many of the worst waits are kept.
    pub worst: usize,
    /// What is not told apart, in words.
    pub untold: Vec<&'static str>,
    /// Whose stacks are told.
    pub stacks: Vec<Role>,
}

/// A window under way.
#[derive(Debug)]
pub struct Summing {
    rules: Rules,
    timeline: Timeline,
    before: Told,
    /// By the name of the task that waited: what findings and the sums of classes are made of.
    victims: HashMap<(GroupClass, Option<Comm>), Sums>,
    groups: HashMap<GroupKey, Sums>,
    others: HashMap<GroupClass, Sums>,
    imposed: Imposed,
    chains: Chains,
    wakings: Wakings,
    works: Works,
    storms: Storms,
    stacks: Stacks,
    given_up_before: u64,
    folded: Option<Folded>,
    worst: Vec<(Account, Pair)>,
    throttling_unknown: u64,
}

/// The sum of a window.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Where the latency of a wakeup begins.
    pub from: From,
    /// All waits, class by class, the one that took longest first.
    pub classes: Vec<Group>,
    /// The groups asked for, the one that waited longest first; empty where none was asked for.
    pub groups: Vec<Group>,
    /// Those most in the way.
    pub antagonists: Vec<Antagonist>,
    /// How many there are of them.
    pub all_antagonists: usize,
    /// Who took the CPU from whom, the most frequent first.
    pub chains: Vec<Chain>,
    /// How many preemptions there were.
    pub preemptions: u64,
    /// Who woke whom, the pair that waited longest first.
    pub wakings: Ranking,
    /// What the workers of workqueues did while others waited for them, by their thread ids, the most first.
    pub works: BTreeMap<u32, Vec<WorkSum>>,
    /// The names of the functions in the works of the longest waits, by their addresses.
    pub functions: BTreeMap<u64, String>,
    /// Who made many tasks that were in the way.
    pub storms: Vec<Storm>,
    /// The longest waits, the longest first.
    pub worst: Vec<Account>,
    /// What stands out.
    pub findings: Vec<Finding>,
    /// Events that came, and that did not.
    pub told: Told,
    /// Waits of which the kernel does not tell how long their group was out of quota.
    pub throttling_unknown: u64,
    /// What is not told apart, in words.
    pub untold: Vec<&'static str>,
    /// The stacks of the longest waits, where stacks are told.
    pub stacks: Option<Shown>,
    /// The paths of the cgroups that are named in it.
    pub cgroups: BTreeMap<u64, String>,
    /// The PID namespaces of the tasks of the longest waits, by their thread ids; of those in one of their own.
    pub namespaces: BTreeMap<u32, Namespace>,
}

/// The waits with one key and one class.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they have in common.
    pub key: Vec<KeyPart>,
    /// Their class.
    pub class: GroupClass,
    /// Where their time went.
    pub sums: Sums,
}

/// Antagonists, chains and pairs of waker and wakee that are kept in a summary.
const RANKED: usize = 100;

impl Summing {
    /// Nothing added up yet.
    pub fn new(rules: Rules) -> Self {
        let (timeline, wakings) = (Timeline::new(rules.from), Wakings::new(&rules.by));
        let stacks = Stacks::new(rules.from);
        Self {
            rules,
            timeline,
            before: Told::default(),
            victims: HashMap::new(),
            groups: HashMap::new(),
            others: HashMap::new(),
            imposed: Imposed::default(),
            chains: Chains::default(),
            wakings,
            works: Works::default(),
            storms: Storms::default(),
            stacks,
            given_up_before: 0,
            folded: None,
            worst: Vec::new(),
            throttling_unknown: 0,
        }
    }

    /// Takes an event. `known` are the tasks seen so far, those of the event included. Where a wait ends with it that is one of
    /// the longest by now, returns its stacks.
    pub fn push(&mut self, event: &Event, known: &Known) -> Option<Pair> {
        let mut longest = None;
        let stacks = match &event.what {
            What::Turn(turn) => self.stacks.turn(turn),
            _ => Pair::default(),
        };
        if let Some(account) = self.timeline.push(event) {
            let class = account.waited.wait.class;
            let class = if self.rules.merged { GroupClass::RunQueue } else { GroupClass::One(class) };
            let comm = Some(account.waiter.comm);
            let known = self.victims.contains_key(&(class, comm)) || self.victims.len() < self.rules.max_groups;
            self.victims.entry((class, comm.filter(|_| known))).or_default().add(account);
            if !self.rules.by.is_empty() {
                let key = GroupKey::new(&account.waited.wait, &self.rules.by, self.rules.merged);
                let known = self.groups.contains_key(&key) || self.groups.len() < self.rules.max_groups;
                let sums =
                    if known { self.groups.entry(key).or_default() } else { self.others.entry(class).or_default() };
                sums.add(account);
            }
            self.imposed.add(account);
            self.works.add(account);
            self.storms.add(account);
            self.throttling_unknown += u64::from(account.waited.throttled_ns.is_none());
            if let Some(folded) = &mut self.folded {
                folded.add(account, &stacks);
            }
            longest = keep(&mut self.worst, (account, stacks), self.rules.worst, &self.works).then_some(stacks);
        }
        match &event.what {
            What::Turn(turn) => {
                self.chains.add(turn);
                if let Some(waited) = &turn.waited {
                    self.wakings.add(&waited.wait, known);
                }
            }
            What::Work(work) => self.works.push(work),
            What::Spawn(spawn) => self.storms.push(spawn),
            What::Stack(stack) => self.stacks.push(*stack),
            What::Noise(_) | What::Moved(_) | What::Woken(_) => {}
        }
        longest
    }

    /// From now on, keeps all waits by their stacks.
    pub fn fold(&mut self) {
        self.folded = Some(Folded::default());
    }

    /// The waits of all windows by their stacks, where they are kept.
    pub fn folded(&self) -> Option<&Folded> {
        self.folded.as_ref()
    }

    /// The stacks of the window's longest waits, where stacks are told. The kernel side has counted `counts`.
    pub fn stacks(&self, counts: Counts, code: &dyn Code, known: &Known) -> Shown {
        let given_up = self.stacks.given_up() - self.given_up_before;
        Shown {
            of_worst: self.worst.iter().map(|(_, stacks)| stacks.sights(code, known)).collect(),
            roles: self.rules.stacks.clone(),
            counts: Counts { given_up, ..counts },
        }
    }

    /// Begins a new window: the past stays known.
    pub fn begin(&mut self) {
        self.before = self.timeline.told();
        self.given_up_before = self.stacks.given_up();
        self.victims.clear();
        self.groups.clear();
        self.others.clear();
        self.imposed.clear();
        self.chains.clear();
        self.wakings.clear();
        self.works.clear();
        self.storms.clear();
        self.worst.clear();
        self.throttling_unknown = 0;
    }

    /// The window so far, of `duration_ns`.
    pub fn summary(&self, duration_ns: u64, names: &dyn Names) -> Summary {
        let mut classes: BTreeMap<GroupClass, Sums> = BTreeMap::new();
        for ((class, _), sums) in &self.victims {
            classes.entry(*class).or_default().merge(sums);
        }
        let classes = classes.into_iter().map(|(class, sums)| Group { key: Vec::new(), class, sums });
        let groups =
            self.groups.iter().map(|(key, sums)| ((key.class(), key.parts(&self.rules.by, names)), sums.clone()));
        let other = |key: &Key| KeyPart { name: key.name(), value: KeyValue::Text("(other)".to_owned()) };
        let others =
            self.others.iter().map(|(class, sums)| ((*class, self.rules.by.iter().map(other).collect()), sums.clone()));
        let groups = by_name(groups.chain(others), Sums::merge);
        let groups = groups.into_iter().map(|((class, key), sums)| Group { key, class, sums });
        let (antagonists, all_antagonists) = self.imposed.ranking(RANKED);
        let (chains, preemptions) = self.chains.ranking(RANKED);
        let told = self.timeline.told();
        let mut summary = Summary {
            from: self.rules.from,
            classes: sorted(classes),
            groups: sorted(groups),
            antagonists,
            all_antagonists,
            chains,
            preemptions,
            wakings: self.wakings.ranking(RANKED, names),
            works: self.works.sums(names),
            functions: functions(&self.worst, names),
            storms: Vec::new(),
            worst: self.worst.iter().map(|(account, _)| account.clone()).collect(),
            findings: findings(self.victims.iter().map(|((_, comm), sums)| (*comm, sums)), duration_ns),
            told: Told { events: told.events - self.before.events, lost: told.lost - self.before.lost },
            throttling_unknown: self.throttling_unknown,
            untold: self.rules.untold.clone(),
            stacks: None,
            cgroups: BTreeMap::new(),
            namespaces: namespaces(&self.worst, names),
        };
        summary.storms = self.storms.storms(summary.all().ns, duration_ns);
        summary.cgroups = summary.cgroup_ids().into_iter().map(|id| (id, names.cgroup(id))).collect();
        summary
    }
}

impl Summary {
    /// All cgroups that are named in it.
    fn cgroup_ids(&self) -> HashSet<u64> {
        let id = |who: &Who| match who {
            Who::Task(task) => task.cgroup_id,
            Who::Cgroup(id) => *id,
            _ => None,
        };
        let groups = self.classes.iter().chain(&self.groups).flat_map(|group| group.sums.culprits());
        let groups = groups.filter_map(|culprit| id(&culprit.culprit.who));
        let shares = self.worst.iter().flat_map(|account| &account.shares);
        let shares = shares.filter_map(|share| id(&share.culprit.who));
        let waiters = self.worst.iter().filter_map(|account| account.waited.wait.cgroup_id);
        let antagonists = self.antagonists.iter().filter_map(|antagonist| id(&antagonist.who));
        let findings = self.findings.iter().filter_map(|finding| finding.cause.cgroup_id());
        groups.chain(shares).chain(waiters).chain(antagonists).chain(findings).collect()
    }

    /// All waits of all classes: how many, and how long they took together.
    pub fn all(&self) -> Sums {
        let mut all = Sums::default();
        self.classes.iter().for_each(|group| all.merge(&group.sums));
        all
    }
}

/// The one that took longest first; equal ones by key, so that the order is always the same.
fn sorted(groups: impl Iterator<Item = Group>) -> Vec<Group> {
    let mut groups: Vec<Group> = groups.collect();
    groups
        .sort_by(|a, b| b.sums.ns.cmp(&a.sums.ns).then_with(|| a.class.cmp(&b.class)).then_with(|| a.key.cmp(&b.key)));
    groups
}

fn namespaces(worst: &[(Account, Pair)], names: &dyn Names) -> BTreeMap<u32, Namespace> {
    let tids = worst.iter().map(|(account, _)| account.waited.wait.tid);
    tids.filter_map(|tid| names.namespace(tid).map(|namespace| (tid, namespace))).collect()
}

fn functions(worst: &[(Account, Pair)], names: &dyn Names) -> BTreeMap<u64, String> {
    let addresses = worst.iter().flat_map(|(account, _)| &account.works).map(|did| did.function);
    addresses.map(|address| (address, works::name(address, names))).collect()
}

/// Keeps an account if it is among the longest; of equal ones the earlier. Returns whether it is.
fn keep(worst: &mut Vec<(Account, Pair)>, (account, stacks): (&Account, Pair), limit: usize, works: &Works) -> bool {
    let is_as_long = |(other, _): &(Account, Pair)| other.latency_ns >= account.latency_ns;
    if limit == 0 || worst.len() >= limit && worst.last().is_some_and(is_as_long) {
        return false;
    }
    let at = worst.partition_point(is_as_long);
    let mut kept = account.clone();
    works.note(&mut kept);
    worst.insert(at, (kept, stacks));
    worst.truncate(limit);
    true
}
