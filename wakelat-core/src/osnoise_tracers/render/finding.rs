//! Words for findings: a cause large enough to report, and what a kernel engineer would do about it.

use super::{
    super::{explain::LatencyCause, finding::TimerlatFinding},
    labels,
};
use crate::cpu_interrupt::is_of_a_cpu;
use crate::render::{Style, text_line::clean, units};
use crate::softirq::softirq_name;

/// The evidence: `97.5 % of all latency (838.7 µs of 860.0 µs) is …`.
pub fn evidence(finding: &TimerlatFinding, style: &Style) -> String {
    let time = |ns: u128| units::duration(ns, style.unicode);
    let TimerlatFinding { cause, sum, total_ns } = finding;
    format!(
        "{} of all latency ({} of {}) is {}; at most {} of {} in one activation",
        units::share_of(sum.ns, *total_ns),
        time(sum.ns),
        time(*total_ns),
        what(cause, style),
        time(sum.max_ns.into()),
        time(sum.max_of_ns.into()),
    )
}

fn what(cause: &LatencyCause, style: &Style) -> String {
    let name = |name: &str| clean(name, style);
    match cause {
        LatencyCause::IrqDelay => "timer IRQ delay: interrupts were masked, or the hardware was late".to_owned(),
        LatencyCause::IdleExit => "timer IRQ delay on an idle CPU: its exit from idle".to_owned(),
        LatencyCause::TimerIrq(irq, vector) => format!("the timer's own IRQ `{}:{vector}`", name(irq)),
        LatencyCause::Irq(irq, vector) => format!("the IRQ `{}:{vector}`", name(irq)),
        LatencyCause::Softirq(vector) => format!("the softirq `{}`", softirq_name(*vector).unwrap_or("unknown")),
        LatencyCause::Nmi => "NMIs".to_owned(),
        LatencyCause::Blocking(task) if task.tid == 0 => "the idle task, until it gave up the CPU".to_owned(),
        LatencyCause::Blocking(task) => {
            format!("`{}`, which was running when the timer IRQ came and kept the CPU", labels::task(*task, style))
        }
        LatencyCause::Thread(task) => format!("`{}`, which ran before the tracer's thread", labels::task(*task, style)),
        LatencyCause::Scheduling => "the switch to the tracer's thread".to_owned(),
        LatencyCause::UserSpace => "the user's own code".to_owned(),
        LatencyCause::Unexplained => "unexplained".to_owned(),
    }
}

/// What to do about a finding.
pub fn remedy(finding: &TimerlatFinding) -> String {
    match &finding.cause {
        LatencyCause::IrqDelay => "look for code that masks interrupts: `-a` saves the stack that the late IRQ interrupted, and the tracer \
            `irqsoff` the longest such section; if there is none, the tracer `hwlat` shows hardware latency",
        LatencyCause::IdleExit => "keep CPUs out of deep C-states (`--dma-latency 0`, `cpupower idle-set`)",
        LatencyCause::TimerIrq(..) => "other timers expire in the same IRQ: use fewer on this CPU (/proc/timer_list shows them), or keep \
            them off it (`nohz_full`, `isolcpus`)",
        LatencyCause::Irq(name, _) if is_of_a_cpu(name) => {
            "keep timers and IPIs off this CPU: `nohz_full`, `isolcpus`, fewer changes to shared memory maps (TLB shootdowns)"
        }
        LatencyCause::Irq(_, vector) => {
            return format!(
                "move it to other CPUs (/proc/irq/{vector}/smp_affinity), or make it a threaded interrupt (`threadirqs`)"
            );
        }
        LatencyCause::Softirq(2 | 3) => {
            "spread packets over more CPUs (queues, RPS), or keep the device's interrupts off this CPU"
        }
        LatencyCause::Softirq(9) => "offload RCU callbacks to threads: `rcu_nocbs`",
        LatencyCause::Softirq(_) => "find what raises it (/proc/softirqs), and keep that off this CPU",
        LatencyCause::Nmi => "turn off the NMI watchdog (`nmi_watchdog=0`), and profilers that sample by NMI",
        LatencyCause::Blocking(task) if task.tid == 0 => {
            "keep CPUs out of deep C-states (`--dma-latency 0`, `cpupower idle-set`)"
        }
        LatencyCause::Blocking(_) => "find where it disables preemption: `-a` saves the stack that the IRQ interrupted; or keep it off \
            this CPU (`taskset`, cpuset)",
        LatencyCause::Thread(_) => "it has a higher priority than the tracer's thread: lower it, or keep it off this CPU (`taskset`, cpuset)",
        LatencyCause::Scheduling => "part of it is the cost of recording, which `timerlat hist` avoids; the rest is the context switch itself",
        LatencyCause::UserSpace => "shorten what runs between two activations",
        LatencyCause::Unexplained => "check below for lost events; steal time of a hypervisor also looks like this",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::{super::super::summary::ShareSum, *};

    #[test]
    fn an_interrupt_of_the_cpu_is_not_to_be_moved() {
        let remedy = |name: &str| {
            let cause = LatencyCause::Irq(name.to_owned(), 11);
            remedy(&TimerlatFinding { cause, sum: ShareSum::default(), total_ns: 1 })
        };
        for own in ["local_timer", "arch_timer", "IPI"] {
            assert!(remedy(own).starts_with("keep timers and IPIs off this CPU"), "{own}");
        }
        assert!(remedy("nvme0q1").starts_with("move it to other CPUs (/proc/irq/11/smp_affinity)"));
    }
}
