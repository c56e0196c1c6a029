//! The first process of a test machine: it mounts what tests need, runs them one suite after another, and ends the machine
//! with a code that says how it went.
//!
//! Its last argument is the task: `tests`, which may be followed by the suites such as `tests=kernel,counts:cpus`,
//! `soak=SECONDS`, `command`, `shell` or `probe`; the words that go with it are in `/job`. What it and its children print goes to the debug console, so
//! that the serial console is the kernel's alone; lines that begin with `##vm` are its own.

use std::process::ExitCode;

#[cfg(target_arch = "x86_64")]
mod machine;
#[cfg(target_arch = "x86_64")]
mod mounts;
#[cfg(target_arch = "x86_64")]
mod processors;
#[cfg(target_arch = "x86_64")]
mod task;

#[cfg(target_arch = "x86_64")]
fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("init: only runs as the first process of a test machine; run `cargo xtask vm`");
        return ExitCode::from(2);
    }
    let mut problems = mounts::mount_all();
    problems.extend(processors::start_all());
    // The last argument: before it the kernel puts the words of its own command line that it has left to its loader.
    let task = std::env::args().next_back().unwrap_or_default();
    let succeeded = if task == "shell" {
        for problem in problems {
            eprintln!("init: {problem}");
        }
        task::shell()
    } else {
        task::reported(&task, &problems)
    };
    match machine::end(succeeded) {
        Ok(never) => match never {},
        // The kernel panics when its first process ends, and so the machine ends as well.
        Err(error) => eprintln!("init: cannot end the machine: {error}"),
    }
    ExitCode::FAILURE
}

#[cfg(not(target_arch = "x86_64"))]
fn main() -> ExitCode {
    eprintln!("init: only made for x86-64 machines");
    ExitCode::from(2)
}
