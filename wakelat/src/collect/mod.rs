//! The live kernel as a source: loads and attaches the BPF programs, and reads their results.

mod attach;
pub mod bpf_syscall;
mod classic_fields;
mod collector;
mod counters;
mod direct_table;
mod element_batch;
mod followed_processes;
mod groups;
pub mod heap;
mod histograms;
mod load;
mod map;
mod mapped_array;
pub mod osnoise_tracers;
mod program_run_budget;
mod program_runs;
mod queue_clock_refusal;
mod queue_clock_table;
pub mod rcu_grace_period;
mod record_slots;
mod ring_buffers;
mod ring_layout;
mod running_programs;
mod stack_maps;
mod task_table;
mod wait_causes;
mod waiting_tasks;
mod window;

use std::{path::PathBuf, rc::Rc};

use aya::{
    Ebpf,
    maps::{Array, MapData, PerCpuArray},
};
use aya_log::EbpfLogger;
use wakelat_common::{Classes, Counters, cpu_state::CpuState, cpu_words::CpuWords, filter::Filter};
use wakelat_core::{
    recording::{CollectedEvents, Header, MoreEvents},
    report::SwitchInTerms,
    why::counted::CauseGroups,
};

use self::mapped_array::MappedArray;
pub use self::{
    groups::GroupSettings, histograms::AggregatedWaits, program_run_budget::RunCounts, program_runs::ProgramRunTotals,
    ring_buffers::DrainExtent, stack_maps::StackMaps,
};
use crate::config::Attach;
use wakelat_kernel::btf::CauseClocks;

/// What the programs measure and record.
#[derive(Clone)]
pub struct Settings {
    /// How to attach the programs.
    pub attach: Attach,
    /// File with the kernel's BTF; `None` to use classic tracepoints without it.
    pub btf: Option<PathBuf>,
    /// Mount point of tracefs, where the layout of the classic tracepoints' records is read.
    pub tracefs: Option<PathBuf>,
    /// Capacity of the task table: at least 2 tasks.
    pub max_tasks: u32,
    /// Size of all ring buffers together in bytes: a power of two, at least a page.
    pub ring_bytes: u32,
    /// The classes of waits to measure.
    pub classes: Classes,
    /// Shorter waits are not delivered: ns.
    pub threshold_ns: u64,
    /// Whether to aggregate waits in the kernel instead of delivering them.
    pub aggregate: bool,
    /// How to group the waits that are aggregated in the kernel; `None` to aggregate by class and CPU.
    pub groups: Option<GroupSettings>,
    /// Whether wakers, wake delivery or previous CPUs are needed.
    pub with_waking: bool,
    /// Whether a wakeup's latency starts at `sched_waking`.
    pub from_waking: bool,
    /// Whether samples contain the cgroup of their task.
    pub with_cgroup: bool,
    /// Whether the run queues' own clock measures the waits, by one program on `sched_switch`.
    pub queue_clock: bool,
    /// How to count the causes of waits, with the run queues' own clock; `None` not to count them.
    pub causes: Option<CauseSettings>,
    /// Whether `serve` counts causes, and not `why`. Only the reason for a refusal depends on it.
    pub is_service: bool,
    /// Whether to measure by the rules of the hist-trigger recipe.
    pub trigger_rules: bool,
    /// What to record about each CPU between waits; `None` to deliver only waits.
    pub timeline: Option<TimelineSettings>,
    /// The seed that selects the sampled tasks, drawn for this run; `None` to measure all tasks.
    pub sampling_seed: Option<u64>,
    /// The tasks to measure.
    pub filter: FilterSettings,
}

impl Settings {
    /// Size of a ring buffer that carries no records: the largest page size, in bytes.
    pub const SMALLEST_RING: u32 = 1 << 16;
}

/// How the causes of waits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CauseSettings {
    /// The groups that wait and run.
    pub groups: CauseGroups,
    /// Whether to count the time in interrupts and softirqs from their tracepoints, if the kernel does not count it.
    pub trace_interrupts: bool,
}

