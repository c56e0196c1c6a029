//! Which waits are shown: part of a name, and the words of the flags.

use wakelat_common::{Class, glob::Glob, sample::COMM_LEN};

use crate::{
    files::{own_number, own_tid},
    top_screen::data::{
        task_names::TaskNames,
        wait_table::{TaskKey, WaitCell},
    },
};

/// Which waits are shown: those that meet all conditions.
#[derive(Clone, Default)]
pub struct WaitFilter {
    /// Each in lower case.
    parts: Vec<String>,
    comms: Option<Box<Glob>>,
    pids: Vec<u32>,
    tids: Vec<u32>,
    cgroups: Vec<String>,
    cpus: Vec<(u32, u32)>,
    classes: Vec<Class>,
}

impl WaitFilter {
    /// Parses what was typed: words that are parts of names, and flags with their values.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let (flag, attached) = word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
            if !flag.starts_with('-') {
                filter.parts.push(word.to_lowercase());
                continue;
            }
            if !FLAGS.iter().any(|(long, short, _)| [*long, *short].contains(&flag)) {
                let known: Vec<&str> = FLAGS.iter().map(|(long, ..)| *long).collect();
                return Err(format!("no filter `{flag}`; expected a part of a name, or {}", known.join(", ")));
            }
            let Some(value) = attached.or_else(|| words.next()) else {
                let expected = FLAGS.iter().find(|(long, short, _)| [*long, *short].contains(&flag));
                return Err(format!("`{flag}` needs {}", expected.map_or("a value", |(.., what)| what)));
            };
            for value in value.split(',') {
                filter.add(flag, value)?;
            }
        }
        Ok(filter)
    }

    fn add(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let id = |what: &str| match value.parse::<u32>() {
            Ok(id) if id > 0 => Ok(id),
            _ => Err(format!("`{value}` is not a {what}")),
        };
        match flag {
            "--comm" => {
                let globs = self.comms.get_or_insert_default();
                globs.add(value.as_bytes()).map_err(|error| format!("`{value}`: {error}"))?;
            }
            "--pid" | "-p" => self.pids.push(id("PID")?),
            "--tid" | "-t" => self.tids.push(id("TID")?),
            "--cgroup" => match value.trim_end_matches('/') {
                path if value.starts_with('/') => self.cgroups.push(path.to_owned()),
                _ => return Err(format!("`{value}` is not the path of a cgroup; expected one that begins with `/`")),
            },
            "--class" => match Class::ALL.into_iter().find(|class| class.name() == value) {
                Some(class) => self.classes.push(class),
                None if value == "runqueue" => self.classes.extend(Class::ALL),
                None => return Err(format!("no class `{value}`; expected wakeup, new, preempted or runqueue")),
            },
            _ => {
                let (first, last) = value.split_once('-').unwrap_or((value, value));
                match (first.parse(), last.parse()) {
                    (Ok(first), Ok(last)) if first <= last => self.cpus.push((first, last)),
                    _ => return Err(format!("`{value}` is not a CPU or a range of CPUs, such as 0-3")),
                }
            }
        }
        Ok(())
    }

    /// Whether it accepts all waits.
    pub fn is_empty(&self) -> bool {
        let Self { parts, comms, pids, tids, cgroups, cpus, classes } = self;
        let has_names = !parts.is_empty() || comms.is_some() || !cgroups.is_empty();
        !has_names && pids.is_empty() && tids.is_empty() && cpus.is_empty() && classes.is_empty()
    }

    /// Whether it accepts these waits.
    pub fn accepts(&self, cell: &WaitCell, names: &TaskNames) -> bool {
        (self.classes.is_empty() || self.classes.contains(&cell.class)) && self.accepts_run(&cell.task, cell.cpu, names)
    }

    /// Whether it accepts the time that a task runs on a CPU; classes apart.
    pub fn accepts_run(&self, task: &TaskKey, cpu: u32, names: &TaskNames) -> bool {
        let any = |list: &[u32], id| list.is_empty() || list.contains(&own_tid(id));
        any(&self.pids, task.pid)
            && any(&self.tids, task.tid)
            && (self.cpus.is_empty() || self.cpus.iter().any(|(a, b)| (*a..=*b).contains(&own_number(cpu))))
            && self.comms.as_ref().is_none_or(|globs| {
                let mut name = [0; COMM_LEN];
                let bytes = task.comm.as_bytes();
                name[..bytes.len()].copy_from_slice(bytes);
                globs.matches(&name)
            })
            && (self.cgroups.is_empty() && self.parts.is_empty() || self.accepts_names(task, names))
    }

    fn accepts_names(&self, task: &TaskKey, names: &TaskNames) -> bool {
        let path = names.cgroup(task.cgroup_id);
        let is_below = |parent: &String| {
            path.strip_prefix(parent.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let process = names.process(task.pid).unwrap_or(task.comm);
        let shown = [task.comm.to_string(), process.to_string(), path.clone()].map(|name| name.to_lowercase());
        (self.cgroups.is_empty() || self.cgroups.iter().any(is_below))
            && self.parts.iter().all(|part| shown.iter().any(|name| name.contains(part.as_str())))
    }
}

/// The flags, and what each needs.
const FLAGS: [(&str, &str, &str); 7] = [
    ("--comm", "", "a name, or a shell pattern such as nginx*"),
    ("--pid", "-p", "a PID"),
    ("--tid", "-t", "a TID"),
    ("--cgroup", "", "the path of a cgroup"),
    ("--cpus", "-C", "CPUs such as 0-3,8"),
    ("--cpu", "", "a CPU"),
    ("--class", "", "a class: wakeup, new, preempted or runqueue"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Comm;

    fn accepts(filter: &str, tid: u32, name: &str, cpu: u32, class: Class) -> bool {
        let task = TaskKey { tid, pid: 100, comm: Comm::new(name.as_bytes()), cgroup_id: 0 };
        let filter = WaitFilter::parse(filter).unwrap_or_else(|error| panic!("{error}"));
        filter.accepts(&WaitCell { task, cpu, class }, &TaskNames::default())
    }

    #[test]
    fn all_conditions_apply_and_one_value_of_each_is_enough() {
        for (filter, expected) in [
            ("", true),
            ("GIN", true),
            ("gin z", false),
            ("--comm ngi*", true),
            ("--comm ngi", false),
            ("--comm=ngi,nginx", true),
            ("--pid 100 --tid 7,8", true),
            ("--tid 8", false),
            ("--cpu 2", true),
            ("-C 0-1,3", false),
            ("--cpus 0-3 --class new", false),
            ("--class wakeup,new", true),
            ("--class runqueue", true),
            ("--cgroup /", true),
            ("--cgroup /a", false),
        ] {
            assert_eq!(accepts(filter, 7, "nginx", 2, Class::Wakeup), expected, "{filter}");
        }
    }

    #[test]
    fn an_invalid_filter_says_what_is_wrong() {
        let error = |text: &str| WaitFilter::parse(text).err().unwrap_or_default();
        assert_eq!(error("--pid"), "`--pid` needs a PID");
        assert_eq!(error("--pid x"), "`x` is not a PID");
        assert_eq!(error("--cpu 3-1"), "`3-1` is not a CPU or a range of CPUs, such as 0-3");
        assert_eq!(error("--class old"), "no class `old`; expected wakeup, new, preempted or runqueue");
        assert_eq!(error("--cgroup a"), "`a` is not the path of a cgroup; expected one that begins with `/`");
        assert!(error("--prio 1").starts_with("no filter `--prio`"), "{}", error("--prio 1"));
        assert!(error("--comm [").starts_with("`[`: "), "{}", error("--comm ["));
    }
}
