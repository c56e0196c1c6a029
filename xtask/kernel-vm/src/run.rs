//! Runs the kernel tests, or one command, in the requested kernels.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::IsTerminal,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use wakelat_build::{Architecture, workspace};

use crate::{
    args::{AccelChoice, Modes, VmArgs},
    boot_plan::BootPlan,
    emulator::Emulator,
    fetch::{self, KernelImage},
    guests::{self, Guests, PlannedGuest},
    image::ImageDirectory,
    instruction_table::{InstructionKind, InstructionTable},
    kernels::{self, KernelSpec},
    platform::{self, ImageContent, Platform},
    qemu::{Accel, Limits, TimeMode},
    result_table::{self, VmResult, VmRow},
    suites::{self, GuestTask},
    test_matrix,
};

/// Several times what the slowest test (`silence`) and all of them (`total`) take in a guest on a busy
/// machine.
const LIMITS: Limits = Limits { silence: Duration::from_secs(180), total: Duration::from_secs(1800) };

/// Runs the guests, and shows their output and a table at the end. Anything that the host lacks is not an
/// error: the guest is skipped, with the reason in the table.
///
/// # Errors
/// Fails if the guests cannot be prepared, a command at the terminal failed, or the verifier walks through
/// more instructions than were accepted.
pub fn run(args: &VmArgs) -> anyhow::Result<Vec<VmRow>> {
    let started = Instant::now();
    let specs = kernels::select(&args.kernels)?;
    let specs: Vec<(KernelSpec, Vec<(BootPlan, GuestTask)>)> = specs
        .iter()
        .map(|spec| (spec.clone(), jobs(args, spec, &specs)))
        .filter(|(_, jobs)| !jobs.is_empty())
        .collect();
    let architectures: BTreeSet<Architecture> = specs.iter().map(|(spec, _)| spec.architecture).collect();
    let mut emulators: BTreeMap<_, _> =
        architectures.into_iter().map(|architecture| (architecture, platform::emulator(architecture))).collect();
    let planned = plan(specs, &emulators)?;
    let tests = args.command.is_empty();

    let image_dir = ImageDirectory::take()?;
    let mut platforms = BTreeMap::new();
    while let Some((architecture, emulator)) = emulators.pop_first() {
        let guests = || planned.iter().filter(|guest| guest.architecture == architecture);
        let Some(kernel) = guests().find_map(|guest| guest.kernel.as_ref().ok()) else { continue };
        let job = if tests { args.test.as_slice() } else { &args.command };
        let runs_tests = guests().any(|guest| guest.task.runs_tests());
        let content = ImageContent { tests: runs_tests, commands: !tests, job };
        let mut platform = Platform::prepare(emulator?, &image_dir, &content)?;
        platform.accel = accel(&platform, args.accel, kernel)?;
        platforms.insert(architecture, platform);
    }
    let guests = Guests {
        platforms: &platforms,
        limits: Limits {
            silence: args.silence_limit.map_or(LIMITS.silence, Duration::from_secs),
            total: args.time_limit.map_or_else(|| usual_limit(args.soak), Duration::from_secs),
        },
    };

    if let ([guest @ PlannedGuest { plan: BootPlan::Once(mode), kernel: Ok(kernel), .. }], false) =
        (&planned[..], tests)
        && std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
    {
        guests.on_terminal(guest, *mode, kernel)?;
        return Ok(vec![]);
    }
    let jobs = args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, Into::into));
    let rows = guests.run_all(planned, jobs.max(1));
    conclude(&rows, started);
    if tests {
        check_instructions(&rows, args.accept_instructions)?;
    }
    Ok(rows)
}

/// The time limit of a guest, extended for a soak in which each command measures for `soak` seconds.
fn usual_limit(soak: Option<u64>) -> Duration {
    /// An upper bound on the number of commands.
    const COMMANDS: u64 = 20;
    LIMITS.total + Duration::from_secs(soak.map_or(0, |seconds| COMMANDS * seconds))
}

/// The boots of a kernel, each with its task.
fn jobs(args: &VmArgs, spec: &KernelSpec, specs: &[KernelSpec]) -> Vec<(BootPlan, GuestTask)> {
    if let Some(seconds) = args.soak {
        return vec![(BootPlan::Once(TimeMode::Smp), GuestTask::Soak(seconds))];
    }
    let is_whole_list = args.mode.is_none() && args.test.is_none() && !args.all_suites && args.command.is_empty();
    if is_whole_list {
        let jobs = if args.everyday { test_matrix::everyday(spec) } else { test_matrix::full(spec, specs) };
        return jobs.into_iter().map(|job| (job.plan, GuestTask::Suites(job.suites))).collect();
    }
    let modes = args.mode.unwrap_or(if args.command.is_empty() { Modes::Both } else { Modes::Smp });
    let task = |plan| match () {
        () if !args.command.is_empty() => GuestTask::Command,
        // `--test` searches all suites.
        () if args.all_suites || args.test.is_some() => GuestTask::AllSuites,
        () => GuestTask::Suites(suites::of(plan)),
    };
    modes.plans().iter().map(|plan| (*plan, task(*plan))).collect()
}

