//! Loads the embedded BPF object: its load-time configuration and its maps.

use std::{io, path::Path, rc::Rc};

use anyhow::{Context as _, Result, anyhow, bail};
use aya::{
    Btf, Ebpf, EbpfError, EbpfLoader,
    maps::{Array, HashMap, MapData, MapError, PerCpuArray},
};
use aya_log::{EbpfLogger, Level};
use wakelat_common::{
    cause_sums::{MAX_GROUP_SUMS, MAX_PAIR_SUMS, direct_groups, direct_pairs},
    filter::{Filter, MAX_PROCESSES, part},
    group::DIRECT_ELEMENTS,
    histogram::HISTOGRAMS,
    stack::MAX_STACKS,
    timeline,
};

use super::{
    Collector, MigrationScope, Settings,
    attach::{self, AttachMethod},
    classic_fields::RecordOffsets,
    direct_table,
    followed_processes::FollowedProcesses,
    groups::{self, GroupSettings},
    heap,
    histograms::Histograms,
    map::{map, take},
    mapped_array::MappedArray,
    program_run_budget::RunBudget,
    program_runs::ProgramRunMap,
    queue_clock_refusal,
    queue_clock_table::{QueueTable, QueueTableSize},
    record_slots::{SentRecords, SlotLayout},
    ring_buffers::{UnmappedRings, online_cpus},
    running_programs::RunningPrograms,
    stack_maps::StackMaps,
    task_table::{TaskTable, TaskTableSize},
    wait_causes::CauseTables,
    waiting_tasks,
    window::WindowGate,
};
use crate::config::Attach;
use wakelat_core::why::counted::CauseGroups;
use wakelat_kernel::{
    btf::{self, BtfTypes},
    cpus,
    release::Release,
};

/// The BPF programs, compiled by the build script.
pub(super) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/wakelat.bpf.o"));

impl Collector {
    /// Loads the BPF object and verifies the programs that `settings` need. Attaches nothing.
    ///
    /// # Errors
    /// If the kernel refuses a map or a program, with the kernel's own reason.
    pub fn load(settings: &Settings) -> Result<Self> {
        let collector = Self::load_by_best_method(settings);
        heap::trim();
        collector
    }

    fn load_by_best_method(settings: &Settings) -> Result<Self> {
        // A new loader parses the kernel's types itself. Dropped before these are parsed, its own need no memory beside them.
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        let bytes = settings.btf.as_deref().map(read_types).transpose()?;
        // If these cannot be found, the parser below says why.
        let types = bytes.as_deref().and_then(BtfTypes::find);
        let blocked_as_preempted = types.as_ref().is_some_and(btf::reports_blocked_as_preempted);
        if let Some(types) = types.as_ref().filter(|_| settings.queue_clock)
            && let Some(missing) = btf::missing_for_queue_clock(types)
        {
            bail!(queue_clock_refusal::missing_field(settings, missing));
        }
        let mut cause_clocks = types.as_ref().map(btf::CauseClocks::of).unwrap_or_default();
        let mut settings = settings.clone();
        if let Some(causes) = &mut settings.causes {
            causes.trace_interrupts &= !cause_clocks.interrupts;
            cause_clocks.interrupts |= causes.trace_interrupts;
        }
        let btf = bytes.map(parse_types).transpose()?;
        let methods: &[AttachMethod] = match (settings.attach, &btf) {
            (Attach::Auto, Some(_)) => &[AttachMethod::Typed, AttachMethod::Raw],
            (Attach::Auto, None) | (Attach::Classic, _) => &[AttachMethod::Classic],
            (Attach::Btf, _) => &[AttachMethod::Typed],
            (Attach::Raw, _) => &[AttachMethod::Raw],
        };
        if settings.queue_clock && methods == [AttachMethod::Classic] {
            bail!(queue_clock_refusal::classic_tracepoints(&settings));
        }
        // The programs that record events or count causes exist only for typed tracepoints
        // (wakelat-ebpf/src/entry/raw_tp.rs says why).
        let methods = match (settings.timeline, settings.causes) {
            (None, None) => methods,
            _ if methods.contains(&AttachMethod::Typed) => &[AttachMethod::Typed],
            _ => bail!(
                "`why`, `record`, `serve`, `trace --breakdown`, `trace --all` and `--by component` need typed tracepoints; use \
                 a kernel with BTF or give its BTF with `--btf FILE`, and leave out `--attach` or use `--attach btf`"
            ),
        };
        let collector = Self::load_object(loader, &settings, methods, btf.as_ref(), blocked_as_preempted)?;
        Ok(Self { cause_clocks, ..collector })
    }

