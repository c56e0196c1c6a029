//! Runs the kernel tests, or one command, in the requested kernels.

use std::{
    fs,
    io::IsTerminal,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use wakelat_build::workspace;

use crate::{
    args::{AccelChoice, Modes, VmArgs},
    boot_plan::BootPlan,
    emulator::Emulator,
    fetch::{self, KernelImage},
    guests::{self, Guests, PlannedGuest},
    image::{GuestPrograms, ImageDirectory},
    instruction_table::{InstructionKind, InstructionTable},
    kernels::{self, KernelSpec},
    qemu::{Accel, Limits, TimeMode},
    result_table::{self, VmResult, VmRow},
    rtla, suites, test_matrix,
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
    let emulator = Emulator::find();
    let planned = plan(&specs, |spec| jobs(args, spec, &specs), emulator.as_ref().err())?;
    let first = planned.iter().find_map(|guest| guest.kernel.clone().ok());
    let (Some(first), Ok(emulator)) = (first, emulator) else {
        let rows = skipped(planned);
        conclude(&rows, started);
        return Ok(rows);
    };

    let image_dir = ImageDirectory::take()?;
    let programs = GuestPrograms::build()?;
    let tests = args.command.is_empty();
    let (mut others, mut commands) = (peers(), busybox());
    let job = if tests {
        // wakelat only needs a shell. The other commands would change the environment of the tests.
        others.extend(commands.take().map(|shell| ("bin/sh".to_owned(), shell)));
        args.test.as_slice()
    } else {
        &args.command[..]
    };
    programs.write_image(&image_dir.image, &others, commands.as_deref(), job)?;
    let guests = Guests {
        emulator: &emulator,
        image: &image_dir.image,
        accel: accel(&emulator, args.accel, &first, &image_dir.image)?,
        limits: Limits {
            silence: args.silence_limit.map_or(LIMITS.silence, Duration::from_secs),
            total: args.time_limit.map_or_else(|| usual_limit(args.soak), Duration::from_secs),
        },
    };

    if let ([PlannedGuest { name, plan: BootPlan::Once(mode), kernel: Ok(kernel), .. }], false) = (&planned[..], tests)
        && std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
    {
        guests.on_terminal(name, *mode, kernel)?;
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

/// The boots of a kernel, each with the argument for the init.
fn jobs(args: &VmArgs, spec: &KernelSpec, specs: &[KernelSpec]) -> Vec<(BootPlan, String)> {
    if let Some(seconds) = args.soak {
        return vec![(BootPlan::Once(TimeMode::Smp), format!("soak={seconds}"))];
    }
    let is_whole_list = args.mode.is_none() && args.test.is_none() && !args.all_suites && args.command.is_empty();
    if is_whole_list {
        let jobs = if args.everyday { test_matrix::everyday(spec) } else { test_matrix::full(spec, specs) };
        return jobs.into_iter().map(|job| (job.plan, suites::task(&job.suites))).collect();
    }
    let modes = args.mode.unwrap_or(if args.command.is_empty() { Modes::Both } else { Modes::Smp });
    let task = |plan| match () {
        () if !args.command.is_empty() => "command".to_owned(),
        // `--test` searches all suites.
        () if args.all_suites || args.test.is_some() => suites::task(&[]),
        () => suites::task(&suites::of(plan)),
    };
    modes.plans().iter().map(|plan| (*plan, task(*plan))).collect()
}

/// Plans the boots of each kernel. If the kernel, or an emulator, is not available, the plan holds the
/// reason.
fn plan(
    specs: &[KernelSpec],
    jobs: impl Fn(&KernelSpec) -> Vec<(BootPlan, String)>,
    no_emulator: Option<&anyhow::Error>,
) -> anyhow::Result<Vec<PlannedGuest>> {
    let kernels = match no_emulator {
        None => fetch::kernels(specs)?,
        Some(why) => specs.iter().map(|spec| (spec.clone(), Err(anyhow::anyhow!("{why:#}")))).collect(),
    };
    let guests = kernels.into_iter().flat_map(|(spec, kernel)| {
        let kernel = kernel.map_err(|why| format!("{why:#}"));
        let jobs = jobs(&spec);
        jobs.into_iter().map(move |(plan, task)| PlannedGuest {
            name: spec.to_string(),
            plan,
            task,
            kernel: enough_memory(plan.mode()).and(kernel.clone()),
        })
    });
    Ok(guests.collect())
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

fn skipped(planned: Vec<PlannedGuest>) -> Vec<VmRow> {
    let row = |guest: PlannedGuest| {
        let why = guest.kernel.err().unwrap_or_else(|| "not run".to_owned());
        VmRow { kernel: guest.name, mode: guest.plan.to_string(), result: VmResult::Skipped(why) }
    };
    planned.into_iter().map(row).collect()
}

fn accel(emulator: &Emulator, choice: AccelChoice, kernel: &KernelImage, image: &Path) -> anyhow::Result<Accel> {
    Ok(match choice {
        AccelChoice::Tcg => Accel::Tcg,
        AccelChoice::Kvm => Accel::Kvm,
        AccelChoice::Auto if guests::has_kvm(emulator, kernel, image)? => Accel::Kvm,
        AccelChoice::Auto => Accel::Tcg,
    })
}

/// The files of other tools to compare wakelat with; a test that does not find its tool is skipped.
fn peers() -> Vec<(String, PathBuf)> {
    rtla::files().unwrap_or_else(|why| {
        eprintln!("vm: no rtla in the guests: {why:#}");
        Vec::new()
    })
}

fn busybox() -> Option<PathBuf> {
    match fetch::busybox() {
        Ok(path) => Some(path),
        Err(why) => {
            eprintln!("vm: no busybox, only wakelat's own programs: {why:#}");
            None
        }
    }
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
