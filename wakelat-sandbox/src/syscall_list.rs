//! The system calls of a measurement once everything is open, by what they are for.
//!
//! None of them opens a file for writing (unless [`Sandbox::writes_in`] allows it), connects (unless
//! [`Sandbox::connects_to`] allows it), starts a program, maps memory as executable, or reaches another process.

use anyhow::Result;
use libc::{c_int, c_long};
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::Sandbox;

/// A system call, and the arguments with which it is allowed.
pub struct AllowedCall {
    /// The call's number on this architecture.
    pub number: i64,
    /// Alternatives: the call is allowed if all arguments of one of them match. None if any arguments are allowed.
    alternatives: Vec<Vec<Argument>>,
}

/// What an argument has to be.
#[derive(Clone, Copy)]
struct Argument {
    index: u8,
    /// The bits that are compared.
    mask: u64,
    value: u64,
}

impl AllowedCall {
    fn any(number: c_long) -> Self {
        Self { number, alternatives: Vec::new() }
    }

    /// The call with argument `index` equal to one of `values`.
    fn one_of(number: c_long, index: u8, values: impl IntoIterator<Item = u64>) -> Self {
        // The kernel reads 32 bits of each of these arguments.
        let argument = |value| vec![Argument { index, mask: u64::from(u32::MAX), value }];
        Self { number, alternatives: values.into_iter().map(argument).collect() }
    }

    /// The call without the bits `bits` in argument `index`.
    fn without(number: c_long, index: u8, bits: c_int) -> Self {
        let mask = u64::from(bits.cast_unsigned());
        Self { number, alternatives: vec![vec![Argument { index, mask, value: 0 }]] }
    }

    /// The call's rules for seccompiler.
    pub fn rules(self) -> Result<Vec<SeccompRule>> {
        let condition = |Argument { index, mask, value }| {
            SeccompCondition::new(index, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), value)
        };
        let rule = |arguments: Vec<Argument>| {
            let conditions = arguments.into_iter().map(condition).collect::<Result<_, _>>()?;
            Ok(SeccompRule::new(conditions)?)
        };
        self.alternatives.into_iter().map(rule).collect()
    }
}

/// The calls that `sandbox` allows to the process `own_pid`.
pub fn allowed(sandbox: &Sandbox, own_pid: u32) -> Vec<AllowedCall> {
    let mut calls: Vec<_> = ANY_ARGUMENTS.iter().chain(OLD).map(|number| AllowedCall::any(*number)).collect();
    let ioctls = TERMINAL_IOCTLS.iter().chain(PERF_EVENT_IOCTLS);
    let attach_commands = if sandbox.attaches { ATTACH_COMMANDS } else { &[] };
    calls.extend([
        AllowedCall::one_of(libc::SYS_ioctl, 1, ioctls.copied().map(as_request)),
        AllowedCall::one_of(libc::SYS_fcntl, 1, FCNTLS.map(as_argument)),
        AllowedCall::one_of(libc::SYS_prctl, 0, PRCTLS.map(as_argument)),
        // Of the calling thread.
        AllowedCall::one_of(libc::SYS_sched_setattr, 0, [0]),
        AllowedCall::without(libc::SYS_mmap, 2, libc::PROT_EXEC),
        AllowedCall::without(libc::SYS_mprotect, 2, libc::PROT_EXEC),
        AllowedCall {
            number: libc::SYS_clone,
            alternatives: vec![vec![Argument { index: 0, mask: THREAD, value: THREAD }]],
        },
        // Without new limits: only to read them.
        AllowedCall {
            number: libc::SYS_prlimit64,
            alternatives: vec![vec![Argument { index: 2, mask: u64::MAX, value: 0 }]],
        },
        // Without an address: on connected sockets, by which a signal handler wakes the event loop.
        AllowedCall {
            number: libc::SYS_sendto,
            alternatives: vec![vec![Argument { index: 4, mask: u64::MAX, value: 0 }]],
        },
        // Signals to itself, by the process and by its first thread.
        AllowedCall::one_of(libc::SYS_tgkill, 0, [u64::from(own_pid)]),
        AllowedCall::one_of(libc::SYS_tkill, 0, [u64::from(own_pid)]),
        AllowedCall::one_of(libc::SYS_bpf, 0, BPF_COMMANDS.iter().chain(attach_commands).copied()),
    ]);
    if sandbox.writes_in.is_empty() {
        calls.push(AllowedCall::without(libc::SYS_openat, 2, WRITING));
        #[cfg(target_arch = "x86_64")]
        calls.push(AllowedCall::without(libc::SYS_open, 1, WRITING));
    } else {
        // Landlock restricts the directories.
        calls.extend(CHANGING_DIRECTORIES.iter().map(|number| AllowedCall::any(*number)));
    }
    if sandbox.opens_perf_events {
        calls.push(AllowedCall::any(libc::SYS_perf_event_open));
    }
    if sandbox.accepts {
        calls.push(AllowedCall::any(libc::SYS_accept4));
    }
    if !sandbox.connects_to.is_empty() {
        calls.extend([tcp_sockets(), AllowedCall::any(libc::SYS_connect)]);
    }
    // For connections of either direction: their errors, and their end.
    if sandbox.accepts || !sandbox.connects_to.is_empty() {
        calls.extend([libc::SYS_getsockopt, libc::SYS_shutdown].map(AllowedCall::any));
    }
    let signalled: Vec<u64> = [sandbox.signals, sandbox.child].into_iter().flatten().map(u64::from).collect();
    if !signalled.is_empty() {
        calls.push(AllowedCall::one_of(libc::SYS_kill, 0, signalled));
    }
    calls.extend(sandbox.child.map(|pid| AllowedCall::one_of(libc::SYS_wait4, 0, [u64::from(pid)])));
    calls
}

