//! Loading: the embedded object, its load-time configuration, its maps.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use aya::{
    Btf, Ebpf, EbpfLoader,
    maps::{Array, HashMap, Map, MapData, PerCpuArray, RingBuf},
};
use aya_log::EbpfLogger;
use wakelat_common::{
    filter::{Filter, part},
    histogram::HISTOGRAMS,
    stack::ROOM,
    timeline,
};

use super::{
    Collector, Moves, Settings,
    attach::{self, Way},
    gate::Gate,
    histograms::Histograms,
    records::Records,
    stacks::Stacks,
    starts::{Room, Starts},
};
use crate::{config::Attach, kernel::btf::has_tracepoint};

/// The BPF programs, compiled by the build script.
pub(super) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/wakelat.bpf.o"));

impl Collector {
    /// Loads the programs and verifies those that `settings` need. Nothing is attached yet.
    ///
    /// # Errors
    /// Where the kernel refuses a map or a program, with the kernel's own reason.
    pub fn load(settings: &Settings) -> Result<Self> {
        let collector = Self::load_by_best_way(settings);
        give_back_memory();
        collector
    }

    fn load_by_best_way(settings: &Settings) -> Result<Self> {
        let btf = settings.btf.as_deref().map(read_types).transpose()?;
        let ways: &[Way] = match (settings.attach, &btf) {
            (Attach::Auto, Some(_)) => &[Way::Typed, Way::Raw],
            (Attach::Auto, None) | (Attach::Classic, _) => &[Way::Classic],
            (Attach::Btf, _) => &[Way::Typed],
            (Attach::Raw, _) => &[Way::Raw],
        };
        // What tells it has no other entries (wakelat-ebpf/src/entry/raw.rs says why).
        let ways = match settings.timeline {
            Some(_) if ways.contains(&Way::Typed) => &[Way::Typed],
            Some(_) => bail!(
                "what happens between waits is told by typed tracepoints alone; use a kernel with BTF, or give its BTF with \
                 `--btf FILE`, and leave out `--attach` or give `btf`"
            ),
            None => ways,
        };
        Self::load_object(settings, ways, btf.as_ref())
    }

    fn load_object(settings: &Settings, ways: &[Way], btf: Option<&Btf>) -> Result<Self> {
        let records = match &settings.tracefs {
            Some(tracefs) if ways.contains(&Way::Classic) => Records::read(tracefs)?,
            _ => Records::default(),
        };
        // A mark at a quarter leaves the reader time to come.
        let ring_mark = u64::from(settings.ring_bytes / 4);
        let flag = |on: bool| u32::from(on);
        let stack_roles = settings.timeline.map_or(0, |timeline| timeline.stacks);
        let stacks = if stack_roles != 0 { ROOM } else { 1 };
        let globals32 = [
            ("CLASSES", settings.classes.0),
            ("FILTER_PARTS", settings.filter.parts),
            ("OWN_TGID", std::process::id()),
            ("FROM_WAKING", flag(settings.from_waking)),
            ("WITH_CGROUP", flag(settings.with_cgroup)),
            ("AGGREGATE", flag(settings.aggregate)),
            ("TRIGGER_RULES", flag(settings.trigger_rules)),
            ("SHARED_OUT", flag(settings.salt.is_some())),
            ("TIMELINE", timeline_parts(settings)),
            ("STACK_ROLES", stack_roles.into()),
        ];
        let salt = settings.salt.unwrap_or(0);
        let room = Room::of(settings.start_entries);
        let place_bits = room.place_bits();
        let entries = |length: usize| u32::try_from(length.max(1)).context("too many ids in the filter");
        let mut loader = EbpfLoader::new();
        loader
            .btf(btf)
            .override_global("THRESHOLD_NS", &settings.threshold_ns, true)
            .override_global("RING_MARK", &ring_mark, true)
            .override_global("SALT", &salt, true)
            .override_global("PLACE_BITS", &place_bits, true)
            .override_global("WAKEUP_OFFSETS", &records.woken, true)
            .override_global("PREV_OFFSETS", &records.prev, true)
            .override_global("NEXT_OFFSETS", &records.next, true)
            .map_max_entries("PLACES", room.places)
            .map_max_entries("STARTS", room.map)
            .map_max_entries("RUNNING", nr_cpus()?)
            .map_max_entries("SAMPLES", settings.ring_bytes)
            .map_max_entries("KERNEL_STACKS", stacks)
            .map_max_entries("USER_STACKS", stacks)
            .map_max_entries("HISTOGRAMS", if settings.aggregate { HISTOGRAMS } else { 1 })
            .map_max_entries("TGIDS", entries(settings.filter.tgids.len())?)
            .map_max_entries("PIDS", entries(settings.filter.pids.len())?)
            .map_max_entries("CGROUPS", entries(settings.filter.cgroup_ids.len())?);
        for (name, value) in &globals32 {
            loader.override_global(name, value, true);
        }
        let mut ebpf = loader.load(OBJECT).map_err(|error| explain(error, settings))?;
        fill_filter(&mut ebpf, settings)?;
        let exists = |tracepoint: &str| btf.is_some_and(|btf| has_tracepoint(btf, tracepoint));
        let attached = attach::verify(&mut ebpf, &attach::targets(settings, exists), ways, btf)?;
        let starts = Starts::take(&mut ebpf, room.places)?;
        // From here on the programs hold their maps.
        let diagnostics = EbpfLogger::init(&mut ebpf)
            .inspect_err(|error| log::warn!("diagnostics of the BPF programs will not be shown: {error}"))
            .ok();
        Ok(Self {
            stacks: (stack_roles != 0).then(|| Stacks::take(&mut ebpf)).transpose()?,
            histograms: settings.aggregate.then(|| Histograms::take(&mut ebpf)).transpose()?,
            ring_bytes: settings.ring_bytes,
            ring: RingBuf::try_from(take(&mut ebpf, "SAMPLES")?)?,
            level: Array::try_from(take(&mut ebpf, "LEVEL")?)?,
            gate: Gate::take(&mut ebpf)?,
            running: Array::try_from(take(&mut ebpf, "RUNNING")?)?,
            counters: PerCpuArray::try_from(take(&mut ebpf, "COUNTERS")?)?,
            here: settings
                .timeline
                .map(|_| take(&mut ebpf, "HERE"))
                .transpose()?
                .map(PerCpuArray::try_from)
                .transpose()?,
            starts,
            attached,
            diagnostics,
            ebpf,
        })
    }
}

