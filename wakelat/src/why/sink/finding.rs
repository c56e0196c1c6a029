//! Findings in words: what stands out, and what a kernel engineer would do about it.

use super::words;
use crate::{
    sink::{Style, text::clean, units},
    timeline::{event::InterruptSource, part::Component},
    wait::Comm,
    why::{
        causes::{Cause, CauseName},
        finding::Finding,
    },
};

/// What was found: `62.0 % of the wait of nginx (3.1 s of 5.0 s) is …`.
pub fn evidence(finding: &Finding, cgroups: &words::Cgroups, style: &Style) -> String {
    let of = |ns: u128, of_ns: u128| {
        let time = |ns: u128| units::duration(ns, style.unicode);
        (units::share_of(ns, of_ns), format!("{} of {}", time(ns), time(of_ns)))
    };
    let mut text = String::new();
    for (index, victim) in finding.victims.iter().enumerate() {
        let (share, times) = of(victim.ns, victim.total_ns);
        let comm = clean(&victim.comm.to_string(), style);
        let begin =
            if index == 0 { format!("{share} of the wait of `{comm}`") } else { format!(", {share} of `{comm}`") };
        text.push_str(&format!("{begin} ({times})"));
    }
    if finding.victims.is_empty() {
        let (share, times) = of(finding.sum.ns, finding.total_ns);
        text = format!("{share} of all wait ({times})");
    }
    format!("{text} is {}", cause(finding, cgroups, style))
}

fn cause(finding: &Finding, cgroups: &words::Cgroups, style: &Style) -> String {
    let Cause { component: part, name } = &finding.cause;
    let name = match name {
        CauseName::Task(comm) => format!("`{}`", clean(&comm.to_string(), style)),
        CauseName::Interrupt(source) => words::interrupt(source, style),
        CauseName::Cgroup(id) => words::throttled(*id, cgroups, style),
        CauseName::Many(tasks) => format!("{} tasks of different names", units::thousands(*tasks as u64)),
        CauseName::Wakelat | CauseName::Unnamed => String::new(),
    };
    if finding.cause.name == CauseName::Wakelat {
        return "wakelat's own reader: what measuring costs".to_owned();
    }
    match part {
        Component::Placement => "the waker's choice of a CPU and its way to the run queue".to_owned(),
        Component::Ipi => "the interrupt that calls the CPU, and its way out of idle".to_owned(),
        Component::Idle => "the CPU's way out of idle".to_owned(),
        Component::Higher => format!("{name}, of a higher class or priority"),
        Component::Same if is_its_own(finding) => format!("other {name}, all on the same CPUs"),
        Component::Same => format!("queueing behind {name}, of the same class"),
        Component::Lower => format!("{name}, of a lower class or priority, which was not preempted"),
        Component::Irq | Component::Softirq => format!("{name}, on the CPU for which the task waits"),
        Component::Throttled => {
            let path = finding.cause.cgroup_id().and_then(|id| cgroups.get(&id));
            let container = path.and_then(|path| words::container(path, style));
            let container = container.map_or_else(String::new, |container| format!(", {container}"));
            format!("quota throttling of its cgroup {name}{container}")
        }
        Component::RtThrottled => "real-time throttling".to_owned(),
        Component::Stolen => "time that the hypervisor gave to others".to_owned(),
        Component::Unexplained => "unexplained".to_owned(),
    }
}

/// Whether tasks wait for others of their own name.
fn is_its_own(finding: &Finding) -> bool {
    let CauseName::Task(comm) = finding.cause.name else { return false };
    finding.victims.len() == 1 && finding.victims[0].comm == comm
}

/// Whether a name is that of a kernel thread of one CPU, such as `ksoftirqd/1` or `kworker/0:1H`: nothing else can have its CPU
/// (`kthread_create_on_cpu()`, kernel/kthread.c, 6.12). Workers of unbound workqueues are `kworker/uPOOL:ID`.
fn is_bound(comm: Comm) -> bool {
    let name = comm.to_string();
    let Some((thread, cpu)) = name.split_once('/') else { return false };
    let number = if thread == "kworker" { cpu.split_once(':').map_or("", |(cpu, _)| cpu) } else { cpu };
    !thread.is_empty() && !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
}

