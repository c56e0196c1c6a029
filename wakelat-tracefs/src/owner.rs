//! The process that owns an instance or event in tracefs. The owner is part of the name, so that what a
//! killed run left can be distinguished from everything else.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

/// Inode number of the initial PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// A process, identified by its PID and its start time, because PIDs are reused. A PID is valid only within
/// its PID namespace, so a namespace other than the initial one is part of the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process's PID.
    pub pid: u32,
    /// The process's start time: clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
    /// Inode number of the process's PID namespace; none for the initial one.
    pub namespace: Option<u64>,
}

impl Owner {
    /// This process, read from the procfs at `proc`.
    pub fn this(proc: &Path) -> io::Result<Self> {
        let stat = fs::read_to_string(proc.join("self/stat"))?;
        let (pid, start_ticks) = parse_stat(&stat).ok_or_else(|| io::Error::other("cannot parse `/proc/self/stat`"))?;
        Ok(Self { pid, start_ticks, namespace: namespace(proc)? })
    }

    /// Whether the process has exited. None if that cannot be determined: if it belongs to another PID
    /// namespace, or procfs cannot be read.
    pub fn is_gone(&self, proc: &Path) -> Option<bool> {
        if namespace(proc).ok()? != self.namespace {
            return None;
        }
        match fs::read_to_string(proc.join(self.pid.to_string()).join("stat")) {
            Ok(stat) => parse_stat(&stat).map(|(_, start_ticks)| start_ticks != self.start_ticks),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(true),
            // ESRCH: the process exited during the read.
            Err(error) => (error.raw_os_error() == Some(libc::ESRCH)).then_some(true),
        }
    }

    /// Name of the process's instance: `wakelat-PID-START`, with `-NAMESPACE` outside the initial namespace.
    pub fn instance(&self) -> String {
        self.name('-')
    }

    /// Name of the process's synthetic event, which must not contain `-`: `wakelat_PID_START`, with
    /// `_NAMESPACE` outside the initial namespace.
    pub fn event(&self) -> String {
        self.name('_')
    }

    fn name(&self, separator: char) -> String {
        let (pid, start) = (self.pid, self.start_ticks);
        match self.namespace {
            None => format!("wakelat{separator}{pid}{separator}{start}"),
            Some(namespace) => format!("wakelat{separator}{pid}{separator}{start}{separator}{namespace}"),
        }
    }

    /// The owner of an instance or a synthetic event; none if the name is not exactly one that wakelat
    /// would give.
    pub fn of(name: &str) -> Option<Self> {
        let separator = name.strip_prefix("wakelat")?.chars().next()?;
        let mut parts = name.split(separator).skip(1).map(|number| number.parse::<u64>().ok());
        let pid = u32::try_from(parts.next()??).ok()?;
        let start_ticks = parts.next()??;
        let namespace = match parts.next() {
            None => None,
            Some(namespace) => Some(namespace?),
        };
        let owner = Self { pid, start_ticks, namespace };
        (name == owner.instance() || name == owner.event()).then_some(owner)
    }
}

fn namespace(proc: &Path) -> io::Result<Option<u64>> {
    let inode = fs::metadata(proc.join("self/ns/pid"))?.ino();
    Ok((inode != FIRST_NAMESPACE).then_some(inode))
}

/// Parses a process's PID and start time. The name, in parentheses, may contain anything, including
/// parentheses.
fn parse_stat(stat: &str) -> Option<(u32, u64)> {
    let pid = stat.split(' ').next()?.parse().ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    // `rest` begins with field 3.
    Some((pid, rest.split(' ').nth(22 - 3)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn this_process_is_alive_and_is_parsed_from_both_names() {
        let proc = Path::new("/proc");
        let this = Owner::this(proc).unwrap();
        assert_eq!(this.pid, std::process::id());
        assert_eq!(this.is_gone(proc), Some(false));
        assert_eq!(Owner::of(&this.instance()), Some(this));
        assert_eq!(Owner::of(&this.event()), Some(this));
    }

    #[test]
    fn a_process_with_the_same_pid_and_another_start_time_is_different() {
        let proc = Path::new("/proc");
        let this = Owner::this(proc).unwrap();
        assert_eq!(Owner { start_ticks: this.start_ticks + 1, ..this }.is_gone(proc), Some(true));
    }

    #[test]
    fn whether_a_process_of_another_namespace_has_exited_is_unknown() {
        let proc = Path::new("/proc");
        let this = Owner::this(proc).unwrap();
        let other = Owner { namespace: Some(this.namespace.unwrap_or(0) + 1), start_ticks: 0, ..this };
        assert_eq!(other.is_gone(proc), None);
    }

    #[test]
    fn a_name_that_only_resembles_wakelats_is_foreign() {
        for name in [
            "wakelat",
            "wakelat-",
            "wakelat-1",
            "wakelat-x-1",
            "wakelat-1-1-1-1",
            "wakelat-1_1",
            "wakelat-01-1",
            "wakelat-1-+1",
            "mywakelat-1-1",
            "wakelat.1.1",
            "wakelat-4294967296-1",
            "wakelat_1_1 u64 lat",
            "",
        ] {
            assert_eq!(Owner::of(name), None, "{name}");
        }
    }

    #[test]
    fn a_process_name_may_contain_anything() {
        let stat = "7 (a) S 1 (b) R 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 123456 1 2 3";
        assert_eq!(parse_stat(stat), Some((7, 123_456)));
        assert_eq!(parse_stat("7"), None);
    }

    proptest! {
        #[test]
        fn an_owner_survives_formatting_and_parsing(pid: u32, start_ticks: u64, namespace: Option<u64>) {
            let owner = Owner { pid, start_ticks, namespace };
            prop_assert_eq!(Owner::of(&owner.instance()), Some(owner));
            prop_assert_eq!(Owner::of(&owner.event()), Some(owner));
        }

        #[test]
        fn parsing_any_name_does_not_panic(name in "(wakelat)?[-_.0-9a-zé]{0,20}") {
            let _ = Owner::of(&name);
        }
    }
}