/// What is recorded about each CPU besides every switch. Probes for the rest are not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineSettings {
    /// Interrupts and softirqs.
    pub interrupts: bool,
    /// C-states.
    pub idle: bool,
    /// Migrations.
    pub migrations: MigrationScope,
    /// Wakeups, also of tasks that already run or wait.
    pub wakeups: bool,
    /// The cgroups of the tasks at a switch.
    pub cgroups: bool,
    /// How long the task's group was throttled during a wait, and how long the hypervisor had the CPU.
    pub clocks: bool,
    /// Work items of workqueues.
    pub work_items: bool,
    /// Forks and execs.
    pub forks: bool,
    /// Tasks whose stacks are recorded: bits of [`wakelat_common::stack::role`], 0 for none.
    pub stacks: u8,
    /// The filter's results for both tasks at a switch; without this, only for a task that is preempted.
    pub filter_results: bool,
}

/// The tasks whose migrations are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationScope {
    /// Tasks that are waiting and measured.
    Waiting,
    /// All tasks.
    All,
}

impl TimelineSettings {
    /// What is needed to split a wait into its components.
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

    /// What is needed to explain waits, with the causes in `collected`.
    pub fn of(collected: CollectedEvents) -> Self {
        let CollectedEvents { irq, idle, throttling, workqueue, fork } = collected;
        Self {
            interrupts: irq,
            idle,
            clocks: throttling,
            work_items: workqueue,
            forks: fork,
            cgroups: true,
            ..Self::OF_WAITS
        }
    }

    /// What is needed for a recording with this header.
    pub fn of_recording(header: &Header) -> Self {
        let MoreEvents { wakeups, migrations, .. } = header.more;
        Self {
            wakeups,
            migrations: if migrations { MigrationScope::All } else { MigrationScope::Waiting },
            stacks: header.more.stacks().fold(0, |roles, role| roles | role.bit()),
            ..Self::of(header.collected)
        }
    }
}

/// The tasks to measure: a filter, and the IDs that have maps of their own.
#[derive(Clone)]
pub struct FilterSettings {
    /// The parts of the filter that are in force: bits of [`wakelat_common::filter::part`].
    pub parts: u32,
    /// Names, priorities, policies, CPUs.
    pub filter: Box<Filter>,
    /// Processes.
    pub tgids: Vec<u32>,
    /// Threads.
    pub pids: Vec<u32>,
    /// Cgroups, by ID.
    pub cgroup_ids: Vec<u64>,
}

/// Loaded programs and their maps. Dropping it detaches and unloads everything.
pub struct Collector {
    ebpf: Ebpf,
    programs: Vec<attach::LoadedProgram>,
    /// Forwards the programs' messages to the log, if they are shown.
    messages: Option<EbpfLogger<&'static dyn log::Log>>,
    running_programs: running_programs::RunningPrograms,
    rings: ring_buffers::RingBuffers,
    /// What the programs keep of each CPU.
    cpu_words: Rc<MappedArray<CpuWords>>,
    /// The programs' run budget under an overhead limit.
    budget: program_run_budget::RunBudget,
    /// What the programs have counted and timed of their own runs.
    program_runs: program_runs::ProgramRunMap,
    gate: window::WindowGate,
    /// The task that each CPU runs: used by the programs on classic tracepoints, which know only the records.
    running: Array<MapData, u32>,
    /// The state of each CPU, if events are recorded.
    cpu_states: Option<PerCpuArray<MapData, CpuState>>,
    task_table: task_table::TaskTable,
    /// The accepted processes, if their descendants are followed.
    followed_processes: Option<followed_processes::FollowedProcesses>,
    /// Whether the tasks that wait can be found by a walk over all tasks.
    walks_tasks: bool,
    /// What is kept for the run queue's clock, if that measures the waits.
    queue_table: Option<queue_clock_table::QueueTable>,
    /// The recorded stacks, until they are taken.
    stacks: Option<StackMaps>,
    /// The histograms and groups, if waits are aggregated in the kernel.
    histograms: Option<histograms::Histograms>,
    /// The causes of waits, if the programs count them.
    causes: Option<wait_causes::CauseTables>,
    /// What the kernel counts that separates causes.
    cause_clocks: CauseClocks,
}

/// The programs' counters at one instant, summed over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterTotals {
    /// Classes `wakeup` and `new`.
    pub wakeups: Counters,
    /// Class `preempted`.
    pub preemptions: Counters,
    /// Events of the timeline that were lost because the ring buffer was full.
    pub events_lost: u64,
    /// The switch-ins, if the run queue's clock measures the waits.
    pub switch_ins: Option<SwitchInTerms>,
}
