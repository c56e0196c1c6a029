//! Groups of tasks, and their names.

use crate::{
    files::{own_number, own_tid},
    render::{Style, labels::in_file, text_line::clean},
    top_screen::data::{
        task_names::TaskNames,
        wait_table::{TaskKey, WaitCell},
    },
    wait::Comm,
};

/// What the waits are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// Thread.
    Task,
    /// Process.
    Process,
    /// Name of the thread.
    Name,
    /// Cgroup.
    Cgroup,
    /// CPU on which the wait ended.
    Cpu,
}

impl Grouping {
    /// All, in the order of the key that changes it.
    pub const ALL: [Self; 5] = [Self::Task, Self::Process, Self::Name, Self::Cgroup, Self::Cpu];

    /// The next one.
    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|other| *other == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// Its name, for a group and for several.
    pub const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Task => ("task", "tasks"),
            Self::Process => ("process", "processes"),
            Self::Name => ("name", "names"),
            Self::Cgroup => ("cgroup", "cgroups"),
            Self::Cpu => ("CPU", "CPUs"),
        }
    }

    /// The group of a task that runs or ended its wait on a CPU.
    pub fn of(self, task: &TaskKey, cpu: u32) -> GroupId {
        match self {
            Self::Task => GroupId::Task(task.tid, task.comm),
            Self::Process => GroupId::Process(task.pid),
            Self::Name => GroupId::Name(task.comm),
            Self::Cgroup => GroupId::Cgroup(task.cgroup_id),
            Self::Cpu => GroupId::Cpu(cpu),
        }
    }
}

/// A group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupId {
    /// Everything.
    All,
    /// A thread, by TID and name: another one may get the same TID later.
    Task(u32, Comm),
    /// A process.
    Process(u32),
    /// All threads of a name.
    Name(Comm),
    /// A cgroup.
    Cgroup(u64),
    /// A CPU.
    Cpu(u32),
}

impl GroupId {
    /// Whether these waits belong to the group.
    pub fn has(&self, cell: &WaitCell) -> bool {
        self.has_run(&cell.task, cell.cpu)
    }

    /// Whether the time that a task runs on a CPU belongs to the group.
    pub fn has_run(&self, task: &TaskKey, cpu: u32) -> bool {
        match *self {
            Self::All => true,
            Self::Task(tid, comm) => task.tid == tid && task.comm == comm,
            Self::Process(pid) => task.pid == pid,
            Self::Name(comm) => task.comm == comm,
            Self::Cgroup(id) => task.cgroup_id == id,
            Self::Cpu(number) => cpu == number,
        }
    }

    /// Its name, for people.
    pub fn name(&self, names: &TaskNames, style: &Style) -> String {
        let text = |comm: &Comm| clean(&comm.to_string(), style);
        let id = |tid: u32| format!("/{}{}", own_tid(tid), in_file(tid, style));
        match self {
            Self::All => "all".to_owned(),
            Self::Task(TaskKey::OTHER, _) | Self::Process(TaskKey::OTHER) | Self::Cgroup(u64::MAX) => {
                "(other)".to_owned()
            }
            Self::Task(tid, comm) => format!("{}{}", text(comm), id(*tid)),
            Self::Process(pid) => {
                let name = names.process(*pid).map(|comm| text(&comm)).unwrap_or_else(|| "?".to_owned());
                format!("{name}{}", id(*pid))
            }
            Self::Name(comm) => text(comm),
            Self::Cgroup(id) => clean(&names.cgroup(*id), style),
            Self::Cpu(cpu) => {
                let file = style.files.of_cpu(*cpu).map(|file| format!(" in {}", clean(file, style)));
                format!("CPU {}{}", own_number(*cpu), file.unwrap_or_default())
            }
        }
    }
}
