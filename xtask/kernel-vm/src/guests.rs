//! Runs the planned guests, several at a time.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use wakelat_build::Architecture;

use super::{
    boot_plan::BootPlan,
    clock,
    fetch::KernelImage,
    platform::Platform,
    qemu::{Accel, BootEnd, GuestStream, Limits, TimeMode, VirtualMachine},
    reproducibility::{self, BootOutput},
    result_table::{self, VmResult, VmRow},
    suites::GuestTask,
    verdict::{self, BootOutcome, Transcript},
};

/// How long a kernel under KVM may take to reach its init, before KVM counts as unusable.
const PROBE_LIMITS: Limits = Limits { silence: Duration::from_secs(10), total: Duration::from_secs(10) };

/// A guest to run.
pub struct PlannedGuest {
    /// The kernel's name in the list.
    pub name: String,
    /// What the kernel runs on.
    pub architecture: Architecture,
    /// How often to boot it, and how its time passes.
    pub plan: BootPlan,
    /// What it does.
    pub task: GuestTask,
    /// The kernel, or the reason why there is none.
    pub kernel: Result<KernelImage, String>,
}

/// What the guests of one run share.
pub struct Guests<'a> {
    /// The emulator and the root file system of each architecture that has a kernel.
    pub platforms: &'a BTreeMap<Architecture, Platform>,
    /// A guest that exceeds these limits has failed.
    pub limits: Limits,
}

/// The machine of a guest that does `task`.
fn machine<'a>(
    platform: &'a Platform,
    name: &'a str,
    mode: TimeMode,
    task: String,
    kernel: &'a KernelImage,
) -> VirtualMachine<'a> {
    VirtualMachine {
        emulator: &platform.emulator,
        name,
        vmlinuz: &kernel.vmlinuz,
        initramfs: &platform.image,
        mode,
        accel: platform.accel,
        tsc_khz: clock::tsc_khz(),
        interactive: false,
        task,
    }
}

impl Guests<'_> {
    /// Runs the planned guests, `jobs` at a time, the longest first. The rows are in the order of the plan.
    pub fn run_all(&self, planned: Vec<PlannedGuest>, jobs: usize) -> Vec<VmRow> {
        let mut planned: Vec<(usize, PlannedGuest)> = planned.into_iter().enumerate().collect();
        planned.sort_by_key(|(_, guest)| (guest.plan.start_order(), Reverse(guest.task.suites())));
        let waiting = Mutex::new(planned.into_iter());
        let done = Mutex::new(Vec::new());
        // The scope propagates a panic of a guest's thread, so a poisoned lock is never used.
        let next = || waiting.lock().expect("not poisoned").next();
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some((index, guest)) = next() {
                        let result = match (&guest.kernel, self.platforms.get(&guest.architecture)) {
                            (Ok(kernel), Some(platform)) => self.run_one(platform, &guest, kernel),
                            (Err(why), _) => VmResult::Skipped(why.clone()),
                            (Ok(_), None) => VmResult::Broken("nothing is prepared for its architecture".to_owned()),
                        };
                        let row = VmRow { kernel: guest.name, mode: guest.plan.to_string(), result };
                        done.lock().expect("not poisoned").push((index, row));
                    }
                });
            }
        });
        let mut rows = done.into_inner().expect("not poisoned");
        rows.sort_by_key(|(index, _)| *index);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Boots one guest, as often as its plan says, and shows its output.
    fn run_one(&self, platform: &Platform, guest: &PlannedGuest, kernel: &KernelImage) -> VmResult {
        let start = Instant::now();
        let PlannedGuest { name, plan, task, .. } = guest;
        let machine = machine(platform, name, plan.mode(), task.argument(), kernel);
        let show = |stream, line: &str| {
            let source = if stream == GuestStream::Console { "kernel: " } else { "" };
            println!("[{name} {plan}] {source}{line}");
        };
        let outcome = match plan {
            BootPlan::Once(_) => transcribe(&machine, self.limits, show),
            BootPlan::Twice => self.repeat(&machine, show),
        };
        match outcome {
            Ok(outcome) => {
                let suites = outcome.suites.iter().map(|(suite, took)| (suite.as_str(), *took));
                if suites.len() > 0 {
                    println!("[{name} {plan}] suites: {}", result_table::times(suites));
                }
                VmResult::Done { outcome, took: start.elapsed() }
            }
            Err(why) => VmResult::Broken(format!("{why:#}")),
        }
    }

    /// Boots a machine twice. Shows its output, and the lines that differ when it runs again.
    fn repeat(&self, machine: &VirtualMachine, mut show: impl FnMut(GuestStream, &str)) -> anyhow::Result<BootOutcome> {
        let mut first = BootOutput::default();
        let outcome = transcribe(machine, self.limits, |stream, line| {
            first.line(stream, line);
            show(stream, line);
        })?;
        let mut second = BootOutput::default();
        let again = transcribe(machine, self.limits, |stream, line| second.line(stream, line))?;
        let (outcome, differences) = reproducibility::compare((outcome, first), (again, second));
        differences.lines().for_each(|line| show(GuestStream::Results, line));
        Ok(outcome)
    }

    /// Gives the terminal to one guest.
    ///
    /// # Errors
    /// Fails if the command in the guest or QEMU fails.
    pub fn on_terminal(&self, guest: &PlannedGuest, mode: TimeMode, kernel: &KernelImage) -> anyhow::Result<()> {
        let PlannedGuest { name, architecture, .. } = guest;
        let platform = self.platforms.get(architecture).context("nothing is prepared for its architecture")?;
        eprintln!("vm: {name} {mode}; Ctrl-A X ends it");
        let machine = machine(platform, name, mode, "shell".to_owned(), kernel);
        let machine = VirtualMachine { interactive: true, ..machine };
        match machine.boot_on_terminal()? {
            BootEnd::Exit(code @ (verdict::EXIT_SUCCESS | verdict::EXIT_FAILURE | 0)) => {
                eprintln!(
                    "vm: {name} {mode}: ended{}",
                    if code == 0 { " by a reboot, a panic or Ctrl-A X" } else { "" }
                );
                ensure!(code != verdict::EXIT_FAILURE, "the command failed in {name}");
                Ok(())
            }
            other => bail!("QEMU ended with {other:?}"),
        }
    }
}

/// Boots a machine and sums up its output. Passes on each line except the init's markers and blank lines.
fn transcribe(
    machine: &VirtualMachine,
    limits: Limits,
    mut show: impl FnMut(GuestStream, &str),
) -> anyhow::Result<BootOutcome> {
    let mut transcript = Transcript::default();
    let end = machine.boot(limits, |stream, line, at| {
        match stream {
            GuestStream::Results => transcript.result_line(line, at),
            GuestStream::Console => transcript.console_line(line),
        }
        let is_marker = stream == GuestStream::Results && line.starts_with(verdict::MARKER);
        if !is_marker && !line.trim().is_empty() {
            show(stream, line);
        }
    })?;
    Ok(transcript.finish(end))
}

/// Whether a kernel boots under KVM. A nested guest may offer KVM but be unable to run a kernel under it,
/// which only a try shows.
pub fn has_kvm(platform: &Platform, kernel: &KernelImage) -> anyhow::Result<bool> {
    let machine = machine(platform, "probe", TimeMode::Smp, "probe".to_owned(), kernel);
    let machine = VirtualMachine { accel: Accel::Kvm, ..machine };
    let failure = transcribe(&machine, PROBE_LIMITS, |_, _| {})?.failure;
    if let Some(why) = &failure {
        eprintln!("vm: no KVM, using TCG: {why}");
    }
    Ok(failure.is_none())
}
