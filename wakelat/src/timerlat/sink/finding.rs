//! Findings in words: what stands out, and what a kernel engineer would do about it.

use super::{
    super::{explain::LatencyCause, finding::TimerlatFinding, record::softirq_name},
    words,
};
use crate::sink::{Style, text::clean, units};

/// The interrupts that are none of a device (`trace_irq_vectors` of arch/x86/kernel/trace.c, `osnoise_arch_register`).
const OF_THE_CPU: [&str; 11] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "thermal_apic",
    "threshold_apic",
    "deferred_error",
    "error_apic",
    "spurious_apic",
];

/// What was found: `97.5 % of all latency (838.7 µs of 860.0 µs) is …`.
pub fn evidence(finding: &TimerlatFinding, style: &Style) -> String {
    let time = |ns: u128| units::duration(ns, style.unicode);
    let TimerlatFinding { cause, sum, total_ns: whole_ns } = finding;
    format!(
        "{} of all latency ({} of {}) is {}; the most in one activation: {} of {}",
        units::share_of(sum.ns, *whole_ns),
        time(sum.ns),
        time(*whole_ns),
        what(cause, style),
        time(sum.max_ns.into()),
        time(sum.max_of_ns.into()),
    )
}

fn what(cause: &LatencyCause, style: &Style) -> String {
    let name = |name: &str| clean(name, style);
    match cause {
        LatencyCause::IrqDelay => {
            "the delay of the timer's interrupt: it was masked, or the hardware was late".to_owned()
        }
        LatencyCause::IdleExit => "the delay of the timer's interrupt on an idle CPU: its way out of idle".to_owned(),
        LatencyCause::TimerIrq(irq, vector) => format!("the timer's own interrupt `{}:{vector}`", name(irq)),
        LatencyCause::Irq(irq, vector) => format!("the interrupt `{}:{vector}`", name(irq)),
        LatencyCause::Softirq(vector) => format!("the softirq `{}`", softirq_name(*vector).unwrap_or("unknown")),
        LatencyCause::Nmi => "NMIs".to_owned(),
        LatencyCause::Blocking(task) if task.tid == 0 => "the idle task, until it let the CPU go".to_owned(),
        LatencyCause::Blocking(task) => {
            format!("`{}`, which had the CPU when the timer's interrupt came, and kept it", words::task(*task, style))
        }
        LatencyCause::Thread(task) => format!("`{}`, which ran before the tracer's thread", words::task(*task, style)),
        LatencyCause::Scheduling => "the switch to the tracer's thread".to_owned(),
        LatencyCause::UserSpace => "the user's own code".to_owned(),
        LatencyCause::Unexplained => "unexplained".to_owned(),
    }
}

/// What to do about it.
pub fn remedy(finding: &TimerlatFinding) -> String {
    match &finding.cause {
        LatencyCause::IrqDelay => "look for code that masks interrupts: `-a` saves the stack that the late interrupt found, and the \
            tracer `irqsoff` the longest such section; where no code is to blame, the tracer `hwlat` shows what the hardware takes",
        LatencyCause::IdleExit => "keep the CPUs from deep C-states (`--dma-latency 0`, `cpupower idle-set`)",
        LatencyCause::TimerIrq(..) => "other timers expire in the same interrupt: have fewer on this CPU (/proc/timer_list shows them), \
            or keep them off it (`nohz_full`, `isolcpus`)",
        LatencyCause::Irq(name, _) if OF_THE_CPU.contains(&name.as_str()) => {
            "keep timers and calls from other CPUs off it: `nohz_full`, `isolcpus`, fewer tasks that change shared memory maps"
        }
        LatencyCause::Irq(_, vector) => {
            return format!(
                "move it to other CPUs (/proc/irq/{vector}/smp_affinity), or have it threaded (`threadirqs`)"
            );
        }
        LatencyCause::Softirq(2 | 3) => {
            "spread the packets over more CPUs (queues, RPS), or keep the device's interrupts off this one"
        }
        LatencyCause::Softirq(9) => "move RCU's callbacks to threads: `rcu_nocbs`",
        LatencyCause::Softirq(_) => "find what raises it (/proc/softirqs), and keep that off this CPU",
        LatencyCause::Nmi => "turn off the NMI watchdog (`nmi_watchdog=0`), and profilers that sample by NMI",
        LatencyCause::Blocking(task) if task.tid == 0 => {
            "keep the CPUs from deep C-states (`--dma-latency 0`, `cpupower idle-set`)"
        }
        LatencyCause::Blocking(_) => "find where it keeps preemption off: `-a` saves the stack that the interrupt found; or keep it \
            off this CPU (`taskset`, cpuset)",
        LatencyCause::Thread(_) => "it outranks the tracer's thread: lower its priority, or keep it off this CPU (`taskset`, cpuset)",
        LatencyCause::Scheduling => "recording is part of it, and `timerlat hist` shows the latency without; the rest is the switch itself",
        LatencyCause::UserSpace => "shorten what runs between two activations",
        LatencyCause::Unexplained => "see below what was lost; time that a hypervisor gives to others looks like this, too",
    }
    .to_owned()
}
