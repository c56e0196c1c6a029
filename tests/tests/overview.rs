//! `wakelat` without arguments.

use nix::sys::signal::Signal;
use wakelat_tests::{
    machine, once,
    suite::{Case, TestOutcome},
    wakelat::{Wakelat, as_nobody, command},
    workload::{PingPong, Workload},
};

pub fn cases() -> Vec<Case> {
    once![an_overview_has_the_longest_waits_and_what_to_do_next, without_root_the_demo_is_named]
}

fn an_overview_has_the_longest_waits_and_what_to_do_next() -> TestOutcome {
    let overview = Wakelat::measuring(command(&[]));
    Workload::PingPong(PingPong::on_one(machine::one_cpu(), 100)).stage().perform();
    overview.signal(Signal::SIGINT);
    let ended = overview.end();
    let parts = ["runqueue latency", "longest waits", "preemption", "\nnext\n", "wakelat why --details"];
    assert!(ended.status.success() && parts.iter().all(|part| ended.stdout.contains(part)), "{ended:#?}");
    Ok(())
}

fn without_root_the_demo_is_named() -> TestOutcome {
    let mut overview = command(&[]);
    as_nobody(&mut overview);
    Wakelat::start(overview).end().assert_refused(1, &["wakelat: error:", "cap_bpf", "`wakelat demo`"]);
    Ok(())
}