    fn load_object(
        loader: EbpfLoader<'static>,
        settings: &Settings,
        methods: &[AttachMethod],
        btf: Option<&Btf>,
        blocked_as_preempted: bool,
    ) -> Result<Self> {
        let offsets = match &settings.tracefs {
            Some(tracefs) if methods.contains(&AttachMethod::Classic) => RecordOffsets::read(tracefs)?,
            _ => RecordOffsets::default(),
        };
        let cpus = cpus::possible()?;
        let online = online_cpus()?;
        let records = match settings.timeline {
            _ if settings.aggregate => SentRecords::Others,
            Some(_) => SentRecords::Events,
            None => SentRecords::Waits,
        };
        let (slots, ring_bytes) = SlotLayout::within(settings.ring_bytes, records, &online);
        let rings = UnmappedRings::new(ring_bytes, &online)?;
        let ring_watermark = rings.watermark();
        let flag = |on: bool| u32::from(on);
        let stack_roles = settings.timeline.map_or(0, |timeline| timeline.stacks);
        let stacks = if stack_roles != 0 { MAX_STACKS } else { 1 };
        let queue_size = QueueTableSize::of(settings.max_tasks);
        let globals32 = [
            ("CLASSES", settings.classes.0),
            ("FILTER_PARTS", settings.filter.parts),
            ("OWN_TGID", std::process::id()),
            ("FROM_WAKING", flag(settings.from_waking)),
            ("WITH_CGROUP", flag(settings.with_cgroup)),
            ("AGGREGATE", flag(settings.aggregate)),
            ("GROUP_PARTS", settings.groups.map_or(0, |groups| groups.parts)),
            ("TRIGGER_RULES", flag(settings.trigger_rules)),
            ("BLOCKED_AS_PREEMPTED", flag(blocked_as_preempted)),
            ("PROGRAMS_NEST", flag(!Release::running().is_at_least(6, 2))),
            ("SAMPLING", flag(settings.sampling_seed.is_some())),
            ("TIMELINE_FEATURES", timeline_features(settings)),
            ("STACK_ROLES", stack_roles.into()),
            ("QUEUE_SLOT_MASK", queue_size.slots() - 1),
            ("GROUP_PLACES", direct_groups(cpus)),
            ("PAIR_PLACES", direct_pairs(cpus)),
            ("GROUPS_ARE_NAMES", flag(settings.causes.is_some_and(|causes| causes.groups == CauseGroups::Names))),
            ("COUNT_INTERRUPTS", flag(settings.causes.is_some_and(|causes| causes.trace_interrupts))),
        ];
        let sampling_seed = settings.sampling_seed.unwrap_or(0);
        // One of the two tables is used.
        let table_size = TaskTableSize::of(if settings.queue_clock { 2 } else { settings.max_tasks });
        let slot_mask = table_size.slot_mask();
        let entries = |length: usize| u32::try_from(length.max(1)).context("too many IDs in the filter");
        let direct = |is_used: bool, per_part| if is_used { direct_table::size(cpus, per_part) } else { 1 };
        let log_level = log_level(settings);
        let follows_descendants = settings.filter.parts & part::DESCENDANTS != 0;
        // It borrows what is declared above.
        let mut loader: EbpfLoader<'_> = loader;
        loader
            .btf(btf)
            .override_global(aya_log::LEVEL, &log_level, true)
            .override_global("THRESHOLD_NS", &settings.threshold_ns, true)
            .override_global("SAMPLING_SEED", &sampling_seed, true)
            .override_global("SLOT_MASK", &slot_mask, true)
            .override_global("WAKEUP_OFFSETS", &offsets.woken, true)
            .override_global("PREV_OFFSETS", &offsets.prev, true)
            .override_global("NEXT_OFFSETS", &offsets.next, true)
            .map_max_entries("TASK_SLOTS", table_size.slots)
            .map_max_entries("TASK_OVERFLOW", table_size.overflow)
            .map_max_entries("QUEUE_SLOTS", if settings.queue_clock { queue_size.slots() } else { 1 })
            .map_max_entries("THROTTLED_CLOCKS", if needs_throttled_clocks(settings) { queue_size.slots() } else { 1 })
            .map_max_entries("DIRECT_GROUPS", direct(settings.causes.is_some(), direct_groups(cpus)))
            .map_max_entries("DIRECT_PAIRS", direct(settings.causes.is_some(), direct_pairs(cpus)))
            .map_max_entries(groups::DIRECT_MAP, direct(settings.groups.is_some(), DIRECT_ELEMENTS))
            .map_max_entries("GROUP_SUMS", if settings.causes.is_some() { MAX_GROUP_SUMS } else { 1 })
            .map_max_entries("PAIR_SUMS", if settings.causes.is_some() { MAX_PAIR_SUMS } else { 1 })
            .map_max_entries("LAST_SLICES", if settings.causes.is_some() { cpus } else { 1 })
            .map_max_entries("RUNNING", cpus)
            .map_max_entries("CPU_WORDS", cpus)
            .map_max_entries("KERNEL_STACKS", stacks)
            .map_max_entries("USER_STACKS", stacks)
            .map_max_entries("HISTOGRAMS", if settings.aggregate { HISTOGRAMS } else { 1 })
            .map_max_entries(
                "TGIDS",
                if follows_descendants { MAX_PROCESSES } else { entries(settings.filter.tgids.len())? },
            )
            .map_max_entries("PIDS", entries(settings.filter.pids.len())?)
            .map_max_entries("CGROUPS", entries(settings.filter.cgroup_ids.len())?);
        rings.configure(&ring_watermark, &mut loader);
        slots.configure(&mut loader);
        let elements = settings.groups.map_or(1, GroupSettings::elements);
        for map in groups::MAPS {
            loader.map_max_entries(map, elements);
        }
        for (name, value) in &globals32 {
            loader.override_global(name, value, true);
        }
        let mut ebpf = loader.load(OBJECT).map_err(|error| explain(error, settings))?;
        fill_filter(&mut ebpf, settings)?;
        let exists = |tracepoint: &str| btf.is_some_and(|types| btf::has_tracepoint(types, tracepoint));
        let needed = attach::needed_programs(settings, exists);
        let programs = rings.fill_table(&mut ebpf, |ebpf| attach::verify(ebpf, &needed, methods, btf))?;
        let walks_tasks = match btf.filter(|_| settings.queue_clock) {
            Some(btf) => waiting_tasks::load(&mut ebpf, btf),
            None => false,
        };
        let task_table = TaskTable::take(&mut ebpf, table_size.slots)?;
        let cpu_words = Rc::new(MappedArray::take(&mut ebpf, "CPU_WORDS", cpus as usize)?);
        let messages = (log_level > 0).then(|| EbpfLogger::init(&mut ebpf)).transpose()?;
        Ok(Self {
            stacks: (stack_roles != 0).then(|| StackMaps::take(&mut ebpf)).transpose()?,
            cause_clocks: btf::CauseClocks::default(),
            causes: settings.causes.is_some().then(|| CauseTables::take(&mut ebpf, cpus)).transpose()?,
            histograms: settings
                .aggregate
                .then(|| Histograms::take(&mut ebpf, settings.groups.is_some(), cpus))
                .transpose()?,
            rings: rings.map()?.with_slots(slots.map(&mut ebpf, &cpu_words)?),
            budget: RunBudget::take(&mut ebpf)?,
            program_runs: ProgramRunMap::of(&cpu_words),
            gate: WindowGate::take(&mut ebpf)?,
            running: Array::try_from(take(&mut ebpf, "RUNNING")?)?,
            cpu_states: settings
                .timeline
                .map(|_| take(&mut ebpf, "CPU_STATE"))
                .transpose()?
                .map(PerCpuArray::try_from)
                .transpose()?,
            task_table,
            followed_processes: follows_descendants.then(|| FollowedProcesses::take(&mut ebpf)).transpose()?,
            walks_tasks,
            queue_table: settings.queue_clock.then(|| QueueTable::of(&cpu_words)),
            running_programs: RunningPrograms::new(&cpu_words)?,
            cpu_words,
            programs,
            messages,
            ebpf,
        })
    }
}