/// What to do about it.
pub fn remedy(finding: &Finding) -> &'static str {
    match (finding.cause.component, finding.cause.name) {
        (_, CauseName::Wakelat) => {
            "fewer events: fewer `--parts`, or `wakelat hist`, which counts in the kernel; or keep wakelat on a CPU of its own \
             (`taskset -c CPU wakelat ...`)"
        }
        (Component::Higher | Component::Same | Component::Lower, CauseName::Task(comm)) if is_bound(comm) => {
            "it is bound to its CPU: find what gives it work (/proc/softirqs for ksoftirqd, `--parts` with works for kworkers), or \
             keep the task that waits on other CPUs (`taskset`, cpuset)"
        }
        (Component::Placement, _) => {
            "the waker was interrupted, or contended for the run queue's lock: look at what it does there"
        }
        (Component::Ipi | Component::Idle, _) => {
            "keep the CPUs from deep C-states (`cpupower idle-set`, /dev/cpu_dma_latency), or keep waker and task on CPUs \
             that share a cache"
        }
        (Component::Higher, _) => {
            "give it a CPU of its own (`taskset`, cpuset), lower its priority, or have it run less at a time"
        }
        (Component::Same, CauseName::Many(_)) => {
            "more tasks want to run than there are CPUs: fewer threads, more CPUs, or weights (`nice`, cpu.weight)"
        }
        (Component::Same, _) if is_its_own(finding) => "fewer threads at a time, or more CPUs for them",
        (Component::Same, _) => {
            "keep the two on different CPUs (`taskset`, cpuset), or weigh them (`nice`, cpu.weight)"
        }
        (Component::Lower, _) => {
            "look for long sections with preemption off (`wakelat timerlat -a 50us`), for a kernel that preempts lazily, and, \
             for real-time tasks, for the fair server (/sys/kernel/debug/sched/fair_server)"
        }
        (Component::Irq, CauseName::Interrupt(InterruptSource::Irq { .. })) => {
            "move it to other CPUs (/proc/irq/NUMBER/smp_affinity), or have it threaded (`threadirqs`)"
        }
        (Component::Irq, _) => {
            "keep timers and calls from other CPUs off it: `nohz_full`, `isolcpus`, fewer tasks that change shared memory maps"
        }
        (Component::Softirq, CauseName::Interrupt(InterruptSource::Softirq(2 | 3))) => {
            "spread the packets over more CPUs (queues, RPS), or keep the device's interrupts off these"
        }
        (Component::Softirq, CauseName::Interrupt(InterruptSource::Softirq(9))) => {
            "move RCU's callbacks to threads: `rcu_nocbs`"
        }
        (Component::Softirq, _) => "find who raises it (/proc/softirqs), and keep that off these CPUs",
        (Component::Throttled, _) => "raise cpu.max, allow a burst (cpu.max.burst), or spread the load over the period",
        (Component::RtThrottled, _) => {
            "raise /proc/sys/kernel/sched_rt_runtime_us, or have the real-time tasks leave the CPU in time"
        }
        (Component::Stolen, _) => "fewer virtual CPUs for each of the host's, or pin them",
        (Component::Unexplained, _) => "look below for what was lost: a larger `--ring-size`, or fewer `--parts`",
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
    fn what_its_own_reader_takes_is_named_as_the_cost_of_measuring() {
        let own = finding(CauseName::Wakelat);
        let evidence = evidence(&own, &words::Cgroups::default(), &Style::default());
        assert_eq!(evidence, "25.0 % of all wait (5.0 ms of 20.0 ms) is wakelat's own reader: what measuring costs");
        assert!(remedy(&own).starts_with("fewer events"));
    }

    #[test]
    fn a_kernel_thread_of_one_cpu_is_not_to_be_moved() {
        let remedy = |name: &str| remedy(&finding(CauseName::Task(Comm::new(name.as_bytes()))));
        for bound in ["ksoftirqd/1", "kworker/0:1H-kb", "migration/12"] {
            assert!(remedy(bound).starts_with("it is bound to its CPU"), "{bound}");
        }
        for free in ["nginx", "kworker/u16:3-ev", "irq/24-nvme0q1", "/1", "a/b"] {
            assert!(remedy(free).starts_with("keep the two on different CPUs"), "{free}");
        }
    }
}
