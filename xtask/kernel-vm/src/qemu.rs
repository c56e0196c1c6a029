//! Boots one kernel under QEMU.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use anyhow::Context;
use clap::ValueEnum;

use super::{
    emulator::Emulator,
    machine_model::MachineModel,
    monitor::{Monitor, MonitorSocket},
    progress::ProgressClock,
};

/// Kernel parameters for a guest whose time is counted in instructions.
///
/// From 6.17 on, the kernel samples which pages are used (mm/damon/stat.c), through bits that the emulator
/// sets when its own TLB has lost a page. The size of that TLB follows the host's clock, and so would every
/// later instruction.
const COUNTED: &str = "nokaslr damon_stat.enabled=N";

/// Ticks per second of Debian's kernels (`CONFIG_HZ`).
const HZ: u64 = 250;

/// How the guest's time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeMode {
    /// Two CPUs and the host's time: for counts, races and cross-checks. Latencies are noise.
    Smp,
    /// 160 CPUs and the host's time: for counts and memory on a large machine. Takes 12 GiB of memory.
    Large,
    /// One CPU and time counted in instructions: runs are bit for bit identical, latencies are exact.
    Deterministic,
    /// Two CPUs that take turns, and time counted in instructions: for causes of waits that need two.
    /// Lengths are exact by the guest's own clock, which advances while a CPU waits for its turn.
    Counted,
}

impl TimeMode {
    /// Whether time is counted in instructions.
    pub const fn is_counted(self) -> bool {
        matches!(self, Self::Deterministic | Self::Counted)
    }

    /// Number of CPUs of a guest.
    pub const fn cpus(self) -> u32 {
        match self {
            Self::Smp | Self::Counted => 2,
            Self::Large => 160,
            Self::Deterministic => 1,
        }
    }

    /// Memory of a guest: MiB.
    pub const fn memory_mib(self) -> u32 {
        match self {
            Self::Smp | Self::Deterministic | Self::Counted => 1536,
            Self::Large => 12 * 1024,
        }
    }
}

impl fmt::Display for TimeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Smp => "smp",
            Self::Large => "large",
            Self::Deterministic => "deterministic",
            Self::Counted => "counted",
        })
    }
}

/// What executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// QEMU's translator. Always single-threaded: with one thread per CPU, QEMU 7.2 loses the kernel's
    /// breakpoints, and any toggled tracepoint ends in an oops.
    Tcg,
    /// The host's CPU.
    Kvm,
}

/// A machine to boot.
#[derive(Clone)]
pub struct VirtualMachine<'a> {
    /// The emulator that runs it.
    pub emulator: &'a Emulator,
    /// The kernel's name in the list, passed to the guest as `WAKELAT_KERNEL`.
    pub name: &'a str,
    /// The kernel, in a form that the emulator boots.
    pub vmlinuz: &'a Path,
    /// The initial root file system.
    pub initramfs: &'a Path,
    /// How time passes, passed to the guest as `WAKELAT_VM`.
    pub mode: TimeMode,
    /// What executes the instructions. Modes with counted time always use TCG.
    pub accel: Accel,
    /// The rate of the host's time stamp counter in kHz; see [`super::clock`].
    pub tsc_khz: u64,
    /// Whether the guest gets the terminal. Its output is then not read.
    pub interactive: bool,
    /// The argument for the guest's init.
    pub task: String,
}

/// The stream that a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestStream {
    /// What the init and its children print.
    Results,
    /// The serial console, which only the kernel uses, and QEMU's own errors.
    Console,
}

/// When to give up on a guest. Time in which its emulator waits for a CPU of the host does not count.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The guest hangs if it prints no line for this long.
    pub silence: Duration,
    /// The longest that a guest may run.
    pub total: Duration,
}

/// How a boot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootEnd {
    /// QEMU's exit code.
    Exit(i32),
    /// QEMU was killed by this signal.
    Signal(i32),
    /// It printed nothing for this long, and was killed.
    Silent(Duration),
    /// It was still running after this long, and was killed.
    TimeLimit(Duration),
}

