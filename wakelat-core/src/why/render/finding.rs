//! Words for findings: a cause large enough to report, and what a kernel engineer would do about it.

use super::labels;
use crate::{
    cpu_interrupt::is_of_a_cpu,
    render::{Style, text_line::clean, units},
    timeline::{component::Component, event::InterruptSource},
    wait::Comm,
    why::{
        causes::{Cause, CauseName},
        finding::Finding,
    },
};

/// The evidence: ``62.0 % of the waiting time of `nginx` (3.1 s of 5.0 s) is …``.
pub fn evidence(finding: &Finding, cgroups: &labels::Cgroups, style: &Style) -> String {
    let of = |ns: u128, of_ns: u128| {
        let time = |ns: u128| units::duration(ns, style.unicode);
        (units::share_of(ns, of_ns), format!("{} of {}", time(ns), time(of_ns)))
    };
    let mut text = String::new();
    for (index, victim) in finding.victims.iter().enumerate() {
        let (share, times) = of(victim.ns, victim.total_ns);
        let comm = clean(&victim.comm.to_string(), style);
        let start = if index == 0 {
            format!("{share} of the waiting time of `{comm}`")
        } else {
            format!(", {share} of `{comm}`")
        };
        text.push_str(&format!("{start} ({times})"));
    }
    if finding.victims.is_empty() {
        let (share, times) = of(finding.sum.ns, finding.total_ns);
        text = format!("{share} of all waiting time ({times})");
    }
    format!("{text} is {}", cause(finding, cgroups, style))
}

fn cause(finding: &Finding, cgroups: &labels::Cgroups, style: &Style) -> String {
    let Cause { component, name } = &finding.cause;
    let name = match name {
        CauseName::Task(comm) => format!("`{}`", clean(&comm.to_string(), style)),
        CauseName::Interrupt(source) => labels::interrupt(source, style),
        CauseName::Cgroup(id) => labels::throttled(*id, cgroups, style),
        CauseName::Many(tasks) => format!("{} tasks with different names", units::thousands(*tasks as u64)),
        CauseName::Wakelat | CauseName::Unnamed => String::new(),
    };
    if finding.cause.name == CauseName::Wakelat {
        return "wakelat's own reader (the cost of measuring)".to_owned();
    }
    match component {
        Component::Placement => "CPU selection and enqueueing by the waker".to_owned(),
        Component::Ipi => "the wakeup IPI and the CPU's exit from idle".to_owned(),
        Component::Idle => "the CPU's exit from idle".to_owned(),
        Component::Higher => format!("{name}, which has a higher class or priority"),
        Component::Same if is_its_own(finding) => format!("queueing behind other tasks named {name} on the same CPUs"),
        Component::Same => format!("queueing behind {name}, in the same scheduling class"),
        Component::Lower => format!("{name}, which has a lower class or priority and was not preempted"),
        Component::Irq | Component::Softirq => format!("{name} on the CPU of the waiting task"),
        Component::Throttled => {
            let path = finding.cause.cgroup_id().and_then(|id| cgroups.get(&id));
            let container = path.and_then(|path| labels::container(path, style));
            let container = container.map_or_else(String::new, |container| format!(", {container}"));
            format!("CPU quota throttling of cgroup {name}{container}")
        }
        Component::RtThrottled => "real-time throttling".to_owned(),
        Component::Stolen => "steal time: the hypervisor ran something else".to_owned(),
        Component::Unexplained => "unexplained".to_owned(),
    }
}

/// Whether tasks wait for other tasks of the same name.
fn is_its_own(finding: &Finding) -> bool {
    let CauseName::Task(comm) = finding.cause.name else { return false };
    finding.victims.len() == 1 && finding.victims[0].comm == comm
}

/// Whether a name is that of a per-CPU kernel thread, such as `ksoftirqd/1` or `kworker/0:1H`, which cannot
/// move to another CPU (`kthread_create_on_cpu()`, kernel/kthread.c, 6.12). Workers of unbound workqueues
/// are `kworker/uPOOL:ID`.
fn is_bound(comm: Comm) -> bool {
    let name = comm.to_string();
    let Some((thread, cpu)) = name.split_once('/') else { return false };
    let number = if thread == "kworker" { cpu.split_once(':').map_or("", |(cpu, _)| cpu) } else { cpu };
    !thread.is_empty() && !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
}

/// Whether a name is that of a thread of any wakelat. The one that measured is [`CauseName::Wakelat`].
fn is_wakelat(comm: Comm) -> bool {
    let name = comm.to_string();
    name == "wakelat" || name.starts_with("wakelat-")
}