/// The level of the programs' messages, which `-v` shows; 0 for none. The messages go through a ring buffer
/// of their own. Programs that aggregate do not use it, because they also run on kernels where a ring buffer
/// can freeze the machine.
fn log_level(settings: &Settings) -> u8 {
    if !settings.aggregate && log::log_enabled!(log::Level::Info) { Level::Info as u8 } else { 0 }
}

/// The features that the programs record: bits of [`timeline::feature`].
fn timeline_features(settings: &Settings) -> u32 {
    let Some(events) = settings.timeline else { return 0 };
    let features = [
        (true, timeline::feature::SWITCHES),
        (events.interrupts, timeline::feature::INTERRUPTS),
        (events.clocks, timeline::feature::CLOCKS),
        (events.migrations == MigrationScope::All, timeline::feature::ALL_MIGRATIONS),
        (events.wakeups, timeline::feature::WAKEUPS),
        (events.filter_results, timeline::feature::FILTER_RESULTS),
        (settings.queue_clock, timeline::feature::QUEUE_CLOCK),
    ];
    features.iter().filter(|(wanted, _)| *wanted).fold(0, |bits, (_, bit)| bits | bit)
}

/// Whether the programs keep the throttling clock of each task that leaves a CPU.
fn needs_throttled_clocks(settings: &Settings) -> bool {
    settings.causes.is_some() || (settings.queue_clock && settings.timeline.is_some_and(|events| events.clocks))
}

