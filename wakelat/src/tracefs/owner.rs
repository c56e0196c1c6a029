//! Who made what in tracefs: the names say it, so that what a killed run left can be told from everything else.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

/// Inode of the first PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// A process, by its id and when it began, since ids come round again. An id means something in its PID namespace only,
/// so that of a container is part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process.
    pub pid: u32,
    /// When it began: clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
    /// Inode of its PID namespace, where that is not the machine's first.
    pub namespace: Option<u64>,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// Where procfs at `proc` does not tell.
    pub fn this(proc: &Path) -> io::Result<Self> {
        let stat = fs::read_to_string(proc.join("self/stat"))?;
        let (pid, start_ticks) =
            parse_stat(&stat).ok_or_else(|| io::Error::other("`/proc/self/stat` is not of its form"))?;
        Ok(Self { pid, start_ticks, namespace: namespace(proc)? })
    }

    /// Whether the process is gone. None where that cannot be told from here: it lives in another PID namespace.
    pub fn is_gone(&self, proc: &Path) -> Option<bool> {
        if namespace(proc).ok()? != self.namespace {
            return None;
        }
        match fs::read_to_string(proc.join(self.pid.to_string()).join("stat")) {
            Ok(stat) => parse_stat(&stat).map(|(_, start_ticks)| start_ticks != self.start_ticks),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(true),
            // ESRCH: it ended while it was read.
            Err(error) => (error.raw_os_error() == Some(libc::ESRCH)).then_some(true),
        }
    }

    /// Name of its instance: `wakelat-PID-START`.
    pub fn instance(&self) -> String {
        self.name('-')
    }

    /// Name of its synthetic event, which may hold no `-`: `wakelat_PID_START`.
    pub fn event(&self) -> String {
        self.name('_')
    }

    fn name(&self, joint: char) -> String {
        let (pid, start) = (self.pid, self.start_ticks);
        match self.namespace {
            None => format!("wakelat{joint}{pid}{joint}{start}"),
            Some(namespace) => format!("wakelat{joint}{pid}{joint}{start}{joint}{namespace}"),
        }
    }

    /// The owner of an instance or of a synthetic event, where the name is exactly one that wakelat gives.
    pub fn of(name: &str) -> Option<Self> {
        let joint = name.strip_prefix("wakelat")?.chars().next()?;
        let mut parts = name.split(joint).skip(1).map(|number| number.parse::<u64>().ok());
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

/// The id and the start of a process. Its name, in parentheses, may hold anything, parentheses too.
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
    fn this_process_lives_and_is_found_by_both_names() {
        let proc = Path::new("/proc");
        let this = Owner::this(proc).unwrap();
        assert_eq!(this.pid, std::process::id());
        assert_eq!(this.is_gone(proc), Some(false));
        assert_eq!(Owner::of(&this.instance()), Some(this));
        assert_eq!(Owner::of(&this.event()), Some(this));
    }

    #[test]
    fn a_process_with_the_same_id_that_began_later_is_another() {
        let proc = Path::new("/proc");
        let this = Owner::this(proc).unwrap();
        assert_eq!(Owner { start_ticks: this.start_ticks + 1, ..this }.is_gone(proc), Some(true));
    }

    #[test]
    fn nobody_judges_a_process_of_another_namespace() {
        let proc = Path::new("/proc");
        let this = Owner::this(proc).unwrap();
        let other = Owner { namespace: Some(this.namespace.unwrap_or(0) + 1), start_ticks: 0, ..this };
        assert_eq!(other.is_gone(proc), None);
    }

    #[test]
    fn a_name_that_only_looks_like_ours_is_foreign() {
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
    fn a_process_may_be_called_anything() {
        let stat = "7 (a) S 1 (b) R 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 123456 1 2 3";
        assert_eq!(parse_stat(stat), Some((7, 123_456)));
        assert_eq!(parse_stat("7"), None);
    }

    proptest! {
        #[test]
        fn a_name_tells_its_owner(pid: u32, start_ticks: u64, namespace: Option<u64>) {
            let owner = Owner { pid, start_ticks, namespace };
            prop_assert_eq!(Owner::of(&owner.instance()), Some(owner));
            prop_assert_eq!(Owner::of(&owner.event()), Some(owner));
        }

        #[test]
        fn any_name_is_judged_without_a_panic(name in "(wakelat)?[-_.0-9a-zé]{0,20}") {
            let _ = Owner::of(&name);
        }
    }
}
