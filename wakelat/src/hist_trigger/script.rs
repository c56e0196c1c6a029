//! The trigger recipe as shell commands.

use std::fmt::Write as _;

use super::recipe::TriggerRecipe;
use crate::kernel::release::Release;

impl TriggerRecipe {
    /// The shell commands that measure for `duration_ns` with no tool at all, and take everything away again.
    /// `threads_of` names processes whose threads are looked up when the commands run.
    pub fn shell(&self, kernel: &Release, tracefs: &str, threads_of: &[u32], duration_ns: u64) -> String {
        let mut text = String::new();
        self.write_shell(&mut text, kernel, tracefs, threads_of, duration_ns)
            .expect("a string takes whatever is written to it");
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
        writeln!(out, "# Wakeup latency by hist triggers alone, for Linux {kernel}. To be run as root.")?;
        writeln!(out, "# The kernel needs CONFIG_HIST_TRIGGERS: there must be a file events/sched/sched_switch/hist.")?;
        for line in LIMITS {
            writeln!(out, "# {line}")?;
        }
        writeln!(out, "cd {tracefs}")?;
        let triggers = match threads_of {
            [] => self.triggers(),
            _ => {
                let tasks: Vec<String> = threads_of.iter().map(|pid| format!("/proc/{pid}/task/*")).collect();
                writeln!(out, "# The threads that the processes have now; later ones are not measured.")?;
                writeln!(out, "tids=$(ls -d {} | sed 's|.*/||')", tasks.join(" "))?;
                for (variable, field) in [("woken", "pid"), ("next", "next_pid")] {
                    writeln!(out, "{variable}=$(echo $tids | sed 's/ / || {field} == /g; s/^/{field} == /')")?;
                }
                let [mut start, mut switch, last] = self.triggers();
                // Threads named by themselves have to belong to the processes as well.
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
            "# Everything is taken away again, in the opposite order. Mind the >>: a single > would delete all"
        )?;
        writeln!(
            out,
            "# triggers of an event, other people's too. If a command above failed, run these all the same."
        )?;
        for placed in triggers.iter().rev() {
            writeln!(out, "echo '!{}' >> instances/{event}/events/{}/trigger", placed.trigger, placed.event)?;
        }
        writeln!(out, "rmdir instances/{event}")?;
        writeln!(out, "echo '!{event}' >> synthetic_events")
    }
}

/// Seconds as sleep(1) takes them: POSIX knows whole ones, GNU and busybox fractions too.
fn seconds(ns: u64) -> String {
    let fraction = format!("{:09}", ns % 1_000_000_000);
    match fraction.trim_end_matches('0') {
        "" => (ns / 1_000_000_000).to_string(),
        fraction => format!("{}.{fraction}", ns / 1_000_000_000),
    }
}

/// What a trigger cannot do, said in front of every script.
const LIMITS: [&str; 7] = [
    "What triggers cannot do:",
    "- filter by cgroup, scheduling policy or class, or follow a process as it makes new threads;",
    "- tell a wakeup of a running task, after which nothing waits, from any other: its start stays behind,",
    "  and the task's next switch-in without a wakeup, as after a preemption, gives a bogus long wait;",
    "- keep the earliest of several wakeups: a later one restarts the clock;",
    "- see new tasks' first wait (sched_wakeup_new) or the wait after a preemption;",
    "- say who waited longest and when. What finds no room in a table is counted in `Dropped:`.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist_trigger::recipe::{Buckets, DEFAULT_SIZE, TriggerFilter};
    use crate::report::LatencyFrom;

    #[test]
    fn the_commands_append_only_and_remove_readers_before_owners() {
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
