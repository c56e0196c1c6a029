//! Function calls on other CPUs, for which the kernel interrupts them: recorded by its tracer, in an instance of
//! tracefs.

use std::{collections::HashSet, fs};

use crate::{skip::Skip, trace_instance::TraceInstance, tracefs};

/// The event of such a call (include/trace/events/csd.h, since 6.3).
const EVENT: &str = "csd/csd_queue_cpu";

/// The wakeup of one of RCU's threads, which the kernel sends to another CPU with such a call
/// (`ttwu_queue_wakelist()`, kernel/sched/core.c). Where these threads run is decided by the system: a grace period that
/// a task waits for may wake them.
const WAKING: &str = "sched/sched_waking";
const OF_RCU: &str = "comm ~ \"rcu*\"";
const WAKEUP: &str = "func=sched_ttwu_pending";

/// What the scheduler calls on a CPU on which several real-time tasks are runnable, when a real-time task leaves another one
/// (`tell_cpu_to_push()`, kernel/sched/rt.c): which tasks are there is decided by the system.
const PUSH: &str = "func=rto_push_irq_work_func";

/// For older kernels, which show no call for a wakeup: the functions that call (kernel/smp.c), and those that patch code (arch/x86/kernel/alternative.c).
const FUNCTIONS: [&str; 6] = [
    "smp_call_function_many_cond",
    "smp_call_function_single",
    "generic_exec_single",
    "text_poke_bp_batch",
    "text_poke_finish",
    "text_poke_bp",
];

/// What the kernel calls on other CPUs after it has patched code there (`text_poke_sync()`), and the functions that
/// patch it.
const PATCHING: [&str; 2] = ["do_sync_core", "text_poke"];

/// Size of the buffer of each CPU: KiB. Tasks that wake each other on two idle CPUs call the other one some 20,000 times
/// a second, and each call takes 40 bytes.
const BUFFER_KIB: &str = "32768";

/// A recording of function calls on other CPUs. Dropping it removes the instance.
pub struct RemoteCalls(TraceInstance);

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCall {
    /// The thread that called.
    pub tid: u32,
    /// ns of CLOCK_MONOTONIC, to the microsecond.
    pub at_ns: u64,
    /// The function and its caller.
    pub function: String,
}

impl RemoteCall {
    /// Whether code is patched.
    pub fn patches_code(&self) -> bool {
        PATCHING.iter().any(|name| self.function.contains(name))
    }
}

impl RemoteCalls {
    /// Starts recording. Skips the test if the kernel has neither the event nor the function tracer.
    pub fn start(name: &str) -> Result<Self, Skip> {
        let has_event = has_event();
        let available = fs::read_to_string(tracefs::path("available_filter_functions")).unwrap_or_default();
        let available: HashSet<&str> = available.lines().filter_map(|line| line.split(' ').next()).collect();
        let functions: Vec<&str> = FUNCTIONS.into_iter().filter(|function| available.contains(function)).collect();
        if !has_event && !functions.iter().any(|function| function.starts_with("text_poke")) {
            return Err(Skip::because("the tracer of this kernel does not show function calls on other CPUs"));
        }
        let instance = TraceInstance::create(name);
        instance.append("trace_clock", "mono");
        instance.append("buffer_size_kb", BUFFER_KIB);
        if has_event {
            instance.filter(WAKING, OF_RCU);
            [EVENT, WAKING].iter().for_each(|event| instance.enable(event, true));
        } else {
            functions.iter().for_each(|function| instance.append("set_ftrace_filter", function));
            instance.append("current_tracer", "function");
        }
        Ok(Self(instance))
    }