/// Reads the kernel's BTF.
pub(super) fn read_types(path: &Path) -> Result<Vec<u8>> {
    btf::read(path)?.with_context(|| format!("there is no BTF file `{}`", path.display()))
}

/// Parses the kernel's BTF.
pub(super) fn parse_types(bytes: Vec<u8>) -> Result<Btf> {
    Btf::parse(&bytes, Default::default()).context("cannot parse the kernel's BTF")
}

fn fill_filter(ebpf: &mut Ebpf, settings: &Settings) -> Result<()> {
    let selection = &settings.filter;
    if selection.parts & (part::COMM | part::CPU | part::PRIO | part::POLICY) != 0 {
        let mut filter: Array<_, Filter> = Array::try_from(map(ebpf, "FILTER")?)?;
        filter.set(0, *selection.filter, 0).context("cannot write the filter")?;
    }
    fill_set(ebpf, "TGIDS", &selection.tgids)?;
    fill_set(ebpf, "PIDS", &selection.pids)?;
    fill_set(ebpf, "CGROUPS", &selection.cgroup_ids)
}

fn fill_set<K: aya::Pod>(ebpf: &mut Ebpf, name: &str, keys: &[K]) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut set: HashMap<&mut MapData, K, u8> = HashMap::try_from(map(ebpf, name)?)?;
    for key in keys {
        set.insert(key, 1, 0).context("cannot write the filter")?;
    }
    Ok(())
}

/// Adds to the loader's error what the user can do about it.
fn explain(error: EbpfError, settings: &Settings) -> anyhow::Error {
    let advice = match &error {
        // A smaller map does not help against too many open files.
        EbpfError::MapError(MapError::CreateError { io_error, .. }) if is_out_of_files(io_error) => None,
        EbpfError::MapError(MapError::CreateError { name, .. }) => match name.as_str() {
            "RECORD_SLOTS" => Some(format!(
                "the kernel rejects ring buffers of `{}` bytes; give a smaller `--ring-size`",
                settings.ring_bytes
            )),
            "TASK_OVERFLOW" | "TASK_SLOTS" | "QUEUE_SLOTS" | "THROTTLED_CLOCKS" => Some(format!(
                "the kernel rejects a table for `{}` tasks; give a smaller `--max-tasks`",
                settings.max_tasks
            )),
            name if groups::MAPS.contains(&name) => Some(format!(
                "the kernel rejects a table of groups of `{}` bytes; give a smaller `--group-memory`, or use `--mode samples`",
                settings.groups.map_or(0, |groups| groups.bytes)
            )),
            _ => None,
        },
        _ => None,
    };
    anyhow!(error).context(advice.unwrap_or_else(|| "cannot load the BPF programs".to_owned()))
}

/// Whether the process has reached its limit of open files.
fn is_out_of_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Error, ErrorKind};

    use wakelat_common::{Classes, filter::Filter};

    use super::*;
    use crate::collect::FilterSettings;

    /// Settings that measure waits of no class.
    pub(in crate::collect) fn settings() -> Settings {
        let filter = FilterSettings {
            parts: 0,
            filter: Box::new(Filter::default()),
            tgids: Vec::new(),
            pids: Vec::new(),
            cgroup_ids: Vec::new(),
        };
        Settings {
            attach: Attach::Auto,
            btf: None,
            tracefs: None,
            max_tasks: 64,
            ring_bytes: 4096,
            classes: Classes(0),
            threshold_ns: 0,
            aggregate: false,
            groups: None,
            with_waking: false,
            from_waking: false,
            with_cgroup: false,
            queue_clock: false,
            causes: None,
            is_service: false,
            trigger_rules: false,
            timeline: None,
            sampling_seed: None,
            filter,
        }
    }

    fn refused(map: &str, io_error: Error) -> String {
        explain(MapError::CreateError { name: map.to_owned(), io_error }.into(), &settings()).to_string()
    }

    #[test]
    fn a_refused_map_is_explained_by_its_name_and_not_by_the_text_of_the_error() {
        let memory = || Error::from(ErrorKind::OutOfMemory);
        assert!(refused("TASK_OVERFLOW", memory()).contains("give a smaller `--max-tasks`"));
        assert!(refused("TASK_SLOTS", memory()).contains("give a smaller `--max-tasks`"));
        assert!(refused("GROUPS_1", memory()).contains("give a smaller `--group-memory`"));
        assert_eq!(refused("FILTER", Error::other("TASK_SLOTS")), "cannot load the BPF programs");
    }

    #[test]
    fn too_many_open_files_are_not_explained_by_the_size_of_a_map() {
        assert_eq!(refused("TASK_SLOTS", Error::from_raw_os_error(libc::EMFILE)), "cannot load the BPF programs");
    }
}
