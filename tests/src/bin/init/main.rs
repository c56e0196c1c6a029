//! The first process of a test machine: it mounts what tests need, runs them one suite after another,
//! and powers the machine off with a code that reports the result.
//!
//! Its last argument is the task: `tests`, optionally with the suites, such as
//! `tests=kernel,counts:cpus`, `soak=SECONDS`, `command`, `shell` or `probe`; the words that go with it
//! are in `/job`. The output of init and its children goes to a console of QEMU's own, so that the serial
//! console belongs to the kernel; lines that begin with `##vm` are init's own.

use std::process::ExitCode;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod mounts;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod processors;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod qemu_devices;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod task;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("init: only runs as the first process of a test machine; run `cargo xtask vm`");
        return ExitCode::from(2);
    }
    let mut problems = mounts::mount_all();
    problems.extend(processors::start_all());
    // The last argument: the kernel puts the words of its own command line that it does not know before it.
    let task = std::env::args().next_back().unwrap_or_default();
    let succeeded = if task == "shell" {
        for problem in problems {
            eprintln!("init: {problem}");
        }
        task::shell()
    } else {
        task::reported(&task, &problems)
    };
    match qemu_devices::end(succeeded) {
        Ok(never) => match never {},
        // The kernel panics when its first process exits, which ends the machine as well.
        Err(error) => eprintln!("init: cannot end the machine: {error}"),
    }
    ExitCode::FAILURE
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn main() -> ExitCode {
    eprintln!("init: only made for x86-64 and arm64 machines");
    ExitCode::from(2)
}
