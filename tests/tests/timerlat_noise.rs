//! Planted interferers: each is named, with the time that it took by its own clock.

use std::{io, time::Duration};

use nix::time::{ClockId, clock_gettime};
use wakelat_tests::{
    clock::now_ns,
    from_each_source, machine, procfs,
    suite::{Case, Skip, TestOutcome},
    task::{Policy, TaskPlacement, pin},
    timers::Timers,
    tracer::{self, ParsedTrace, running},
    wakelat::RunOutput,
};

pub fn cases() -> Vec<Case> {
    from_each_source![a_thread_above_the_tracers_is_named_with_its_time, a_busy_softirq_is_named_with_its_time,]
}

/// Asserts that `name` took `burnt_ns` on `cpu`, and that the report names it.
fn assert_named(name: &str, cpu: usize, burnt_ns: u64, ended: &RunOutput, trace: &ParsedTrace) {
    let named_ns = trace.threads.get(&(cpu as u32, name.to_owned())).copied().unwrap_or(0);
    println!("\n  `{name}` took {burnt_ns} ns, and is named with {named_ns} ns");
    assert!(named_ns > 0, "{:?}", trace.threads);
    // If the host stops the guest, the thread's clock counts that, and the tracer may attribute it to an interrupt.
    if machine::has_own_time() {
        assert!(named_ns.abs_diff(burnt_ns) * 20 <= burnt_ns, "took {burnt_ns} ns, named {named_ns} ns");
    }
    assert!(ended.stdout.contains(name), "the report names it: {}", ended.stdout);
}

fn a_thread_above_the_tracers_is_named_with_its_time(source: &str) -> TestOutcome {
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    let cpu = machine::one_cpu();
    // Longer than many periods, so that the time that passes between two activations is negligible, and
    // shorter than what the kernel grants to real-time threads in one piece (`sched_rt_runtime_us`).
    const BURST: Duration = Duration::from_millis(100);
    let wakelat = running(&["--source", source, "-p", "1ms", "--cpus", &cpu.to_string()]);
    let &[tracer] = &procfs::pids_named(&format!("timerlat/{cpu}"))[..] else {
        panic!("the tracer has one thread on a CPU")
    };
    let burnt_ns: u64 = std::thread::spawn(move || {
        nix::sys::prctl::set_name(c"wl-burner").expect("a name");
        TaskPlacement { cpu: Some(cpu), policy: Policy::Fifo(99) }.take();
        let own = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a thread has a clock"));
        let mut burnt_ns = 0;
        for _ in 0..4 {
            // A pause longer than the burst, for all other tasks. The tracer arms its timer only after it
            // has reported the last activation (`wait_next_period`, kernel/trace/trace_osnoise.c): a burst
            // that preempts it in between goes unseen, so start only while the tracer's thread sleeps.
            loop {
                std::thread::sleep(BURST * 2);
                if procfs::is_blocked(tracer) {
                    break;
                }
            }
            let begin = own();
            while own() - begin < BURST {
                std::hint::spin_loop();
            }
            burnt_ns += (own() - begin).as_nanos() as u64;
        }
        burnt_ns
    })
    .join()
    .expect("the thread does not panic");
    let (ended, trace) = tracer::end(wakelat);
    // Where a busy host delays an emulated CPU's timer, its idle task has what passes until the tracer runs.
    let tasks = trace.threads.iter().filter(|((_, name), _)| !name.starts_with("swapper/"));
    let most = tasks.max_by_key(|(_, ns)| **ns).map(|((_, name), _)| name.as_str());
    assert_eq!(most, Some("wl-burner"), "{:?}", trace.threads);
    assert_named("wl-burner", cpu, burnt_ns, &ended, &trace);
    Ok(())
}

/// With PREEMPT_RT softirqs run in threads, and the tracers report them as threads
/// (`hook_softirq_events`, kernel/trace/trace_osnoise.c). User-space timers expire in such a thread,
/// however many expire at once.
fn a_busy_softirq_is_named_with_its_time(source: &str) -> TestOutcome {
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    if !machine::is_preempt_rt() {
        return Err(Skip::because("softirqs are threads, with a clock of their own, only with PREEMPT_RT"));
    }
    let cpu = machine::one_cpu();
    let softirqs: Vec<Raised> = [format!("ktimers/{cpu}"), format!("ksoftirqd/{cpu}")]
        .into_iter()
        .flat_map(|name| procfs::pids_named(&name).into_iter().map(move |tid| Raised::new(name.clone(), tid)))
        .collect();
    // Short compared with a burst: the time before the first activation in it is attributed to no thread.
    let wakelat = running(&["--source", source, "-p", "250us", "--cpus", &cpu.to_string()]);
    let burnt: Vec<u64> = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            pin(0, cpu);
            expire_at_once(&softirqs)
        });
        load.join().expect("the thread does not panic")
    });
    let (ended, trace) = tracer::end(wakelat);
    let (softirq, burnt_ns) = softirqs.iter().zip(burnt).max_by_key(|(_, ns)| *ns).expect("a kernel has such threads");
    assert_named(&softirq.name, cpu, burnt_ns, &ended, &trace);
    Ok(())
}

/// A kernel thread, raised above the tracer's until this is dropped.
struct Raised {
    name: String,
    tid: u32,
    policy: i32,
    priority: i32,
}

impl Raised {
    fn new(name: String, tid: u32) -> Self {
        // SAFETY: the call takes a number.
        let policy = unsafe { libc::sched_getscheduler(tid.cast_signed()) };
        let raised = Self { name, tid, policy, priority: procfs::rt_priority(tid).cast_signed() };
        raised.schedule(libc::SCHED_FIFO, 99);
        raised
    }

    fn schedule(&self, policy: i32, priority: i32) {
        let parameters = libc::sched_param { sched_priority: priority };
        // SAFETY: the structure is valid for the call and is only read.
        let result = unsafe { libc::sched_setscheduler(self.tid.cast_signed(), policy, &parameters) };
        assert_eq!(result, 0, "`{}`: {}", self.name, io::Error::last_os_error());
    }

    /// How long the thread has run: ns.
    fn ran_ns(&self) -> u64 {
        procfs::ran_ns(self.tid)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.schedule(self.policy, self.priority);
    }
}

/// Makes thousands of timers expire at the same instant, several times. Returns how long each of the
/// threads ran for that: ns.
fn expire_at_once(softirqs: &[Raised]) -> Vec<u64> {
    const BURSTS: u64 = 4;
    let now = || Duration::from_nanos(now_ns());
    let timers = Timers::new(10_000);
    let mut ran = vec![0; softirqs.len()];
    for _ in 0..BURSTS {
        let mut ahead = Duration::from_millis(300);
        let before: Vec<u64> = loop {
            let at = now() + ahead;
            timers.expire_at(at);
            let before = softirqs.iter().map(Raised::ran_ns).collect();
            if now() < at {
                break before;
            }
            // Setting all of them took longer, so they expired one by one.
            ahead *= 2;
        };
        timers.wait();
        ran.iter_mut().zip(softirqs).zip(before).for_each(|((sum, thread), before)| *sum += thread.ran_ns() - before);
    }
    ran
}
