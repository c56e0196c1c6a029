//! The machine that QEMU emulates for each architecture.

use wakelat_build::Architecture;

/// What differs between the machines of two architectures.
pub struct MachineModel {
    /// The emulator's name in `PATH`.
    pub emulator: &'static str,
    /// The Debian package that contains it.
    pub package: &'static str,
    /// What has to be downloaded for the package and its dependencies: MB.
    pub megabytes: u32,
    /// QEMU's arguments for the board and its CPUs.
    pub board: &'static [&'static str],
    /// QEMU's arguments for the device that prints what the init writes, and ends QEMU with its exit code.
    pub results: &'static [&'static str],
    /// The same if the guest has the terminal: only the exit code.
    pub exit: &'static [&'static str],
    /// The kernel's name of the serial console.
    pub console: &'static str,
    /// Whether the guest's clock is the host's time stamp counter.
    pub has_hosts_counter: bool,
}

/// `microvm` would boot faster, but one boot in twenty hung. Five-level page tables are slow to emulate, and older
/// kernels take a different path with them. `rep movsb` and `rep stosb` copy and clear one byte at a time in an emulator:
/// without the features that announce them as fast, the kernel and glibc use other instructions.
const X86_64: MachineModel = MachineModel {
    emulator: "qemu-system-x86_64",
    package: "qemu-system-x86",
    megabytes: 17,
    board: &["-M", "q35", "-cpu", "max,la57=off,erms=off,fsrm=off"],
    results: &["-debugcon", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=1"],
    exit: &["-device", "isa-debug-exit,iobase=0xf4,iosize=1"],
    console: "ttyS0",
    has_hosts_counter: true,
};

/// Version 3 of the interrupt controller is the first one for more than 8 CPUs. The architecture's own algorithm for
/// pointer authentication is slow to emulate. The init makes semihosting calls, which QEMU executes like instructions:
/// no driver of the kernel takes part.
const AARCH64: MachineModel = MachineModel {
    emulator: "qemu-system-aarch64",
    package: "qemu-system-arm",
    megabytes: 17,
    board: &["-M", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on"],
    results: &[
        "-chardev",
        "stdio,id=results",
        "-semihosting-config",
        "enable=on,userspace=on,target=native,chardev=results",
    ],
    exit: &["-semihosting-config", "enable=on,userspace=on,target=native"],
    console: "ttyAMA0",
    has_hosts_counter: false,
};

impl MachineModel {
    /// The machine for kernels of `architecture`.
    pub const fn of(architecture: Architecture) -> &'static Self {
        match architecture {
            Architecture::X86_64 => &X86_64,
            Architecture::Aarch64 => &AARCH64,
        }
    }
}
