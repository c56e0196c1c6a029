//! What cannot be selected or grouped by with classic tracepoints, and with the text of a trace.

use wakelat_common::filter::part;

use super::{Config, ConfigError};
use wakelat_core::{aggregate::key::Key, recording::TextSource};

impl Config {
    /// Rejects filters and keys that classic tracepoints cannot provide: they know only the TID, name and
    /// priority of a thread.
    ///
    /// # Errors
    /// If a filter or a key needs more.
    pub(crate) fn check_classic_tracepoints(&self) -> Result<(), ConfigError> {
        let Some(what) = self.needed_beyond_thread(false) else { return Ok(()) };
        Err(ConfigError::Unmet(format!(
            "records of classic tracepoints do not contain the `{what}` of a task; use a kernel with BTF, give its \
             BTF with `--btf FILE`, or select and group only by TID, name, priority and CPU"
        )))
    }

    /// Rejects filters and keys that the text of a trace cannot provide. `selects_cgroups`: there is a filter by cgroup.
    ///
    /// # Errors
    /// If a filter or a key needs more.
    pub(crate) fn check_trace_text(&self, text: &TextSource, selects_cgroups: bool) -> Result<(), ConfigError> {
        let needed = self.needed_beyond_thread(text.has_processes);
        let Some(what) = needed.or(selects_cgroups.then_some("cgroup")) else { return Ok(()) };
        let process = if text.has_processes { "process, " } else { "" };
        Err(ConfigError::Unmet(format!(
            "the text of a trace does not contain the `{what}` of a task; select and group only by {process}TID, name, \
             priority, waker and CPU, or measure with `wakelat record`"
        )))
    }

    /// What the filter or a key needs besides the TID, name and priority of a thread, if anything; besides its process
    /// with `has_processes`.
    fn needed_beyond_thread(&self, has_processes: bool) -> Option<&'static str> {
        let unknown = [
            (part::TGID, Key::Pid, "process"),
            (part::POLICY, Key::Policy, "policy"),
            (part::CGROUP, Key::Cgroup, "cgroup"),
            (part::CGROUP, Key::Container, "cgroup"),
        ];
        let mut unknown = unknown.into_iter().filter(|(_, key, _)| !has_processes || *key != Key::Pid);
        let found = unknown.find(|(part, key, _)| self.filter.parts & part != 0 || self.by.contains(key));
        found.map(|(.., what)| what)
    }
}