/// socket(2) for TCP over IPv4 and IPv6, and nothing else: Landlock restricts the ports of no other protocol, also not of
/// MPTCP.
fn tcp_sockets() -> AllowedCall {
    /// The type without `SOCK_NONBLOCK` and `SOCK_CLOEXEC` (`SOCK_TYPE_MASK`, include/linux/net.h).
    const TYPE: u64 = 0xf;
    let tcp = |family: c_int| {
        let all = u64::from(u32::MAX);
        vec![
            Argument { index: 0, mask: all, value: as_argument(family) },
            Argument { index: 1, mask: TYPE, value: as_argument(libc::SOCK_STREAM) },
            Argument { index: 2, mask: all, value: 0 },
        ]
    };
    AllowedCall { number: libc::SYS_socket, alternatives: [libc::AF_INET, libc::AF_INET6].map(tcp).into() }
}

/// Flags of open(2) that write to a file or create one.
const WRITING: c_int = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;

/// Calls that create, rename and remove files.
#[cfg(target_arch = "x86_64")]
const CHANGING_DIRECTORIES: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_open,
    libc::SYS_renameat2,
    libc::SYS_renameat,
    libc::SYS_rename,
    libc::SYS_unlinkat,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
// glibc's rename(3) makes a call of its own on each architecture.
const CHANGING_DIRECTORIES: &[c_long] =
    &[libc::SYS_openat, libc::SYS_renameat2, libc::SYS_renameat, libc::SYS_unlinkat];

/// The flag of clone(2) that makes it start a thread and not a process.
const THREAD: u64 = libc::CLONE_THREAD as u64;

#[allow(clippy::unnecessary_cast, reason = "`Ioctl` is `c_ulong` with glibc, and `c_int` with musl")]
fn as_request(request: libc::Ioctl) -> u64 {
    request as u64 & u64::from(u32::MAX)
}

fn as_argument(value: c_int) -> u64 {
    u64::from(value.cast_unsigned())
}

/// Calls whose arguments need no check. Descriptors can only be those that are open.
const ANY_ARGUMENTS: &[c_long] = &[
    // Open files.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_recvfrom,
    // Directories and names. Without Landlock they are restricted by the user's rights.
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads: that of the output.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    // Refused with ENOSYS by another filter.
    libc::SYS_clone3,
    // Signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrusage,
    // Waiting for descriptors.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    // Questions about the system and about this process.
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getppid,
    libc::SYS_getpgid,
];

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_access,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_getpgrp,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