/// The kernel's types take some 25 MiB while the programs are loaded, in small pieces, which the allocator would keep.
fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and frees only what nothing uses.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bits of [`timeline::part`].
fn timeline_parts(settings: &Settings) -> u32 {
    let Some(told) = settings.timeline else { return 0 };
    let parts = [
        (true, timeline::part::TURNS),
        (told.noise, timeline::part::NOISE),
        (told.clocks, timeline::part::CLOCKS),
        (told.moves == Moves::All, timeline::part::ALL_MOVES),
        (told.wakeups, timeline::part::WAKEUPS),
        (told.verdicts, timeline::part::VERDICTS),
    ];
    parts.iter().filter(|(told, _)| *told).fold(0, |parts, (_, part)| parts | part)
}

/// The kernel's types.
pub(super) fn read_types(path: &Path) -> Result<Btf> {
    Btf::parse_file(path, Default::default())
        .with_context(|| format!("cannot read the kernel's types from `{}`", path.display()))
}

/// CPUs that may ever be numbered: entries of maps that have a CPU for a key.
fn nr_cpus() -> Result<u32> {
    let cpus = aya::util::nr_cpus().map_err(|(path, error)| anyhow!(error).context(format!("cannot read `{path}`")))?;
    u32::try_from(cpus).context("too many CPUs")
}

pub(super) fn take(ebpf: &mut Ebpf, name: &str) -> Result<Map> {
    ebpf.take_map(name).with_context(|| format!("the BPF object has no map `{name}`"))
}

fn map<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Map> {
    ebpf.map_mut(name).with_context(|| format!("the BPF object has no map `{name}`"))
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

/// The loader's error with what the user can do about it.
fn explain(error: aya::EbpfError, settings: &Settings) -> anyhow::Error {
    let text = error.to_string();
    let error = anyhow!(error);
    if text.contains("SAMPLES") {
        error.context(format!(
            "the kernel refuses a ring buffer of `{}` bytes; give a smaller `--ring-size`",
            settings.ring_bytes
        ))
    } else if text.contains("STARTS") || text.contains("PLACES") {
        error.context(format!(
            "the kernel refuses a table of `{}` starts; give fewer `--start-entries`",
            settings.start_entries
        ))
    } else {
        error.context("cannot load the BPF programs")
    }
}
