//! The task for which the machine was started.

use std::{
    fs, io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, dup2_stderr, dup2_stdout},
};

use crate::qemu_devices;

const TESTS: &str = "/tests/kernel";
const SOAK: &str = "/bin/soak";
const BUSYBOX: &str = "/bin/busybox";

/// Runs the task with all output on QEMU's own console, and returns whether it succeeded.
pub fn reported(task: &str, problems: &[String]) -> bool {
    let (reader, writer) = match io::pipe() {
        Ok(pipe) => pipe,
        Err(error) => {
            eprintln!("init: cannot make a pipe: {error}");
            return false;
        }
    };
    let printer = thread::spawn(move || qemu_devices::print_from(reader));
    if let Err(error) = dup2_stdout(&writer).and_then(|()| dup2_stderr(&writer)) {
        eprintln!("init: cannot redirect the output: {error}");
        return false;
    }
    drop(writer);

    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("##vm boot {}", release.trim());
    for problem in problems {
        println!("##vm problem {problem}");
    }
    let (task, suites) = task.split_once('=').map_or((task, None), |(task, suites)| (task, Some(suites)));
    let code = match task {
        "probe" => 0,
        "tests" => tests(suites),
        "soak" => soak(suites),
        "command" => command(),
        _ => {
            println!("##vm problem no task `{task}`: expected `tests`, `soak`, `command`, `shell` or `probe`");
            2
        }
    };
    println!("##vm end {code}");

    // The printer ends when the pipe has no writers left: neither processes that the tests left running
    // nor this one.
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    while !matches!(waitpid(None, None), Err(Errno::ECHILD)) {}
    let silenced = fs::File::options().write(true).open("/dev/console").map(|console| {
        let _ = dup2_stdout(&console).and_then(|()| dup2_stderr(&console));
    });
    match (silenced, printer.join()) {
        (Ok(()), Ok(Ok(()))) => code == 0,
        (silenced, printed) => {
            eprintln!("init: the output may be cut short: {silenced:?}, {printed:?}");
            false
        }
    }
}

/// Runs suites of [`TESTS`] with the words of the job: all of them, or the `chosen` ones in this order. Words after a
/// colon choose among their tests: `why,counts:cpus`.
fn tests(chosen: Option<&str>) -> i32 {
    let all = match chosen {
        Some(chosen) => chosen.replace(',', "\n"),
        None => match program(Path::new(TESTS)).arg("--suites").output() {
            Ok(listed) => String::from_utf8_lossy(&listed.stdout).into_owned(),
            Err(error) => {
                println!("##vm problem cannot run `{TESTS}`: {error}");
                return 1;
            }
        },
    };
    let mut failed = 0;
    for word in all.lines() {
        let (name, text) = word.split_once(':').map_or((word, None), |(name, text)| (name, Some(text)));
        let mut command = program(Path::new(TESTS));
        command.args(["--suite", name]).args(text);
        failed = failed.max((tested(name, &mut command) != 0).into());
    }
    failed
}

/// Runs each command that measures for `seconds`, or those that the words of the job choose.
fn soak(seconds: Option<&str>) -> i32 {
    let mut command = program(Path::new(SOAK));
    command.envs(seconds.map(|seconds| ("WAKELAT_SOAK", seconds)));
    (tested("soak", &mut command) != 0).into()
}

/// Runs a suite with the words of the job.
fn tested(suite: &str, command: &mut Command) -> i32 {
    println!("##vm suite {suite}\nsuite {suite}");
    // One test at a time, so that the last line names the test that hangs.
    command.args(["--test-threads=1", "--nocapture"]).args(job()).stdin(Stdio::null());
    let code = run(command);
    println!("##vm suite-end {code}");
    code
}

/// Runs the words of the job as one command.
fn command() -> i32 {
    match command_of_the_job() {
        Some(mut command) => run(command.stdin(Stdio::null())),
        None => {
            println!("##vm problem the job has no command");
            2
        }
    }
}

/// Runs the words of the job on the serial console, with job control.
pub fn shell() -> bool {
    let terminal = || qemu_devices::terminal().map(Stdio::from);
    let (Some(mut command), Ok(input), Ok(output), Ok(errors)) =
        (command_of_the_job(), terminal(), terminal(), terminal())
    else {
        eprintln!("init: no command or no serial console");
        return false;
    };
    // SAFETY: between fork and exec only `setsid` and `ioctl` are called, which are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    run(command.stdin(input).stdout(output).stderr(errors)) == 0
}

fn command_of_the_job() -> Option<Command> {
    if Path::new(BUSYBOX).exists() {
        run(Command::new(BUSYBOX).args(["--install", "-s", "/bin"]));
    }
    let words = job();
    let mut command = program(Path::new(words.first()?));
    command.args(&words[1..]);
    Some(command)
}

fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env("PATH", "/bin").env("HOME", "/tmp").env("WAKELAT", "/bin/wakelat").current_dir("/tmp");
    command
}

/// The words that go with the task, each terminated by a NUL byte.
fn job() -> Vec<String> {
    let words = fs::read("/job").unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    words.split_terminator('\0').map(str::to_owned).collect()
}

/// Runs a command to its end. Returns its exit code, or 128 plus its signal, as shells do.
fn run(command: &mut Command) -> i32 {
    let child = match command.spawn() {
        Ok(child) => Pid::from_raw(child.id().cast_signed()),
        Err(error) => {
            println!("##vm problem cannot run `{}`: {error}", command.get_program().display());
            return 127;
        }
    };
    loop {
        // Orphans are reparented to the first process, which has to reap them: so wait for any child.
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => return code,
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => return 128 + signal as i32,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                println!("##vm problem cannot wait for a child: {error}");
                return 127;
            }
        }
    }
}
