//! User space swaps the halves of the tables while the programs write to them. Whenever it does, a wait is as a whole in one
//! of them.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context as _;
use wakelat::{
    collect::{AggregatedWaits, CauseSettings, Collector, FilterSettings, Settings},
    config::Attach,
};
use wakelat_common::{Class, Classes, filter::Filter};
use wakelat_core::why::counted::{
    CauseGroups,
    summary::{GroupNames, SummaryLimits},
};
use wakelat_kernel::Roots;
use wakelat_tests::{
    machine, once,
    suite::{self, Skip, TestOutcome},
    task::TaskPlacement,
    workload::{Pipe, Workload},
};

fn main() -> ExitCode {
    suite::main_of(once![a_wait_is_in_the_same_half_of_the_histograms_and_of_the_causes])
}

/// All waits by the run queue's clock, with their causes by name.
fn settings() -> Settings {
    Settings {
        attach: Attach::Btf,
        btf: Some(Roots::default().btf()),
        tracefs: None,
        max_tasks: 1024,
        ring_bytes: Settings::SMALLEST_RING,
        classes: Class::ALL.into_iter().fold(Classes::NONE, Classes::with),
        threshold_ns: 0,
        aggregate: true,
        groups: None,
        with_waking: false,
        from_waking: false,
        with_cgroup: false,
        queue_clock: true,
        causes: Some(CauseSettings { groups: CauseGroups::Names, trace_interrupts: false }),
        is_service: false,
        trigger_rules: false,
        timeline: None,
        sampling_seed: None,
        filter: FilterSettings {
            parts: 0,
            filter: Box::new(Filter::new()),
            tgids: Vec::new(),
            pids: Vec::new(),
            cgroup_ids: Vec::new(),
        },
    }
}

fn a_wait_is_in_the_same_half_of_the_histograms_and_of_the_causes() -> TestOutcome {
    const SWAPS: usize = 1_000;
    if !Roots::default().btf().exists() {
        return Err(Skip::because("causes need the kernel's BTF"));
    }
    let mut collector = Collector::load(&settings()).expect("the programs can be loaded");
    collector.attach().and_then(|()| collector.open()).expect("the programs can be attached");
    let mut pipe = Workload::Pipe(Pipe { place: TaskPlacement::other(machine::one_cpu()) }).stage();
    pipe.begin();
    let mut waits = 0;
    for swap in 0..SWAPS {
        let mut of_classes = 0;
        let taken = collector.take_counted(|waits| {
            if let AggregatedWaits::Class(_, histogram) = waits {
                of_classes += histogram.count();
            }
            Ok(())
        });
        taken.with_context(|| format!("swap {swap}")).expect("the tables can be read");
        let causes = collector.take_causes().expect("causes are counted");
        let names = GroupNames { by: CauseGroups::Names, names: &BTreeMap::new() };
        assert_eq!(causes.into_summary(&names, SummaryLimits::groups(1), &[]).all.waits, of_classes, "swap {swap}");
        waits += of_classes;
    }
    println!("\n  {waits} waits in {SWAPS} halves");
    assert!(waits > SWAPS as u64, "{waits}");
    Ok(())
}
