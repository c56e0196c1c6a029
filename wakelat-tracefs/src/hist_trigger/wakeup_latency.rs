//! The trigger recipe for wakeup latency: a synthetic event and three hist triggers.
//!
//! The trigger on `sched_wakeup` stores a timestamp by thread ID; the one on `sched_switch` consumes it,
//! computes the difference and fires the synthetic event; the one on that event counts the latency. Three
//! rules make this correct:
//!
//! - Both ends filter on threads, because a thread's ID never changes. All other filters are on the
//!   synthetic event, which fires inside the switch, on the same CPU: if they applied earlier, a start
//!   could stay in the table and produce a bogus value at a later switch.
//! - `clock=mono` everywhere: it is the clock of BPF, and all triggers of an instance must use the same
//!   clock.
//! - The triggers are removed in reverse order: the owner of a variable cannot be removed before its
//!   readers (EBUSY).

use std::ops::RangeInclusive;

use wakelat_core::report::LatencyFrom;
use wakelat_kernel::release::Release;

/// Default size of the tables keyed by thread. The IDs of all threads that ever appear must fit, because
/// the kernel never removes an entry from the table, and counts events without room as `Dropped`.
pub const DEFAULT_SIZE: u32 = 16_384;

/// The waits that a trigger counts. Fields are joined by *and*, the values of one field by *or*; an empty
/// field does not filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerFilter {
    /// Thread IDs.
    pub tids: Vec<u32>,
    /// Shell patterns of thread names.
    pub comms: Vec<String>,
    /// Ranges of kernel priorities.
    pub prios: Vec<RangeInclusive<i64>>,
    /// Ranges of CPUs on which the wait ends.
    pub cpus: Vec<RangeInclusive<i64>>,
}

/// The buckets of the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buckets {
    /// Powers of two.
    #[default]
    Log2,
    /// Buckets of equal width; since 5.14.
    Linear {
        /// The width in ns.
        width_ns: u64,
        /// Maximum number of buckets.
        size: u32,
    },
}

/// A key besides the latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyKey {
    /// The thread.
    Tid,
    /// Its kernel priority.
    Prio,
    /// Its name.
    Comm,
    /// The CPU on which the wait ends.
    Cpu,
}

impl LatencyKey {
    /// The field of the synthetic event. `cpu` is the CPU of any event: it has been called `common_cpu`
    /// since 5.14, and `cpu` is still accepted (`parse_field`, kernel/trace/trace_events_hist.c).
    const fn field(self) -> &'static str {
        match self {
            Self::Tid => "pid",
            Self::Prio => "prio",
            Self::Comm => "comm",
            Self::Cpu => "cpu",
        }
    }
}

/// What the triggers measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerRecipe {
    /// Name of the synthetic event: letters, digits and `_`.
    pub event: String,
    /// The event at which latency starts.
    pub from: LatencyFrom,
    /// The waits to count.
    pub filter: TriggerFilter,
    /// Keys besides the latency, at most two.
    pub by: Vec<LatencyKey>,
    /// The buckets; none to count each exact latency.
    pub buckets: Option<Buckets>,
    /// Whether the latencies are also summed. The entries are then sorted by their sums, because the kernel
    /// resolves `sort=lat` to the sum.
    pub sum: bool,
    /// Size of the tables keyed by thread.
    pub size: u32,
}

/// A trigger and the event it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTrigger {
    /// The event, such as `sched/sched_switch`.
    pub event: String,
    /// The trigger, as the event's `trigger` file accepts it.
    pub trigger: String,
}

/// Why a recipe cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecipeError {
    /// The kernel has no synthetic events.
    Kernel(String),
    /// The kernel has no linear buckets.
    Linear(String),
    /// A pattern contains a character that a filter of the kernel cannot contain.
    Pattern(String),
    /// The trigger would have more keys than the kernel accepts, or a duplicate key.
    Keys,
}

impl std::fmt::Display for RecipeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kernel(kernel) => {
                write!(
                    f,
                    "kernel `{kernel}` has no synthetic events, which the measurement needs; use Linux 4.17 or later"
                )
            }
            Self::Linear(kernel) => {
                write!(
                    f,
                    "kernel `{kernel}` has no `.buckets`; use Linux 5.14 or later, or leave out the width for powers of two"
                )
            }
            Self::Keys => f.write_str(
                "a trigger has at most three different keys, and the latency is one of them; give at most two others",
            ),
            Self::Pattern(pattern) => {
                write!(
                    f,
                    "`{pattern}` contains a quote, a backslash or a control character, which the filter of a trigger cannot contain"
                )
            }
        }
    }
}