/// What to do about a finding.
pub fn remedy(finding: &Finding) -> &'static str {
    match (finding.cause.component, finding.cause.name) {
        (_, CauseName::Wakelat) => {
            "record fewer events (shorter `--collect` list), use `wakelat hist`, which aggregates in the kernel, or run wakelat \
             on a CPU of its own (`taskset -c CPU wakelat ...`)"
        }
        (Component::Higher | Component::Same | Component::Lower, CauseName::Task(comm)) if is_wakelat(comm) => {
            "it is another wakelat, not the one that measured: end it, or run it on a CPU of its own (`taskset -c CPU`)"
        }
        (Component::Higher | Component::Same | Component::Lower, CauseName::Task(comm)) if is_bound(comm) => {
            "it is bound to its CPU: find what gives it work (/proc/softirqs for ksoftirqd, `--collect workqueue` for kworkers), \
             or keep the waiting task on other CPUs (`taskset`, cpuset)"
        }
        (Component::Placement, _) => {
            "find what delays the waker during its wakeups: interrupts on its CPU, or contention for a run queue's lock"
        }
        (Component::Ipi | Component::Idle, _) => {
            "keep CPUs out of deep C-states (`cpupower idle-set`, /dev/cpu_dma_latency), or keep waker and wakee on CPUs that \
             share a cache"
        }
        (Component::Higher, _) => {
            "give it a CPU of its own (`taskset`, cpuset), lower its priority, or make it run for less time at once"
        }
        (Component::Same, CauseName::Many(_)) => {
            "the CPUs are overcommitted: use fewer threads, more CPUs, or weights (`nice`, cpu.weight)"
        }
        (Component::Same, _) if is_its_own(finding) => "run fewer threads at a time, or give them more CPUs",
        (Component::Same, _) => {
            "keep the two tasks on different CPUs (`taskset`, cpuset), or change their weights (`nice`, cpu.weight)"
        }
        (Component::Lower, _) => {
            "check for long sections with preemption disabled (`wakelat timerlat -a 50us`), for lazy preemption and, if \
             real-time tasks wait, for the fair server (/sys/kernel/debug/sched/fair_server)"
        }
        (Component::Irq, CauseName::Interrupt(InterruptSource::Irq { name, .. }))
            if !is_of_a_cpu(&name.to_string()) =>
        {
            "move it to other CPUs (/proc/irq/NUMBER/smp_affinity), or make it a threaded interrupt (`threadirqs`)"
        }
        (Component::Irq, _) => {
            "keep timers and IPIs off these CPUs: `nohz_full`, `isolcpus`, fewer changes to shared memory maps (TLB shootdowns)"
        }
        (Component::Softirq, CauseName::Interrupt(InterruptSource::Softirq(2 | 3))) => {
            "spread packets over more CPUs (queues, RPS), or keep the device's interrupts off these CPUs"
        }
        (Component::Softirq, CauseName::Interrupt(InterruptSource::Softirq(9))) => {
            "offload RCU callbacks to threads: `rcu_nocbs`"
        }
        (Component::Softirq, _) => "find what raises it (/proc/softirqs), and keep that off these CPUs",
        (Component::Throttled, _) => "raise cpu.max, allow bursts (cpu.max.burst), or spread the load over the period",
        (Component::RtThrottled, _) => {
            "raise /proc/sys/kernel/sched_rt_runtime_us, or make the real-time tasks yield the CPU sooner"
        }
        (Component::Stolen, _) => "on the host, run fewer virtual CPUs per CPU, or pin them to CPUs of their own",
        (Component::Unexplained, _) => {
            "see the reasons in the table below; for lost events, raise `--ring-size` or shorten the `--collect` list"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::sums::TimeSum;

    fn finding(name: CauseName) -> Finding {
        let sum = TimeSum { ns: 5_000_000, max_ns: 5_000_000, waits: 1 };
        Finding { cause: Cause { component: Component::Same, name }, sum, total_ns: 20_000_000, victims: Vec::new() }
    }

    #[test]
    fn wakelats_own_reader_is_named_as_the_cost_of_measuring() {
        let own = finding(CauseName::Wakelat);
        let evidence = evidence(&own, &labels::Cgroups::default(), &Style::default());
        assert_eq!(
            evidence,
            "25.0 % of all waiting time (5.0 ms of 20.0 ms) is wakelat's own reader (the cost of measuring)"
        );
        assert!(remedy(&own).starts_with("record fewer events"));
    }

    #[test]
    fn another_wakelat_is_not_just_one_of_two_tasks() {
        for (name, is_wakelat) in [("wakelat", true), ("wakelat-output", true), ("wakelatency", false)] {
            let remedy = remedy(&finding(CauseName::Task(Comm::new(name.as_bytes()))));
            assert_eq!(remedy.starts_with("it is another wakelat"), is_wakelat, "{name}: {remedy}");
        }
    }

    #[test]
    fn an_interrupt_of_the_cpu_is_not_to_be_moved() {
        let remedy = |name: &str| {
            let source = InterruptSource::Irq { number: 11, name: Comm::new(name.as_bytes()) };
            let mut finding = finding(CauseName::Interrupt(source));
            finding.cause.component = Component::Irq;
            remedy(&finding)
        };
        for own in ["arch_timer", "IPI"] {
            assert!(remedy(own).starts_with("keep timers and IPIs off these CPUs"), "{own}");
        }
        assert!(remedy("nvme0q1").starts_with("move it to other CPUs"));
    }

    #[test]
    fn a_per_cpu_kernel_thread_is_not_to_be_moved() {
        let remedy = |name: &str| remedy(&finding(CauseName::Task(Comm::new(name.as_bytes()))));
        for bound in ["ksoftirqd/1", "kworker/0:1H-kb", "migration/12"] {
            assert!(remedy(bound).starts_with("it is bound to its CPU"), "{bound}");
        }
        for unbound in ["nginx", "kworker/u16:3-ev", "irq/24-nvme0q1", "/1", "a/b"] {
            assert!(remedy(unbound).starts_with("keep the two tasks on different CPUs"), "{unbound}");
        }
    }
}
