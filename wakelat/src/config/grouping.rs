//! Grouping keys.

use super::ConfigError;
use crate::{
    cli::GroupingFlags,
    kernel::{Machine, cgroup, mounts},
};
use wakelat_core::aggregate::key::Key;

/// The keys given, or those of the command if none is given, if this machine supports them.
pub(super) fn keys(flags: &GroupingFlags, default: &[Key], machine: &Machine) -> Result<Vec<Key>, ConfigError> {
    let keys = keys_anywhere(flags, default)?;
    let of_cgroups = keys.iter().find(|key| matches!(key, Key::Cgroup | Key::Container));
    if let Some(key) = of_cgroups
        && mounts::of_kind(&machine.mounts, cgroup::V2).next().is_none()
    {
        return Err(ConfigError::unmet(&format!("--by {}", key.name()), cgroup::CgroupError::NotMounted));
    }
    Ok(keys)
}

/// The keys given, or those of the command if none is given, whatever machine the waits were measured
/// on.
pub(super) fn keys_anywhere(flags: &GroupingFlags, default: &[Key]) -> Result<Vec<Key>, ConfigError> {
    let mut keys = Vec::new();
    for key in &flags.by {
        if keys.contains(key) {
            return Err(ConfigError::usage("--by", format!("`{}` is given more than once; give it once", key.name())));
        }
        keys.push(*key);
    }
    for (given, key) in [(flags.per_process, Key::Pid), (flags.per_thread, Key::Tid)] {
        if given && !keys.contains(&key) {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        keys.extend_from_slice(default);
    }
    Ok(keys)
}