impl std::error::Error for RecipeError {}

impl TriggerRecipe {
    /// Checks that this kernel accepts the recipe, and its filters the patterns.
    ///
    /// # Errors
    /// The reason for which it does not.
    pub fn check(&self, kernel: &Release) -> Result<(), RecipeError> {
        if !kernel.is_at_least(4, 17) {
            return Err(RecipeError::Kernel(kernel.to_string()));
        }
        // `TRACING_MAP_KEYS_MAX`, kernel/trace/tracing_map.h.
        if self.by.len() > 2 || matches!(self.by[..], [one, other] if one == other) {
            return Err(RecipeError::Keys);
        }
        if matches!(self.buckets, Some(Buckets::Linear { .. })) && !kernel.is_at_least(5, 14) {
            return Err(RecipeError::Linear(kernel.to_string()));
        }
        let is_invalid = |character: char| matches!(character, '"' | '\'' | '\\') || character.is_control();
        match self.filter.comms.iter().find(|pattern| pattern.contains(is_invalid)) {
            Some(pattern) => Err(RecipeError::Pattern(pattern.clone())),
            None => Ok(()),
        }
    }

    /// The synthetic event, as `synthetic_events` accepts it.
    pub fn synthetic_event(&self) -> String {
        format!("{} u64 lat; pid_t pid; int prio; char comm[16]", self.event)
    }

    /// The triggers in the order in which to place them; remove them in reverse order.
    pub fn triggers(&self) -> [EventTrigger; 3] {
        let Self { event, size, .. } = self;
        let start = match self.from {
            // The commands with a recipe do not offer the run queue's clock, which no trigger reads.
            LatencyFrom::Wakeup | LatencyFrom::Queued => "sched_wakeup",
            LatencyFrom::Waking => "sched_waking",
        };
        let latency = match self.buckets {
            None => "lat".to_owned(),
            Some(Buckets::Log2) => "lat.log2".to_owned(),
            Some(Buckets::Linear { width_ns, .. }) => format!("lat.buckets={width_ns}"),
        };
        let keys: Vec<&str> = self.by.iter().map(|key| key.field()).chain([latency.as_str()]).collect();
        // Sort by at most two fields (`TRACING_MAP_SORT_KEYS_MAX`), and not by the CPU, whose name differs
        // between kernels.
        let first = self.by.iter().find(|key| **key != LatencyKey::Cpu).map(|key| key.field());
        let sort: Vec<&str> = first.into_iter().chain(["lat"]).collect();
        let table_size = match self.buckets {
            Some(Buckets::Linear { size, .. }) => format!(":size={size}"),
            Some(Buckets::Log2) if self.by.is_empty() => String::new(),
            _ => format!(":size={size}"),
        };
        let values = if self.sum { ":vals=lat" } else { "" };
        [
            EventTrigger {
                event: format!("sched/{start}"),
                trigger: format!(
                    "hist:keys=pid:ts0=common_timestamp:size={size}:clock=mono{}",
                    condition(&[tids("pid", &self.filter.tids)])
                ),
            },
            EventTrigger {
                event: "sched/sched_switch".into(),
                trigger: format!(
                    "hist:keys=next_pid:wl=common_timestamp-$ts0:size={size}:clock=mono:\
                     onmatch(sched.{start}).{event}($wl,next_pid,next_prio,next_comm){}",
                    condition(&[tids("next_pid", &self.filter.tids)])
                ),
            },
            EventTrigger {
                event: format!("synthetic/{event}"),
                trigger: format!(
                    "hist:keys={}{values}:sort={}{table_size}{}",
                    keys.join(","),
                    sort.join(","),
                    self.final_condition()
                ),
            },
        ]
    }

    fn final_condition(&self) -> String {
        condition(&[
            any(self.filter.comms.iter().map(|pattern| match pattern.contains(['*', '?', '[']) {
                // The kernel negates a set only by `!` (`glob_match`, lib/glob.c).
                true => format!("comm ~ \"{}\"", pattern.replace("[^", "[!")),
                false => format!("comm == \"{pattern}\""),
            })),
            any(self.filter.prios.iter().map(|range| within("prio", range))),
            any(self.filter.cpus.iter().map(|range| within("cpu", range))),
        ])
    }
}

fn tids(field: &str, tids: &[u32]) -> String {
    any(tids.iter().map(|tid| format!("{field} == {tid}")))
}

fn within(field: &str, range: &RangeInclusive<i64>) -> String {
    match (range.start(), range.end()) {
        (first, last) if first == last => format!("{field} == {first}"),
        (first, last) => format!("({field} >= {first} && {field} <= {last})"),
    }
}

