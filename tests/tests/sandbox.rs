//! What is left of wakelat's privileges while it measures, and what each feature needs before.

use std::{
    fs::{self, File},
    io,
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use rustix::thread::{CapabilitySet, CapabilitySets, configure_capability_in_ambient_set, set_capabilities};
use wakelat_sandbox::{ReadableFiles, Sandbox};
use wakelat_tests::{
    inside::{call, outcomes, parent, print, run_inside},
    kernel_log::KernelLog,
    machine, once,
    privileges::{SETS, for_maps, for_real_time, own, status, version},
    suite::{Case, Skip, TestOutcome},
    wakelat::{Wakelat, command},
    workload::until,
};

/// Runs [`try_forbidden_calls`] instead of the tests.
pub const INSIDE: &str = "--inside-the-sandbox";

pub fn cases() -> Vec<Case> {
    once![
        no_view_keeps_a_capability_while_it_measures,
        each_feature_keeps_the_capabilities_that_it_needs,
        capabilities_of_a_file_are_dropped,
        ambient_capabilities_are_dropped,
        no_view_makes_a_call_that_is_refused,
        forbidden_calls_are_refused_inside_the_sandbox,
        a_command_at_the_threshold_is_not_restricted,
        the_error_names_each_missing_capability,
        a_kill_leaves_no_program_in_the_kernel,
    ]
}

/// Every command that measures and restores nothing at its end: first those that need no ring buffer.
const VIEWS: [&[&str]; 8] = [
    &["hist"],
    &["hist", "--from", "queued"],
    &["top"],
    &["why", "--mode", "aggregate"],
    &["hist", "--mode", "samples", "--by", "cgroup"],
    &["trace", "--threshold", "10s"],
    &["why"],
    &["record", "-o", "/dev/null"],
];

/// The `views` that wakelat does not refuse on this kernel; the first `in_kernel` of them need no ring buffer.
fn possible<'a>(views: &'a [&'a [&'a str]], in_kernel: usize) -> &'a [&'a [&'a str]] {
    if machine::ring_buffer_may_sleep() { &views[..in_kernel] } else { views }
}

/// Asserts what every thread of `wakelat` has left.
fn assert_left(wakelat: &Wakelat, capabilities: u64, what: &[&str]) {
    let tasks = fs::read_dir(format!("/proc/{}/task", wakelat.pid())).expect("wakelat is running");
    let mut threads = 0;
    for task in tasks.flatten() {
        let path = task.path().join("status").display().to_string();
        let left = SETS.map(|set| status(&path, set));
        assert_eq!(
            left.map(|set| format!("{set:x}")),
            [0, capabilities, capabilities, 0, 0].map(|set| format!("{set:x}")),
            "{what:?}"
        );
        assert_eq!((status(&path, "NoNewPrivs"), status(&path, "Seccomp")), (1, 2), "{what:?}");
        threads += 1;
    }
    // The reader and the output.
    assert_eq!(threads, 2, "{what:?}");
}

