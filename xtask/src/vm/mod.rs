//! `cargo xtask vm`: the kernel tests, or one command, in real kernels under QEMU.

mod apt;
mod clock;
mod course;
mod emulator;
pub mod fetch;
mod guests;
mod image;
mod initramfs;
mod instructions;
pub mod kernels;
mod monitor;
mod progress;
mod qemu;
mod repeated;
mod rtla;
mod schedule;
mod suites;
pub mod table;
mod unpacked;
pub mod verdict;

use std::{
    fs,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;

use self::{
    course::BootPlan,
    emulator::Emulator,
    fetch::KernelImage,
    guests::{Guests, PlannedGuest},
    image::{GuestPrograms, ImageDirectory},
    instructions::InstructionTable,
    kernels::KernelSpec,
    qemu::{Accel, Limits, TimeMode},
    table::{VmResult, VmRow},
};
use crate::{
    setup::{self, Purpose},
    workspace,
};

/// Where the accepted instruction counts are.
const INSTRUCTIONS: &str = "tests/verified-instructions.txt";

/// Several times what the slowest test, and all of them, take in a guest on a busy machine.
const LIMITS: Limits = Limits { silence: Duration::from_secs(180), total: Duration::from_secs(1800) };

/// What is to be run where.
#[derive(clap::Args, Debug, Default)]
pub struct VmArgs {
    /// Only this kernel: `6.12-rt` of the list, or any as `SUITE:SERIES-FLAVOUR`; may be repeated [default: the whole list]
    #[arg(long = "kernel", value_name = "NAME")]
    kernels: Vec<String>,
    /// What of the list runs with every change: all kernels, few in every mode
    #[arg(long, conflicts_with_all = ["kernels", "mode", "test", "all_suites", "command"])]
    everyday: bool,
    /// How the guest's time passes [default: both for tests, one kernel of each series counted, and one repeated; smp for a
    /// command]
    #[arg(long, value_enum)]
    mode: Option<Modes>,
    /// What executes the guest; the deterministic mode is always TCG
    #[arg(long, value_enum, default_value_t)]
    accel: AccelChoice,
    /// Guests side by side; each takes one processor [default: one for each processor]
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// A guest that prints nothing for so long has failed; time in which it waits for a processor of the host does not count
    /// [default: 180]
    #[arg(long, value_name = "SECONDS")]
    silence_limit: Option<u64>,
    /// A guest that runs longer has failed, counted likewise [default: 1800]
    #[arg(long, value_name = "SECONDS")]
    time_limit: Option<u64>,
    /// Only tests whose name contains this
    #[arg(long, value_name = "TEXT", conflicts_with = "command")]
    test: Option<String>,
    /// All test binaries, not only those that every kernel is worth its time for; `--test` looks in all of them too
    #[arg(long, conflicts_with = "command")]
    all_suites: bool,
    /// In place of the tests, every command that measures for so long each, while two pipes keep two processors busy
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "600",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["everyday", "mode", "all_suites", "accept_instructions", "command"]
    )]
    soak: Option<u64>,
    /// Take the verifier's instruction counts of this run as the accepted ones
    #[arg(long, conflicts_with = "command")]
    accept_instructions: bool,
    /// A command for the guest instead of the tests; at a terminal, `sh` is a shell
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl VmArgs {
    /// What runs with every change.
    pub fn everyday() -> Self {
        Self { everyday: true, ..Self::default() }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Modes {
    /// Two processors, the host's time
    Smp,
    /// One processor, time counted in instructions, identical runs
    Deterministic,
    /// Two processors that take turns, time counted in instructions
    Counted,
    /// Smp and deterministic, one after the other
    Both,
    /// The deterministic one twice: all it says must be the same
    Repeated,
}

impl Modes {
    const fn courses(self) -> &'static [BootPlan] {
        match self {
            Self::Smp => &[BootPlan::Once(TimeMode::Smp)],
            Self::Deterministic => &[BootPlan::Once(TimeMode::Deterministic)],
            Self::Counted => &[BootPlan::Once(TimeMode::Counted)],
            Self::Both => &[BootPlan::Once(TimeMode::Smp), BootPlan::Once(TimeMode::Deterministic)],
            Self::Repeated => &[BootPlan::Twice],
        }
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum AccelChoice {
    /// Emulation: works everywhere
    #[default]
    Tcg,
    /// The host's processor
    Kvm,
    /// KVM where a kernel boots under it within seconds, else TCG
    Auto,
}

pub fn main(args: &VmArgs) -> anyhow::Result<ExitCode> {
    let failed = run(args)?.iter().any(|row| row.failure().is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs the guests and shows what they say, and a table at the end. What the host lacks is no error: it is skipped, with
/// the reason in the table.
///
/// # Errors
/// Where the guests cannot be prepared, a command at the terminal failed, or the verifier has more to do than was accepted.
pub fn run(args: &VmArgs) -> anyhow::Result<Vec<VmRow>> {
    let started = Instant::now();
    let specs = kernels::select(&args.kernels)?;
    setup::ensure(Purpose::Test)?;
    let emulator = Emulator::find();
    let planned = plan(&specs, |spec| jobs(args, spec, &specs), emulator.as_ref().err())?;
    let first = planned.iter().find_map(|guest| guest.kernel.clone().ok());
    let (Some(first), Ok(emulator)) = (first, emulator) else {
        let rows = skipped(planned);
        conclude(&rows, started);
        return Ok(rows);
    };

    let workplace = ImageDirectory::take()?;
    let programs = GuestPrograms::build()?;
    let tests = args.command.is_empty();
    let (mut others, mut commands) = (peers(), busybox());
    let job = if tests {
        // A shell is enough for what wakelat runs; the other commands would make the tests' machine another one.
        others.extend(commands.take().map(|shell| ("bin/sh".to_owned(), shell)));
        args.test.as_slice()
    } else {
        &args.command[..]
    };
    programs.write_image(&workplace.image, &others, commands.as_deref(), job)?;
    let guests = Guests {
        emulator: &emulator,
        image: &workplace.image,
        accel: accel(&emulator, args.accel, &first, &workplace.image)?,
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

/// How long a guest may run in which each command measures for `soak` seconds, if it does.
fn usual_limit(soak: Option<u64>) -> Duration {
    /// More than there are.
    const COMMANDS: u64 = 20;
    LIMITS.total + Duration::from_secs(soak.map_or(0, |seconds| COMMANDS * seconds))
}

/// What a kernel is booted for, each with the argument of the init.
fn jobs(args: &VmArgs, spec: &KernelSpec, specs: &[KernelSpec]) -> Vec<(BootPlan, String)> {
    if let Some(seconds) = args.soak {
        return vec![(BootPlan::Once(TimeMode::Smp), format!("soak={seconds}"))];
    }
    let is_whole_list = args.mode.is_none() && args.test.is_none() && !args.all_suites && args.command.is_empty();
    if is_whole_list {
        let jobs = if args.everyday { schedule::everyday(spec) } else { schedule::full(spec, specs) };
        return jobs.into_iter().map(|job| (job.plan, suites::task(&job.suites))).collect();
    }
    let modes = args.mode.unwrap_or(if args.command.is_empty() { Modes::Both } else { Modes::Smp });
    let task = |course| match () {
        () if !args.command.is_empty() => "command".to_owned(),
        // A test is looked for in all suites.
        () if args.all_suites || args.test.is_some() => suites::task(&[]),
        () => suites::task(&suites::of(course)),
    };
    modes.courses().iter().map(|course| (*course, task(*course))).collect()
}

/// Each kernel in each of its courses; where there is none, or nothing to run it, with the reason.
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
        jobs.into_iter().map(move |(course, task)| PlannedGuest {
            name: spec.to_string(),
            plan: course,
            task,
            kernel: kernel.clone(),
        })
    });
    Ok(guests.collect())
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

/// Other instruments to hold wakelat against; a test that finds none is skipped.
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
    let mut seen = InstructionTable::default();
    for row in rows {
        if let VmResult::Done { outcome, .. } = &row.result {
            for (program, count) in &outcome.verified {
                seen.insert(&row.kernel, program, *count);
            }
        }
    }
    let path = workspace::root().join(INSTRUCTIONS);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other.with_context(|| format!("cannot read `{INSTRUCTIONS}`"))?,
    };
    let accepted = InstructionTable::parse(&text).with_context(|| format!("cannot read `{INSTRUCTIONS}`"))?;
    if accept {
        ensure!(!seen.is_empty(), "no test told an instruction count: nothing to accept");
        return fs::write(&path, accepted.accepting(&seen).render())
            .with_context(|| format!("cannot write `{INSTRUCTIONS}`"));
    }
    for kernel in accepted.unknown_kernels(&seen) {
        println!("vm: note: `{INSTRUCTIONS}` has no counts of {kernel}; `--accept-instructions` adds them");
    }
    let complaints = accepted.regressions(&seen);
    if !complaints.is_empty() {
        bail!(
            "the verifier has more to walk through than `{INSTRUCTIONS}` says:\n  {}\nif that is meant, run `cargo xtask vm --accept-instructions`",
            complaints.join("\n  ")
        );
    }
    Ok(())
}

fn conclude(rows: &[VmRow], started: Instant) {
    println!("\n{}", table::render(rows));
    let failed = rows.iter().filter(|row| row.failure().is_some()).count();
    let skipped = rows.iter().filter(|row| matches!(row.result, VmResult::Skipped(_))).count();
    let passed = rows.len() - failed - skipped;
    println!("vm: {passed} passed, {failed} failed, {skipped} skipped, in {:.0} s", started.elapsed().as_secs_f64());
}
