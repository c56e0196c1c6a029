//! What cannot be selected or grouped by with classic tracepoints.

use wakelat_common::filter::part;

use super::{Config, ConfigError};
use wakelat_core::aggregate::key::Key;

impl Config {
    /// Rejects filters and keys that classic tracepoints cannot provide: they know only the TID, name and
    /// priority of a thread.
    ///
    /// # Errors
    /// If a filter or a key needs more.
    pub(crate) fn check_classic_tracepoints(&self) -> Result<(), ConfigError> {
        let unknown = [
            (part::TGID, Key::Pid, "process"),
            (part::POLICY, Key::Policy, "policy"),
            (part::CGROUP, Key::Cgroup, "cgroup"),
            (part::CGROUP, Key::Container, "cgroup"),
        ];
        for (part, key, what) in unknown {
            if self.filter.parts & part != 0 || self.by.contains(&key) {
                return Err(ConfigError::Unmet(format!(
                    "records of classic tracepoints do not contain the `{what}` of a task; use a kernel with BTF, give its \
                     BTF with `--btf FILE`, or select and group only by TID, name, priority and CPU"
                )));
            }
        }
        Ok(())
    }
}
