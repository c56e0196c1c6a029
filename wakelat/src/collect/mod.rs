//! The live kernel as a source: loads the BPF programs, attaches them, and reads what they give.

mod attach;
mod barrier;
mod budget;
mod counters;
mod gate;
mod histograms;
mod load;
mod records;
mod stacks;
mod starts;
pub mod tracer;
mod window;

use std::path::PathBuf;

use aya::{
    Ebpf,
    maps::{Array, MapData, PerCpuArray, RingBuf},
};
use aya_log::EbpfLogger;
use wakelat_common::{Classes, Counters, filter::Filter, timeline::CpuState};

pub use self::{budget::RunCounts, stacks::StackMaps};
use crate::config::Attach;

/// What the programs are to do.
#[derive(Clone)]
pub struct Settings {
    /// How to attach them.
    pub attach: Attach,
    /// The kernel's BTF; none to do without, by classic tracepoints.
    pub btf: Option<PathBuf>,
    /// Where tracefs is mounted: the layout of classic tracepoints' records is read there.
    pub tracefs: Option<PathBuf>,
    /// Tasks that the table of starts has room for: at least 2.
    pub max_tasks: u32,
    /// Bytes of the ring buffer: a power of two, at least a page.
    pub ring_bytes: u32,
    /// The classes to deliver.
    pub classes: Classes,
    /// Waits below this are not delivered: ns.
    pub threshold_ns: u64,
    /// Whether to count waits in the kernel, and deliver none.
    pub aggregate: bool,
    /// Whether anybody asks for wakers, deliveries, or CPUs before.
    pub with_waking: bool,
    /// Whether a wakeup's latency starts at `sched_waking`.
    pub from_waking: bool,
    /// Whether samples carry their task's cgroup.
    pub with_cgroup: bool,
    /// Whether to measure by the rules of the hist-trigger recipe.
    pub trigger_rules: bool,
    /// What to tell of the course of events on each CPU; none where only waits are asked for.
    pub timeline: Option<TimelineSettings>,
    /// Whether not all tasks may be watched: then the number that decides, drawn for this run.
    pub sampling_seed: Option<u64>,
    /// Who is measured.
    pub filter: FilterSettings,
}

/// What is told of the course of events on each CPU, beside every switch. What is not asked for is not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineSettings {
    /// Interrupts and softirqs.
    pub interrupts: bool,
    /// C-states.
    pub idle: bool,
    /// Moves from one CPU to another.
    pub migrations: MigrationScope,
    /// Wakeups, also of tasks that run or wait already.
    pub wakeups: bool,
    /// The cgroups of the tasks at a switch.
    pub cgroups: bool,
    /// How much of a wait the task's group was out of quota, and how much of it the hypervisor had the CPU.
    pub clocks: bool,
    /// The works of workqueues.
    pub work_items: bool,
    /// Tasks that make others, or take another program.
    pub forks: bool,
    /// Whose stacks: bits of [`wakelat_common::stack::role`]; 0 for none.
    pub stacks: u8,
    /// Whether the filter takes the tasks at a switch; without it, only whether it takes one that is preempted.
    pub filter_results: bool,
}

/// Whose moves from one CPU to another are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationScope {
    /// Those of tasks that wait and are measured.
    Waiting,
    /// Those of all tasks.
    All,
}

impl TimelineSettings {
    /// All that it takes to say where a wait went.
    pub const OF_WAITS: Self = Self {
        interrupts: true,
        idle: true,
        migrations: MigrationScope::Waiting,
        wakeups: false,
        cgroups: false,
        clocks: true,
        work_items: false,
        forks: false,
        stacks: 0,
        filter_results: false,
    };
}

/// Who is measured: a filter with the ids that have maps of their own.
#[derive(Clone)]
pub struct FilterSettings {
    /// Bits of [`wakelat_common::filter::part`]: what is in force.
    pub parts: u32,
    /// Names, priorities, policies, CPUs.
    pub filter: Box<Filter>,
    /// Processes.
    pub tgids: Vec<u32>,
    /// Threads.
    pub pids: Vec<u32>,
    /// Cgroups, by id.
    pub cgroup_ids: Vec<u64>,
}

/// Loaded programs and their maps. Dropping it detaches and unloads everything.
pub struct Collector {
    ebpf: Ebpf,
    programs: Vec<attach::LoadedProgram>,
    /// Messages of the programs, on their way to the log, if they are shown.
    messages: Option<EbpfLogger<&'static dyn log::Log>>,
    barrier: barrier::Barrier,
    ring: RingBuf<MapData>,
    ring_bytes: u32,
    counters: PerCpuArray<MapData, Counters>,
    /// What the programs may do under a limit.
    budget: budget::RunBudget,
    gate: gate::WindowGate,
    /// What each CPU runs, where no more than the records of classic tracepoints is known.
    running: Array<MapData, u32>,
    /// What each CPU is at, where events are told.
    cpu_states: Option<PerCpuArray<MapData, CpuState>>,
    task_table: starts::TaskTable,
    /// Where stacks are taken, and nobody has asked for them yet.
    stacks: Option<StackMaps>,
    /// Where waits are counted in the kernel.
    histograms: Option<histograms::Histograms>,
}

/// What the kernel has accounted to the programs while it did so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramStats {
    /// The time that all of them ran: ns, one reading of the clock for each run included.
    pub ns: u64,
    /// How often they ran, together.
    pub count: u64,
    /// How often the one on `sched_switch` ran.
    pub switches: u64,
}

/// The kernel's own account at one instant, all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterTotals {
    /// Classes `wakeup` and `new`.
    pub wakeups: Counters,
    /// Class `preempted`.
    pub preemptions: Counters,
    /// Events of the timeline for which there was no room in the ring buffer.
    pub events_lost: u64,
}