fn ends_well(wakelat: Wakelat, what: &[&str]) {
    wakelat.signal(Signal::SIGINT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{what:?}: {ended:#?}");
}

fn no_view_keeps_a_capability_while_it_measures() -> TestOutcome {
    for view in possible(&VIEWS, 4) {
        let wakelat = Wakelat::measuring(command(view));
        assert_left(&wakelat, (for_real_time() | for_maps()) & own(), view);
        ends_well(wakelat, view);
    }
    Ok(())
}

fn each_feature_keeps_the_capabilities_that_it_needs() -> TestOutcome {
    let own = own();
    let pid = std::process::id();
    let signal = format!("signal:CONT:{pid}");
    let symbols = CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::CHECKPOINT_RESTORE;
    let cases: [(&[&str], CapabilitySet); 5] = [
        (&["trace", "--threshold", "10s", "--rt-priority", "5"], CapabilitySet::empty()),
        (&["why", "--stacks"], symbols),
        (&["hist", "--threshold", "10s", "--on-threshold", &signal], CapabilitySet::KILL),
        (&["hist", "--attach", "classic", "--max-overhead", "1%"], CapabilitySet::PERFMON),
        (&["hist", "--max-overhead", "1%"], CapabilitySet::empty()),
    ];
    for (arguments, kept) in cases {
        let wakelat = Wakelat::measuring(command(arguments));
        assert_left(&wakelat, (kept.bits() | for_real_time() | for_maps()) & own, arguments);
        ends_well(wakelat, arguments);
    }
    let arguments = ["hist", "--keep-privileges"];
    let wakelat = Wakelat::measuring(command(&arguments));
    let path = format!("/proc/{}/status", wakelat.pid());
    assert_eq!((status(&path, "CapEff"), status(&path, "NoNewPrivs"), status(&path, "Seccomp")), (own, 0, 0));
    ends_well(wakelat, &arguments);
    Ok(())
}

/// An ordinary user, and the group of the same number.
const NOBODY: u32 = 65_534;

/// Asserts that a wakelat that an ordinary user runs with the two capabilities for BPF keeps neither.
fn assert_left_to_user(command: Command, bounding: u64) {
    let wakelat = Wakelat::measuring(command);
    let path = format!("/proc/{}/status", wakelat.pid());
    let left = SETS.map(|name| status(&path, name));
    // Without CAP_SETPCAP the bounding set stays; because of `no_new_privs` it gives nothing.
    assert_eq!(left, [0, for_maps(), for_maps(), bounding, 0]);
    assert_eq!((status(&path, "NoNewPrivs"), status(&path, "Seccomp")), (1, 2));
    ends_well(wakelat, &["as a user"]);
}

fn capabilities_of_a_file_are_dropped() -> TestOutcome {
    if version() < (5, 11) {
        return Err(Skip::because("before 5.11, an ordinary user also needs a higher limit of locked memory"));
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (binary, own) = (directory.path().join("wakelat"), wakelat_tests::wakelat::binary());
    fs::copy(own, &binary).expect("a copy");
    set_mode(directory.path(), 0o755);
    let granted = Command::new("setcap").arg("cap_bpf,cap_perfmon+ep").arg(&binary).stderr(Stdio::null()).status();
    if !granted.is_ok_and(|status| status.success()) {
        return Err(Skip::because("there is no `setcap`, or the file system stores no capabilities"));
    }
    let mut command = Command::new(&binary);
    command.args(["why", "--json"]).uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).current_dir("/");
    assert_left_to_user(command, status("/proc/self/status", "CapBnd"));
    Ok(())
}

/// As a service manager grants them, with `AmbientCapabilities=`.
fn ambient_capabilities_are_dropped() -> TestOutcome {
    let mut command = command(&["hist", "--json"]);
    let prepare = || {
        let granted = CapabilitySet::BPF | CapabilitySet::PERFMON;
        let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: only numbers, and a pointer to a local structure.
        let result = unsafe {
            // Needed, and possible for root in a guest, before 5.11.
            _ = libc::setrlimit(libc::RLIMIT_MEMLOCK, &unlimited);
            libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) | libc::setgid(NOBODY) | libc::setuid(NOBODY)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        set_capabilities(None, CapabilitySets { effective: granted, permitted: granted, inheritable: granted })?;
        for capability in granted.iter() {
            configure_capability_in_ambient_set(capability, true)?;
        }
        Ok(())
    };
    // SAFETY: system calls without allocation.
    unsafe { command.pre_exec(prepare) };
    assert_left_to_user(command, status("/proc/self/status", "CapBnd"));
    Ok(())
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a directory of this test");
}

fn no_view_makes_a_call_that_is_refused() -> TestOutcome {
    let mut log = KernelLog::from_now();
    let directory = tempfile::tempdir().expect("a directory");
    let more: [&[&str]; 6] = [
        &["top", "--by", "tid", "--interval", "150ms"],
        &["why", "--stacks", "--collect", "workqueue"],
        &["hist", "--max-overhead", "0.5%"],
        &["hist", "--attach", "raw", "--max-overhead", "0.5%"],
        &["hist", "--attach", "classic", "--max-overhead", "0.5%"],
        &["record", "--last", "1s", "--threshold", "1ns", "-o", &directory.path().join("file").display().to_string()],
    ];
    for view in possible(&VIEWS, 4).iter().chain(possible(&more, 1)) {
        let all = [*view, &["-d", "300ms"]].concat();
        let ended = Wakelat::start(command(&all)).end();
        assert!(ended.status.success(), "{all:?}: {ended:#?}");
    }
    let Some(refused) = refused_calls(&mut log) else {
        return Err(Skip::because("this kernel does not log refused system calls here"));
    };
    assert!(!refused.iter().any(|line| line.contains("comm=\"wakelat")), "{refused:#?}");
    Ok(())
}

/// The kernel's records of refused calls. The kernel writes them in their order and some time later, so this makes calls that
/// are refused, and waits for their records; `None` if there are none, as without CONFIG_AUDIT or with an audit daemon.
fn refused_calls(log: &mut KernelLog) -> Option<Vec<String>> {
    /// Longer than the interval of the limit of such records (`printk_ratelimit()`, kernel/printk/printk.c).
    const LIMIT: Duration = Duration::from_secs(10);
    // The name of a task that runs this program has at most 15 bytes (`TASK_COMM_LEN`, include/linux/sched.h).
    let binary = std::env::current_exe().expect("a process knows its binary");
    let name: String = binary.file_name().expect("a file").to_string_lossy().chars().take(15).collect();
    let own = format!("comm=\"{name}\"");
    let deadline = Instant::now() + LIMIT;
    let mut records = Vec::new();
    while Instant::now() < deadline {
        _ = inside();
        records.extend(log.lines_with(&["type=1326"]));
        if records.iter().any(|record| record.contains(&own)) {
            return Some(records);
        }
    }
    None
}

/// A call that must fail, and why.
type Attempt = (&'static str, fn() -> io::Result<()>);

/// Calls that nothing in a measurement makes, each of which succeeds for root without the sandbox.
const FORBIDDEN: [Attempt; 16] = [
    ("create a file", || File::create("/tmp/wakelat-sandbox-test").map(drop)),
    ("write to a file", || File::options().write(true).open("/proc/self/oom_score_adj").map(drop)),
    ("delete a file", || fs::remove_file("/tmp/wakelat-sandbox-test")),
    ("connect", || TcpStream::connect("127.0.0.1:1").map(drop)),
    ("listen", || std::net::TcpListener::bind("127.0.0.1:0").map(drop)),
    ("connect to a Unix socket", || std::os::unix::net::UnixStream::connect("/run/nothing").map(drop)),
    ("start a program", || Command::new("/proc/self/exe").arg(INSIDE).status().map(drop)),
    ("replace the program", || Err(Command::new("/proc/self/exe").exec())),
    ("fork", || call(libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0, 0, 0])),
    // `BPF_PROG_LOAD` and `BPF_MAP_CREATE` (include/uapi/linux/bpf.h).
    ("load a BPF program", || call(libc::SYS_bpf, [5, 0, 0, 0, 0])),
    ("create a BPF map", || call(libc::SYS_bpf, [0, 0, 0, 0, 0])),
    ("trace a process", || call(libc::SYS_ptrace, [libc::PTRACE_SEIZE.into(), parent(), 0, 0, 0])),
    ("signal a process", || call(libc::SYS_kill, [parent(), 0, 0, 0, 0])),
    ("set the priority of a process", || {
        // `SCHED_OTHER` with nice value 0, in the first form of `struct sched_attr`: 48 bytes.
        let attributes: [u32; 12] = [48, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        call(libc::SYS_sched_setattr, [parent(), attributes.as_ptr() as i64, 0, 0, 0])
    }),
    ("open a perf event", || call(libc::SYS_perf_event_open, [0, 0, -1, -1, 0])),
    ("map executable memory", || {
        let access = libc::PROT_READ | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address of a new mapping.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0) };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }),
];

/// Enters the sandbox of a measurement, tries what it forbids, and prints what happened.
pub fn try_forbidden_calls(_: &[String]) {
    let files = ReadableFiles::Below(vec![PathBuf::from("/proc")]);
    Sandbox { files, ..Sandbox::EMPTY }.enter().expect("a process with one thread can be restricted");
    // What has to work.
    fs::read_to_string("/proc/self/comm").expect("procfs can be read");
    std::thread::spawn(|| print("read outside", fs::read("/sys/kernel/uevent_seqnum").map(drop)))
        .join()
        .expect("a thread");
    for (what, attempt) in FORBIDDEN {
        print(what, attempt());
    }
}

/// Runs [`try_forbidden_calls`] in a process of its own.
fn inside() -> String {
    run_inside(INSIDE, &[])
}

fn forbidden_calls_are_refused_inside_the_sandbox() -> TestOutcome {
    let printed = inside();
    let read = if wakelat_sandbox::landlock_abi().is_some() { libc::EACCES } else { 0 };
    let mut expected = vec![("read outside", read)];
    expected.extend(FORBIDDEN.iter().map(|(what, _)| (*what, libc::EPERM)));
    assert_eq!(outcomes(&printed), expected);
    Ok(())
}

fn a_command_at_the_threshold_is_not_restricted() -> TestOutcome {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("status").display().to_string();
    let action = format!("exec:cat /proc/self/status > {path}");
    let arguments = ["hist", "--mode", "samples", "--threshold", "1ns", "--on-threshold", &action];
    let wakelat = Wakelat::measuring(command(&arguments));
    let of_wakelat = format!("/proc/{}/status", wakelat.pid());
    assert_eq!(status(&of_wakelat, "CapPrm"), (for_real_time() | for_maps()) & own());
    until("the command has run", || fs::metadata(&path).is_ok_and(|file| file.len() > 0));
    ends_well(wakelat, &arguments);
    let all = ["CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp"];
    assert_eq!(all.map(|name| status(&path, name)), all.map(|name| status("/proc/self/status", name)));
    Ok(())
}

/// Makes `command` run without these capabilities: what leaves the bounding set is not in the permitted set after exec.
fn without(command: &mut Command, capabilities: &'static [libc::c_ulong]) {
    let drop = move || {
        for capability in capabilities {
            // SAFETY: only numbers.
            if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, *capability, 0, 0, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: the structure is local. Without the limit's own permission, a priority needs the capability.
        let result = unsafe { libc::setrlimit(libc::RLIMIT_RTPRIO, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: system calls without allocation.
    unsafe { command.pre_exec(drop) };
}

/// The table of docs/security.md: without each capability, the error that names it.
fn the_error_names_each_missing_capability() -> TestOutcome {
    // include/uapi/linux/capability.h.
    const SYS_ADMIN: libc::c_ulong = 21;
    const SYS_NICE: libc::c_ulong = 23;
    const PERFMON: libc::c_ulong = 38;
    const BPF: libc::c_ulong = 39;
    let cases: [(&[&str], &'static [libc::c_ulong], &str); 6] = [
        (&["hist"], &[SYS_ADMIN, BPF], "the capability `cap_bpf` is missing"),
        (&["top"], &[SYS_ADMIN, PERFMON], "the capability `cap_perfmon` is missing"),
        (&["why"], &[SYS_ADMIN, BPF, PERFMON], "the capabilities `cap_bpf` and `cap_perfmon` are missing"),
        (&["trace"], &[SYS_ADMIN, BPF], "the capability `cap_bpf` is missing"),
        (&["record", "-o", "/dev/null"], &[SYS_ADMIN, PERFMON], "the capability `cap_perfmon` is missing"),
        (&["hist", "--rt-priority", "5"], &[SYS_NICE], "the capability `cap_sys_nice` is missing"),
    ];
    for (arguments, missing, error) in cases {
        let mut command = command(arguments);
        without(&mut command, missing);
        Wakelat::start(command).end().assert_refused(1, &["wakelat: error:", error, "sudo"]);
    }
    Ok(())
}

fn a_kill_leaves_no_program_in_the_kernel() -> TestOutcome {
    let wakelat = Wakelat::measuring(command(&["why"]));
    let programs: Vec<u32> = fs::read_dir(format!("/proc/{}/fdinfo", wakelat.pid()))
        .expect("wakelat is running")
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .filter_map(|info| info.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok()))
        .collect();
    assert!(!programs.is_empty() && programs.iter().all(|id| exists(*id)), "{programs:?}");
    wakelat.signal(Signal::SIGKILL);
    assert_eq!(wakelat.end().killed_by(), Some(libc::SIGKILL));
    until("the kernel has freed the programs", || !programs.iter().any(|id| exists(*id)));
    Ok(())
}

/// Whether the kernel has a BPF program with this ID.
fn exists(id: u32) -> bool {
    /// `BPF_PROG_GET_FD_BY_ID` (include/uapi/linux/bpf.h).
    const GET_FD_BY_ID: libc::c_long = 13;
    let attributes = [id, 0, 0];
    // SAFETY: the kernel reads as many bytes as it is given.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, GET_FD_BY_ID, attributes.as_ptr(), size_of_val(&attributes)) };
    // SAFETY: a descriptor that was opened here, or -1.
    fd >= 0 && unsafe { libc::close(fd as i32) } == 0
}