impl VirtualMachine<'_> {
    /// QEMU's arguments.
    pub fn arguments(&self) -> Vec<String> {
        let counted = self.mode.is_counted();
        let mut arguments: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| word.to_string()));
        add(self.model().board);
        add(&["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
        add(&["-m", &self.mode.memory_mib().to_string()]);
        add(&["-accel", if self.accel == Accel::Kvm && !counted { "kvm" } else { "tcg,thread=single" }]);
        add(&["-smp", &self.mode.cpus().to_string()]);
        if counted {
            add(&["-icount", "shift=2,sleep=off", "-rtc", "base=2026-01-01T00:00:00,clock=vm", "-seed", "1"]);
        }
        if self.interactive {
            // Ctrl-C goes to the guest; Ctrl-A X ends QEMU.
            add(&["-serial", "mon:stdio"]);
            add(self.model().exit);
        } else {
            add(&["-serial", "file:/dev/stderr"]);
            add(self.model().results);
        }
        add(&["-kernel", &self.vmlinuz.display().to_string()]);
        add(&["-initrd", &self.initramfs.display().to_string()]);
        add(&["-append", &self.command_line()]);
        arguments
    }

    fn model(&self) -> &'static MachineModel {
        MachineModel::of(self.emulator.architecture())
    }

    fn command_line(&self) -> String {
        let mut words = vec![format!("console={}", self.model().console)];
        // A panic, an oops and a lockup end the run at once.
        words.push("quiet loglevel=4 panic=-1 oops=panic softlockup_panic=1".to_owned());
        // Against speculation, which an emulated CPU does not do: they only make indirect jumps slower.
        words.push("mitigations=off".to_owned());
        if self.model().has_hosts_counter {
            // Up to 6.1, the kernel does not trust the emulated clock by itself.
            words.push("tsc=reliable".to_owned());
        }
        match (self.mode, self.accel) {
            (TimeMode::Deterministic, _) => words.push(COUNTED.to_owned()),
            // The init starts the other CPU, because not every kernel can if the CPUs take turns.
            (TimeMode::Counted, _) => words.push(format!("{COUNTED} maxcpus=1")),
            (TimeMode::Smp | TimeMode::Large, Accel::Tcg) if self.model().has_hosts_counter => {
                words.push(format!("tsc_early_khz={}", self.tsc_khz));
                if self.mode == TimeMode::Large {
                    // Otherwise each CPU calibrates its delay loop, which takes minutes for 160 of them that take turns: loops
                    // in a tick (`lpj=`, Documentation/admin-guide/kernel-parameters.txt).
                    words.push(format!("lpj={}", self.tsc_khz * 1_000 / HZ));
                }
            }
            (TimeMode::Smp | TimeMode::Large, _) => {}
        }
        // A parameter that the kernel does not know and that has no dot becomes part of the init's environment.
        words.push(format!("WAKELAT_VM={} WAKELAT_KERNEL={} -- {}", self.mode, self.name, self.task));
        words.join(" ")
    }

    /// Boots, passes on each line as it comes, and returns when the guest has ended. `on_line` also gets
    /// how long the emulator could have run until then.
    pub fn boot(
        &self,
        limits: Limits,
        mut on_line: impl FnMut(GuestStream, &str, Duration),
    ) -> anyhow::Result<BootEnd> {
        let (mut monitor, socket) = Monitor::pair()?;
        let mut qemu = self.spawn(Stdio::null, Stdio::piped, Some(socket))?;
        let clock = ProgressClock::of(qemu.id());
        let mut last_output = Duration::ZERO;
        let (sender, lines) = mpsc::channel();
        read_lines(qemu.stdout.take(), GuestStream::Results, sender.clone());
        read_lines(qemu.stderr.take(), GuestStream::Console, sender);
        loop {
            let now = clock.now();
            let left = limits.total.saturating_sub(now);
            let silence = limits.silence.saturating_sub(now.saturating_sub(last_output));
            match lines.recv_timeout(left.min(silence)) {
                Ok((stream, line)) => {
                    last_output = clock.now();
                    on_line(stream, &line, last_output);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(end_of(qemu.wait().context("cannot wait for QEMU")?)),
                // The emulator waited for a CPU meanwhile, so there is time left.
                Err(RecvTimeoutError::Timeout) if !left.is_zero() && !silence.is_zero() => {}
                Err(RecvTimeoutError::Timeout) => {
                    let processors = monitor.processors();
                    qemu.kill().context("cannot kill QEMU")?;
                    qemu.wait().context("cannot wait for QEMU")?;
                    // The start of an incomplete line has the name of the test that hangs.
                    for (stream, line) in lines {
                        on_line(stream, &line, now);
                    }
                    processors.iter().for_each(|line| on_line(GuestStream::Console, line, now));
                    let was_silent = silence.is_zero();
                    return Ok(if was_silent {
                        BootEnd::Silent(limits.silence)
                    } else {
                        BootEnd::TimeLimit(limits.total)
                    });
                }
            }
        }
    }

    /// Boots with the terminal as the guest's console.
    pub fn boot_on_terminal(&self) -> anyhow::Result<BootEnd> {
        let mut qemu = self.spawn(Stdio::inherit, Stdio::inherit, None)?;
        Ok(end_of(qemu.wait().context("cannot wait for QEMU")?))
    }

    fn spawn(
        &self,
        input: fn() -> Stdio,
        output: fn() -> Stdio,
        monitor: Option<MonitorSocket>,
    ) -> anyhow::Result<Child> {
        let mut command = self.emulator.command();
        command.args(self.arguments()).stdin(input()).stdout(output()).stderr(output());
        if let Some(socket) = monitor {
            socket.hand_over(&mut command);
        }
        die_with_the_parent(&mut command);
        command.spawn().with_context(|| format!("cannot run {:?}", self.emulator))
    }
}