/// Joins terms by *or*, in parentheses if there are several.
fn any(terms: impl Iterator<Item = String>) -> String {
    let terms: Vec<String> = terms.collect();
    match &terms[..] {
        [] | [_] => terms.concat(),
        _ => format!("({})", terms.join(" || ")),
    }
}

/// Joins conditions by *and* as ` if …`; empty if all are empty.
fn condition(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { String::new() } else { format!(" if {}", parts.join(" && ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist_trigger::TriggerSpec;

    fn recipe(filter: TriggerFilter) -> TriggerRecipe {
        TriggerRecipe {
            event: "wakelat_1_2".into(),
            from: LatencyFrom::Wakeup,
            filter,
            by: Vec::new(),
            buckets: Some(Buckets::Log2),
            sum: false,
            size: DEFAULT_SIZE,
        }
    }

    #[test]
    fn without_a_filter_the_triggers_are_those_of_the_guide() {
        let triggers = recipe(TriggerFilter::default()).triggers().map(|placed| placed.trigger);
        assert_eq!(
            triggers,
            [
                "hist:keys=pid:ts0=common_timestamp:size=16384:clock=mono",
                "hist:keys=next_pid:wl=common_timestamp-$ts0:size=16384:clock=mono:onmatch(sched.sched_wakeup).wakelat_1_2($wl,next_pid,next_prio,next_comm)",
                "hist:keys=lat.log2:sort=lat",
            ]
        );
    }

    #[test]
    fn latencies_can_be_counted_by_other_keys_too() {
        let counted = |by: &[LatencyKey], buckets| {
            let recipe = TriggerRecipe { by: by.to_vec(), buckets, ..recipe(TriggerFilter::default()) };
            (recipe.check(&Release::parse("6.1")), recipe.triggers()[2].trigger.clone())
        };
        use LatencyKey::{Comm, Cpu, Prio, Tid};
        assert_eq!(counted(&[Tid, Prio], None), (Ok(()), "hist:keys=pid,prio,lat:sort=pid,lat:size=16384".to_owned()));
        assert_eq!(
            counted(&[Cpu, Comm], Some(Buckets::Log2)),
            (Ok(()), "hist:keys=cpu,comm,lat.log2:sort=comm,lat:size=16384".to_owned())
        );
        assert_eq!(counted(&[], None).1, "hist:keys=lat:sort=lat:size=16384");
        assert_eq!(counted(&[Tid, Prio, Cpu], None).0, Err(RecipeError::Keys));
        assert_eq!(counted(&[Tid, Tid], None).0, Err(RecipeError::Keys));
    }

    #[test]
    fn only_the_filter_on_threads_applies_before_the_start_is_consumed() {
        let [start, switch, last] = recipe(TriggerFilter {
            tids: vec![7, 8],
            comms: vec!["nginx*".into(), "redis".into()],
            prios: vec![0..=99, 120..=120],
            cpus: vec![0..=3, 8..=8],
        })
        .triggers()
        .map(|placed| TriggerSpec::parse(&placed.trigger).unwrap().filter.unwrap());
        assert_eq!(start, "(pid == 7 || pid == 8)");
        assert_eq!(switch, "(next_pid == 7 || next_pid == 8)");
        assert_eq!(
            last,
            "(comm ~ \"nginx*\" || comm == \"redis\") && ((prio >= 0 && prio <= 99) || prio == 120) \
             && ((cpu >= 0 && cpu <= 3) || cpu == 8)"
        );
    }

    #[test]
    fn a_kernel_without_the_required_features_is_rejected() {
        let linear = TriggerRecipe {
            buckets: Some(Buckets::Linear { width_ns: 1000, size: 2048 }),
            ..recipe(TriggerFilter::default())
        };
        let kernel = |text| Release::parse(text);
        assert!(matches!(recipe(TriggerFilter::default()).check(&kernel("4.16.0")), Err(RecipeError::Kernel(_))));
        assert!(matches!(linear.check(&kernel("5.10")), Err(RecipeError::Linear(_))));
        assert_eq!(linear.check(&kernel("6.1")), Ok(()));
        assert_eq!(recipe(TriggerFilter::default()).check(&kernel("5.10")), Ok(()));
    }

    #[test]
    fn a_pattern_cannot_escape_its_quotes() {
        for pattern in ["a\"b", "a'b", "a\nb", "a\\"] {
            let recipe = recipe(TriggerFilter { comms: vec![pattern.into()], ..TriggerFilter::default() });
            assert!(matches!(recipe.check(&Release::parse("6.1")), Err(RecipeError::Pattern(_))), "{pattern}");
        }
    }
}
