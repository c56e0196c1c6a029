//! The trigger recipe as shell commands.

use std::fmt::Write as _;

use super::wakeup_latency::TriggerRecipe;
use wakelat_kernel::release::Release;

impl TriggerRecipe {
    /// Shell commands that measure for `duration_ns` without any tool, and then remove everything.
    /// `threads_of` are the PIDs of processes whose threads the commands look up when they run.
    pub fn shell(&self, kernel: &Release, tracefs: &str, threads_of: &[u32], duration_ns: u64) -> String {
        let mut text = String::new();
        self.write_shell(&mut text, kernel, tracefs, threads_of, duration_ns).expect("writing to a string cannot fail");
        text
    }

    fn write_shell(
        &self,
        out: &mut String,
        kernel: &Release,
        tracefs: &str,
        threads_of: &[u32],
        duration_ns: u64,
    ) -> std::fmt::Result {
        let event = &self.event;
        writeln!(out, "# Wakeup latency with only hist triggers, for Linux {kernel}. Run as root.")?;
        writeln!(out, "# The kernel needs CONFIG_HIST_TRIGGERS: there must be a file events/sched/sched_switch/hist.")?;
        for line in LIMITS {
            writeln!(out, "# {line}")?;
        }
        writeln!(out, "cd {tracefs}")?;
        let triggers = match threads_of {
            [] => self.triggers(),
            _ => {
                let tasks: Vec<String> = threads_of.iter().map(|pid| format!("/proc/{pid}/task/*")).collect();
                writeln!(out, "# The current threads of the processes; later ones are not measured.")?;
                writeln!(out, "tids=$(ls -d {} | sed 's|.*/||')", tasks.join(" "))?;
                for (variable, field) in [("woken", "pid"), ("next", "next_pid")] {
                    writeln!(out, "{variable}=$(echo $tids | sed 's/ / || {field} == /g; s/^/{field} == /')")?;
                }
                let [mut start, mut switch, last] = self.triggers();
                // Threads selected by TID must also belong to one of the processes.
                for (placed, variable) in [(&mut start, "woken"), (&mut switch, "next")] {
                    let joined = if placed.trigger.contains(" if ") { " &&" } else { " if" };
                    placed.trigger = format!("{}{joined} ('\"${variable}\"')", placed.trigger);
                }
                [start, switch, last]
            }
        };
        writeln!(out, "echo '{}' >> synthetic_events", self.synthetic_event())?;
        writeln!(out, "mkdir instances/{event}")?;
        for placed in &triggers {
            writeln!(out, "echo '{}' >> instances/{event}/events/{}/trigger", placed.trigger, placed.event)?;
        }
        writeln!(out, "sleep {}", seconds(duration_ns))?;
        writeln!(out, "cat instances/{event}/events/synthetic/{event}/hist")?;
        writeln!(
            out,
            "# Remove everything, in reverse order. Keep the >>: a single > would delete all triggers of an"
        )?;
        writeln!(out, "# event, including those of others. Run these commands even if one above failed.")?;
        for placed in triggers.iter().rev() {
            writeln!(out, "echo '!{}' >> instances/{event}/events/{}/trigger", placed.trigger, placed.event)?;
        }
        writeln!(out, "rmdir instances/{event}")?;
        writeln!(out, "echo '!{event}' >> synthetic_events")
    }
}

/// Seconds as sleep(1) accepts them: whole ones in POSIX, also fractions in GNU and busybox.
fn seconds(ns: u64) -> String {
    let fraction = format!("{:09}", ns % 1_000_000_000);
    match fraction.trim_end_matches('0') {
        "" => (ns / 1_000_000_000).to_string(),
        fraction => format!("{}.{fraction}", ns / 1_000_000_000),
    }
}

/// What the triggers of the script do not do, printed at its top.
const LIMITS: [&str; 8] = [
    "What these triggers do not do:",
    "- filter by cgroup, scheduling policy or class, or follow new threads of a process;",
    "- ignore wakeups of running tasks, which start no wait: the timestamp stays behind, and the task's",
    "  next switch-in without a wakeup, for example after a preemption, counts as a bogus long wait;",
    "- keep the earliest of several wakeups: a later one overwrites the timestamp;",
    "- measure first waits of new tasks (sched_wakeup_new) or waits after a preemption;",
    "- report which task waited longest, and when (`onmax()` with `save()` can, per key).",
    "`Dropped:` counts entries that a full table rejected.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist_trigger::wakeup_latency::{Buckets, DEFAULT_SIZE, TriggerFilter};
    use wakelat_core::report::LatencyFrom;

    #[test]
    fn the_commands_only_append_and_remove_readers_before_owners() {
        let shell = recipe().shell(&Release::parse("6.1"), "/sys/kernel/tracing", &[1], 1_500_000_000);
        assert!(shell.contains("\nsleep 1.5\n"), "{shell}");
        let commands: Vec<&str> = shell.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(commands.iter().all(|line| line.matches('>').count() != 1), "{shell}");
        let at = |text: &str| commands.iter().position(|line| line.contains(text)).unwrap();
        assert!(at("'!hist:keys=lat") < at("'!hist:keys=next_pid"));
        assert!(at("'!hist:keys=next_pid") < at("'!hist:keys=pid"));
        assert!(at("'!hist:keys=pid") < at("rmdir") && at("rmdir") < at("'!wakelat_1_2'"));
        assert!(at("tids=") < at("woken="));
    }

    fn recipe() -> TriggerRecipe {
        TriggerRecipe {
            event: "wakelat_1_2".into(),
            from: LatencyFrom::Wakeup,
            filter: TriggerFilter::default(),
            by: Vec::new(),
            buckets: Some(Buckets::Log2),
            sum: false,
            size: DEFAULT_SIZE,
        }
    }
}
