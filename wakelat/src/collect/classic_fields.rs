//! The offsets of the fields in the records of classic tracepoints on the running kernel.

use std::path::Path;

use anyhow::{Context as _, Result};
use wakelat_common::classic_fields::Offsets;

use wakelat_kernel::event_format::EventFormat;

/// Offsets for the three kinds of task in a record, configured when the programs are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordOffsets {
    pub woken: Offsets,
    pub prev: Offsets,
    pub next: Offsets,
}

impl RecordOffsets {
    /// Reads the offsets from the `format` files below `tracefs`.
    pub fn read(tracefs: &Path) -> Result<Self> {
        let format = |event: &str| {
            let path = tracefs.join("events/sched").join(event).join("format");
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
            EventFormat::parse(&text).with_context(|| format!("cannot parse `{}`", path.display()))
        };
        Self::of(&format("sched_wakeup")?, &format("sched_switch")?)
    }

    /// `sched_waking` and `sched_wakeup_new` have the layout of `sched_wakeup`: one event class
    /// (`sched_wakeup_template`, include/trace/events/sched.h).
    fn of(wakeup: &EventFormat, switch: &EventFormat) -> Result<Self> {
        let offset = |format: &EventFormat, field: &str| {
            let found =
                format.field(field).with_context(|| format!("the record of `{}` has no `{field}`", format.name))?;
            Ok::<_, anyhow::Error>(found.offset)
        };
        Ok(Self {
            woken: Offsets {
                pid: offset(wakeup, "pid")?,
                prio: offset(wakeup, "prio")?,
                cpu: offset(wakeup, "target_cpu")?,
                comm: offset(wakeup, "comm")?,
                state: 0,
            },
            prev: Offsets {
                pid: offset(switch, "prev_pid")?,
                prio: offset(switch, "prev_prio")?,
                state: offset(switch, "prev_state")?,
                comm: offset(switch, "prev_comm")?,
                cpu: 0,
            },
            next: Offsets {
                pid: offset(switch, "next_pid")?,
                prio: offset(switch, "next_prio")?,
                comm: offset(switch, "next_comm")?,
                cpu: 0,
                state: 0,
            },
        })
    }
}