/// Plans the boots of each kernel. If the kernel, or an emulator, is not available, the plan holds the
/// reason.
fn plan(
    specs: Vec<(KernelSpec, Vec<(BootPlan, GuestTask)>)>,
    emulators: &BTreeMap<Architecture, anyhow::Result<Emulator>>,
) -> anyhow::Result<Vec<PlannedGuest>> {
    let has_emulator = |spec: &KernelSpec| emulators.get(&spec.architecture).is_some_and(Result::is_ok);
    let wanted: Vec<KernelSpec> = specs.iter().map(|(spec, _)| spec.clone()).filter(has_emulator).collect();
    let mut fetched = fetch::kernels(&wanted)?.into_iter();
    let mut planned = Vec::new();
    for (spec, jobs) in specs {
        let kernel = match &emulators[&spec.architecture] {
            Ok(_) => fetched.next().context("a kernel was not fetched")?.1.map_err(|why| format!("{why:#}")),
            Err(why) => Err(format!("{}: {why:#}", spec.architecture.name())),
        };
        planned.extend(jobs.into_iter().map(|(plan, task)| PlannedGuest {
            name: spec.to_string(),
            architecture: spec.architecture,
            plan,
            task,
            kernel: enough_memory(plan.mode()).and(kernel.clone()),
        }));
    }
    Ok(planned)
}

/// Fails if the host has too little memory for a guest of this mode, with the reason.
fn enough_memory(mode: TimeMode) -> Result<(), String> {
    let needed_mib = u64::from(mode.memory_mib());
    let info = fs::read_to_string("/proc/meminfo").map_err(|why| format!("cannot read `/proc/meminfo`: {why}"))?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available_mib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024;
    if available_mib >= needed_mib {
        return Ok(());
    }
    Err(format!(
        "a guest with {} CPUs needs {needed_mib} MiB of memory, {available_mib} MiB are available",
        mode.cpus()
    ))
}

/// What executes the guests of a platform: the host's CPU only if their architecture is its own.
fn accel(platform: &Platform, choice: AccelChoice, kernel: &KernelImage) -> anyhow::Result<Accel> {
    Ok(match choice {
        AccelChoice::Kvm | AccelChoice::Auto if !platform.emulator.architecture().is_own() => Accel::Tcg,
        AccelChoice::Tcg => Accel::Tcg,
        AccelChoice::Kvm => Accel::Kvm,
        AccelChoice::Auto if guests::has_kvm(platform, kernel)? => Accel::Kvm,
        AccelChoice::Auto => Accel::Tcg,
    })
}

/// Compares the instruction counts of this run with the accepted ones, or accepts them.
fn check_instructions(rows: &[VmRow], accept: bool) -> anyhow::Result<()> {
    let mut accepted = 0;
    for kind in InstructionKind::ALL {
        let seen = instructions(rows, kind);
        if !seen.is_empty() {
            accepted += 1;
            check_table(kind, &seen, accept)?;
        }
    }
    ensure!(!accept || accepted > 0, "no test reported an instruction count: nothing to accept");
    Ok(())
}

/// The counts of this run.
fn instructions(rows: &[VmRow], kind: InstructionKind) -> InstructionTable {
    let mut seen = InstructionTable::default();
    for row in rows {
        if let VmResult::Done { outcome, .. } = &row.result {
            for ((_, name), count) in outcome.instructions.iter().filter(|((of, _), _)| *of == kind) {
                seen.insert(&row.kernel, name, *count);
            }
        }
    }
    seen
}

fn check_table(kind: InstructionKind, seen: &InstructionTable, accept: bool) -> anyhow::Result<()> {
    let file = kind.file();
    let path = workspace::root().join(file);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other.with_context(|| format!("cannot read `{file}`"))?,
    };
    let accepted = InstructionTable::parse(&text).with_context(|| format!("cannot read `{file}`"))?;
    if accept {
        return fs::write(&path, accepted.accepting(seen).render(kind))
            .with_context(|| format!("cannot write `{file}`"));
    }
    for kernel in accepted.unknown_kernels(seen) {
        println!("vm: note: `{file}` has no counts of {kernel}; `--accept-instructions` adds them");
    }
    let complaints = accepted.regressions(seen);
    if !complaints.is_empty() {
        bail!(
            "there are more instructions than `{file}` accepts:\n  {}\nif this is intended, run `cargo xtask vm --accept-instructions`",
            complaints.join("\n  ")
        );
    }
    Ok(())
}

fn conclude(rows: &[VmRow], started: Instant) {
    println!("\n{}", result_table::render(rows));
    let failed = rows.iter().filter(|row| row.failure().is_some()).count();
    let skipped = rows.iter().filter(|row| matches!(row.result, VmResult::Skipped(_))).count();
    let passed = rows.len() - failed - skipped;
    println!("vm: {passed} passed, {failed} failed, {skipped} skipped, in {:.0} s", started.elapsed().as_secs_f64());
}