    /// The calls so far, except wakeups of RCU's threads and the balancing of real-time tasks.
    ///
    /// # Panics
    /// If one was lost.
    pub fn so_far(&self) -> Vec<RemoteCall> {
        let text = self.0.read("trace");
        // The header has the numbers of events in the buffer and written, which differ by those overwritten.
        let counts = text.lines().find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written: "));
        let counts = counts.and_then(|counts| counts.split_whitespace().next()?.split_once('/'));
        let (kept, written) = counts.unwrap_or_else(|| panic!("no counts: {text}"));
        assert_eq!(kept, written, "calls were overwritten");
        without_calls_of_the_system(text.lines().filter(|line| !line.starts_with('#')).filter_map(parse))
    }
}

impl Drop for RemoteCalls {
    fn drop(&mut self) {
        if has_event() {
            [EVENT, WAKING].iter().for_each(|event| self.0.enable(event, false));
        }
        self.0.append("current_tracer", "nop");
    }
}

fn has_event() -> bool {
    tracefs::path(&format!("events/{EVENT}")).exists()
}

/// Removes the balancing of real-time tasks, and wakeups of RCU's threads: each of these is an event of [`WAKING`], perhaps
/// followed by the same thread's call.
fn without_calls_of_the_system(events: impl Iterator<Item = RemoteCall>) -> Vec<RemoteCall> {
    let mut wakes_rcu = HashSet::new();
    let is_call = |event: &RemoteCall| {
        if event.function.starts_with("sched_waking: comm=rcu") {
            wakes_rcu.insert(event.tid);
            return false;
        }
        let is_wakeup = wakes_rcu.remove(&event.tid) && event.function.contains(WAKEUP);
        !is_wakeup && !event.function.contains(PUSH)
    };
    events.filter(is_call).collect()
}

/// A line as in `  wakelat-123     [001] d..1. 34.000567: text_poke_bp_batch <-text_poke_finish`. `None` for what an
/// interrupt does, such as the scheduler's tick: it is not the work of the thread that it interrupts.
fn parse(line: &str) -> Option<RemoteCall> {
    /// No interrupt, in the third of the flags (Documentation/trace/ftrace.rst).
    const NO_INTERRUPT: u8 = b'.';
    let (task, rest) = line.split_once(" [")?;
    let tid = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
    let (before, function) = rest.split_once(": ")?;
    let [_, flags, at] = before.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
    let (seconds, micros) = at.split_once('.')?;
    let at_us: u64 = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    (flags.as_bytes().get(2) == Some(&NO_INTERRUPT)).then(|| RemoteCall {
        tid,
        at_ns: at_us * 1_000,
        function: function.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_thread_the_time_and_the_function() {
        let line = "         wake-lat-4711    [001] ..... 35120.024120: text_poke_bp_batch <-text_poke_finish";
        let function = "text_poke_bp_batch <-text_poke_finish".to_owned();
        assert_eq!(parse(line), Some(RemoteCall { tid: 4_711, at_ns: 35_120_024_120_000, function }));
        assert_eq!(parse(&line.replace(".....", "d.h1.")), None, "the tick");
        assert_eq!(parse("CPU:1 [LOST 3 EVENTS]"), None);
    }

    #[test]
    fn only_a_wakeup_of_rcu_and_the_balancing_of_real_time_tasks_are_removed() {
        let event = |tid, function: &str| RemoteCall { tid, at_ns: 0, function: function.to_owned() };
        let (waking, wakeup) =
            ("sched_waking: comm=rcu_preempt pid=15 prio=120 target_cpu=001", "cpu=1 func=sched_ttwu_pending");
        let events = [event(1, waking), event(2, wakeup), event(1, wakeup), event(1, wakeup), event(3, waking)];
        let push = event(2, "csd_queue_cpu: cpu=1 callsite=irq_work_queue_on+0x104/0x170 func=rto_push_irq_work_func");
        let kept = without_calls_of_the_system(events.into_iter().chain([push, event(3, "func=do_sync_core")]));
        assert_eq!(kept, [event(2, wakeup), event(1, wakeup), event(3, "func=do_sync_core")]);
    }
}