/// Makes the kernel kill the guest when this program ends, however that happens. The kernel sends the
/// signal when the *thread* that started the child ends, so that thread must be the one that waits.
fn die_with_the_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: between fork and exec only `prctl` and `getppid` are called, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have ended before the request was made.
            if libc::getppid().cast_unsigned() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

fn read_lines(pipe: Option<impl Read + Send + 'static>, stream: GuestStream, sender: Sender<(GuestStream, String)>) {
    let Some(pipe) = pipe else { return };
    thread::spawn(move || {
        let mut lines = BufReader::new(pipe).split(b'\n');
        // A failed read counts as the end of the pipe; the exit code reports the reason.
        while let Some(Ok(line)) = lines.next() {
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            if sender.send((stream, line)).is_err() {
                return;
            }
        }
    });
}

fn end_of(status: ExitStatus) -> BootEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => BootEnd::Exit(code),
        (None, signal) => BootEnd::Signal(signal.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use wakelat_build::Architecture;

    use super::*;

    const X86_64: &Emulator = &Emulator::Installed(Architecture::X86_64);
    const AARCH64: &Emulator = &Emulator::Installed(Architecture::Aarch64);

    fn machine(mode: TimeMode, accel: Accel) -> VirtualMachine<'static> {
        VirtualMachine {
            emulator: X86_64,
            name: "6.12-rt",
            vmlinuz: Path::new("/k"),
            initramfs: Path::new("/i"),
            mode,
            accel,
            tsc_khz: 2_300_000,
            interactive: false,
            task: "job".to_owned(),
        }
    }

    #[test]
    fn tcg_is_always_single_threaded() {
        for mode in [TimeMode::Smp, TimeMode::Large, TimeMode::Deterministic, TimeMode::Counted] {
            let arguments = machine(mode, Accel::Tcg).arguments().join(" ");
            assert!(arguments.contains("-accel tcg,thread=single "), "{arguments}");
        }
    }

    #[test]
    fn the_deterministic_mode_has_one_cpu_counted_time_and_fixed_seeds_with_any_accelerator() {
        let arguments = machine(TimeMode::Deterministic, Accel::Kvm).arguments().join(" ");
        for wanted in [
            "-accel tcg,thread=single",
            "-smp 1 -icount shift=2,sleep=off -rtc base=2026-01-01T00:00:00,clock=vm -seed 1",
            " tsc=reliable nokaslr damon_stat.enabled=N ",
            "WAKELAT_VM=deterministic WAKELAT_KERNEL=6.12-rt -- job",
        ] {
            assert!(arguments.contains(wanted), "{wanted}: {arguments}");
        }
    }

    #[test]
    fn the_counted_mode_has_two_cpus_and_the_init_starts_the_second() {
        let arguments = machine(TimeMode::Counted, Accel::Kvm).arguments().join(" ");
        for wanted in [
            "-accel tcg,thread=single",
            "-smp 2 -icount shift=2,sleep=off -rtc base=2026-01-01T00:00:00,clock=vm -seed 1",
            " damon_stat.enabled=N maxcpus=1 ",
            "WAKELAT_VM=counted ",
        ] {
            assert!(arguments.contains(wanted), "{wanted}: {arguments}");
        }
    }

    #[test]
    fn only_a_guest_on_the_hosts_counter_gets_its_rate() {
        let gets_rate = |mode, accel| machine(mode, accel).command_line().contains(" tsc_early_khz=2300000 ");
        assert!(gets_rate(TimeMode::Smp, Accel::Tcg));
        assert!(!gets_rate(TimeMode::Smp, Accel::Kvm));
        assert!(!gets_rate(TimeMode::Deterministic, Accel::Tcg));
        let delay_loop = |mode| machine(mode, Accel::Tcg).command_line().contains(" lpj=9200000 ");
        assert!(delay_loop(TimeMode::Large) && !delay_loop(TimeMode::Smp));
    }

    #[test]
    fn an_arm_guest_gets_nothing_that_only_x86_has() {
        for mode in [TimeMode::Smp, TimeMode::Large, TimeMode::Deterministic, TimeMode::Counted] {
            let arguments = VirtualMachine { emulator: AARCH64, ..machine(mode, Accel::Tcg) }.arguments().join(" ");
            assert!(arguments.starts_with("-M virt,gic-version=3 "), "{arguments}");
            assert!(arguments.contains(" -append console=ttyAMA0 quiet "), "{arguments}");
            for x86 in ["tsc", "lpj", "isa-", "debugcon", "ttyS0", "la57"] {
                assert!(!arguments.contains(x86), "{x86}: {arguments}");
            }
        }
    }

    #[test]
    fn the_guest_gets_the_mode_before_the_arguments_of_its_init() {
        let line = machine(TimeMode::Smp, Accel::Kvm).command_line();
        assert!(line.ends_with(" WAKELAT_VM=smp WAKELAT_KERNEL=6.12-rt -- job"), "{line}");
    }
}