/// Size and modes of a terminal, and whether it belongs to this job. Not TIOCSTI, which types into it.
const TERMINAL_IOCTLS: &[libc::Ioctl] = &[
    libc::TCGETS,
    libc::TCSETS,
    libc::TCSETSW,
    libc::TCSETSF,
    libc::TCGETS2,
    libc::TCSETS2,
    libc::TCSETSW2,
    libc::TCSETSF2,
    libc::TIOCGWINSZ,
    libc::TIOCGPGRP,
    libc::FIOCLEX,
    libc::FIONBIO,
];

/// `PERF_EVENT_IOC_ENABLE`, `_DISABLE` and `_SET_BPF` (include/uapi/linux/perf_event.h), by which
/// programs are attached to classic tracepoints and detached.
const PERF_EVENT_IOCTLS: &[libc::Ioctl] = &[0x2400, 0x2401, 0x4004_2408];

/// Copies of descriptors, and flags of descriptors and files. Not F_SETOWN, which sends signals.
const FCNTLS: [c_int; 5] = [libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL];

/// Names of threads and of memory areas, which C libraries set for new threads.
const PRCTLS: [c_int; 2] = [libc::PR_SET_NAME, libc::PR_SET_VMA];

/// Commands of bpf(2) that read and write the elements of maps (include/uapi/linux/bpf.h): `BPF_MAP_LOOKUP_ELEM`,
/// `_UPDATE_ELEM`, `_DELETE_ELEM`, `_GET_NEXT_KEY`, `_LOOKUP_AND_DELETE_ELEM`, `_LOOKUP_BATCH`, `_LOOKUP_AND_DELETE_BATCH`,
/// `_UPDATE_BATCH` and `_DELETE_BATCH`; and those that run an iterator: `BPF_LINK_CREATE` and `BPF_ITER_CREATE`.
const BPF_COMMANDS: &[u64] = &[1, 2, 3, 4, 21, 24, 25, 26, 27, 28, 33];

/// `BPF_RAW_TRACEPOINT_OPEN`, which attaches a program that is loaded.
const ATTACH_COMMANDS: &[u64] = &[17];

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(sandbox: &Sandbox) -> Vec<i64> {
        allowed(sandbox, 100).iter().map(|call| call.number).collect()
    }

    #[test]
    fn each_call_is_listed_once() {
        let mut all = numbers(&Sandbox {
            opens_perf_events: true,
            accepts: true,
            connects_to: vec![1],
            signals: Some(7),
            writes_in: vec!["/tmp".into()],
            ..Sandbox::EMPTY
        });
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn calls_that_reach_other_processes_are_not_listed() {
        let all = numbers(&Sandbox { attaches: true, opens_perf_events: true, accepts: true, ..Sandbox::EMPTY });
        for number in [
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_kill,
            libc::SYS_unlinkat,
            libc::SYS_io_uring_setup,
            libc::SYS_openat2,
        ] {
            assert!(!all.contains(&number), "{number}");
        }
    }

    #[test]
    fn files_are_renamed_and_removed_only_where_the_view_writes_some() {
        let all = numbers(&Sandbox { writes_in: vec!["/tmp".into()], ..Sandbox::EMPTY });
        let of_view = [libc::SYS_unlinkat, libc::SYS_renameat2];
        assert!(of_view.iter().all(|number| all.contains(number)));
        let none = numbers(&Sandbox::EMPTY);
        assert!(!of_view.iter().any(|number| none.contains(number)));
    }

    #[test]
    fn only_a_request_allows_signals_and_perf_events_and_connections() {
        let none = numbers(&Sandbox::EMPTY);
        assert!(!none.contains(&libc::SYS_accept4) && !none.contains(&libc::SYS_getsockopt));
        let connects = numbers(&Sandbox { connects_to: vec![1], ..Sandbox::EMPTY });
        assert!(connects.contains(&libc::SYS_connect) && !connects.contains(&libc::SYS_accept4));
        assert!(!none.contains(&libc::SYS_kill) && !none.contains(&libc::SYS_perf_event_open));
        let both = numbers(&Sandbox { opens_perf_events: true, signals: Some(7), ..Sandbox::EMPTY });
        assert!(both.contains(&libc::SYS_kill) && both.contains(&libc::SYS_perf_event_open));
        let child = numbers(&Sandbox { child: Some(7), ..Sandbox::EMPTY });
        assert!(child.contains(&libc::SYS_kill) && child.contains(&libc::SYS_wait4));
        assert!(!none.contains(&libc::SYS_wait4));
    }
}
