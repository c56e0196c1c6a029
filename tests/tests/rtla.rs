//! Compares `wakelat timerlat` and `wakelat osnoise` with rtla, the kernel's own instrument for the same tracers.

use std::collections::BTreeMap;

use wakelat_tests::{
    from_each_source, machine, once, rtla,
    suite::{Case, Skip, TestOutcome},
    tracer::{self, ParsedTrace, run, running},
};

const PERIOD_US: u32 = 1000;

pub fn cases() -> Vec<Case> {
    from_each_source![rtla_counts_the_activations_that_wakelat_reads, osnoise_finds_as_much_noise_as_rtla]
        .into_iter()
        .chain(once![
            separate_runs_of_rtla_and_wakelat_see_the_same_shape,
            histograms_of_rtla_and_wakelat_have_the_same_median,
        ])
        .collect()
}

/// The latencies of each CPU and context, in the order of their activations.
fn latencies(trace: &ParsedTrace) -> BTreeMap<(u32, &'static str), Vec<u64>> {
    let mut found: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for (_, latency) in &trace.latencies {
        let Some(context) = ["irq", "thread"].into_iter().find(|context| *context == latency.context) else { continue };
        found.entry((latency.cpu, context)).or_default().push(latency.latency_ns);
    }
    found
}

/// Runs both at the same time, because the kernel gives every reader the same records: whatever the
/// load, and however often the host stops the guest, rtla's histogram is that of some consecutive
/// activations that wakelat has read, to the nanosecond.
fn rtla_counts_the_activations_that_wakelat_reads(source: &str) -> TestOutcome {
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    let wakelat = running(&["--source", source, "-p", &format!("{PERIOD_US}us")]);
    let histogram = rtla::hist(1, PERIOD_US);
    let (_, trace) = tracer::end(wakelat);
    let (histogram, read) = (histogram?, latencies(&trace));
    assert_eq!(histogram.keys().collect::<Vec<_>>(), read.keys().collect::<Vec<_>>());
    for (key, column) in &histogram {
        println!("\n  {key:?}: {} by rtla, of {} read", column.count, read[key].len());
        assert!(column.count > 0, "{key:?}");
        assert!(rtla::is_part_of(column, &read[key]), "{key:?}: {column:?} is not in {:?}", read[key]);
    }
    Ok(())
}

/// Asserts that no thread latency is shorter than that of its interrupt.
fn assert_in_order(trace: &ParsedTrace) {
    let mut irqs = BTreeMap::new();
    for (_, latency) in &trace.latencies {
        let activation = (latency.cpu, latency.seq);
        match latency.context.as_str() {
            "irq" => drop(irqs.insert(activation, latency.latency_ns)),
            _ => assert!(irqs.get(&activation).is_none_or(|irq_ns| *irq_ns <= latency.latency_ns), "{latency:?}"),
        }
    }
}

/// Runs one after the other, both through the trace buffer. No code of either runs before the interrupt
/// has read the clock. After that, wakelat also has the noise events recorded, which rtla has not: the
/// end of the interrupt and the thread that had the CPU, hundreds of instructions each. That is half as
/// much again as the path from the interrupt to the thread takes without them.
fn separate_runs_of_rtla_and_wakelat_see_the_same_shape() -> TestOutcome {
    tracer::need("timerlat")?;
    let histogram = rtla::hist(2, PERIOD_US)?;
    let (ended, trace) = run("timerlat", &["--source", "buffer", "-d", "2s", "-p", &format!("{PERIOD_US}us")]);
    assert!(ended.status.success(), "{ended:#?}");
    assert_in_order(&trace);
    let mut read = latencies(&trace);
    assert_eq!(histogram.keys().collect::<Vec<_>>(), read.keys().collect::<Vec<_>>());
    for (key, column) in &histogram {
        if key.1 == "thread" {
            assert!(column.follow(&histogram[&(key.0, "irq")]), "{key:?}: {histogram:?}");
        }
        let latencies = read.get_mut(key).expect("the keys are the same");
        latencies.sort_unstable();
        let median = latencies[(latencies.len() - 1) / 2];
        println!("\n  {key:?}: {} by rtla, half within {:?} ns", column.count, column.median());
        println!("  {key:?}: {} by wakelat, half within {median} ns", latencies.len());
        // If the host stops the guest, each run skips as many periods as it is stopped for, and
        // latencies depend on the host.
        if machine::has_own_time() {
            assert!(column.count.abs_diff(latencies.len() as u64) * 100 <= column.count, "{key:?}");
            let rtlas = column.median().expect("within the histogram");
            let (least, most) = match key.1 {
                "irq" => (rtlas * 98 / 100, rtlas * 102 / 100),
                _ => (rtlas, rtlas * 3 / 2),
            };
            assert!((least..=most).contains(&median), "{key:?}: {median} ns, {rtlas} ns by rtla");
        }
    }
    Ok(())
}

/// Runs one after the other, each with only the tracer's own record of the samples.
fn histograms_of_rtla_and_wakelat_have_the_same_median() -> TestOutcome {
    tracer::need("timerlat")?;
    need_own_time()?;
    let histogram = rtla::hist(2, PERIOD_US)?;
    let document = tracer::document(&["timerlat", "hist"], &["-d", "2s", "-p", &format!("{PERIOD_US}us")]);
    for ((cpu, context), column) in &histogram {
        let of = document["cpus"].as_array().expect("a list").iter().find(|of| of["cpu"] == *cpu).expect("every CPU");
        let (rtlas, ours) = (column.median().expect("within the histogram"), &of[context]["percentiles_ns"]["50"]);
        println!("\n  {context} of CPU {cpu}: half within {rtlas} ns by rtla, {ours} ns by wakelat");
        let ours = ours.as_u64().expect("a number");
        assert!(ours.abs_diff(rtlas) * 100 <= rtlas * 5, "{context} of CPU {cpu}: {ours} ns, {rtlas} ns by rtla");
    }
    Ok(())
}

/// Runs one after the other on an idle machine: the noise of a CPU is the same, and so is the noise by hardware.
fn osnoise_finds_as_much_noise_as_rtla(source: &str) -> TestOutcome {
    tracer::need("osnoise")?;
    tracer::need_source(source)?;
    need_own_time()?;
    let rtlas = rtla::osnoise_top(5)?;
    let document = tracer::document(&["osnoise"], &["--source", source, "-d", "5s"]);
    let cpus = document["cpus"].as_array().expect("a list");
    assert_eq!(cpus.len(), rtlas.len(), "{rtlas:?}: {document:#}");
    for of in cpus {
        let number = |field: &str| of[field].as_u64().unwrap_or_else(|| panic!("no `{field}` in {of:#}"));
        let (runtime_us, noise_us, hw) = (number("runtime_ns") / 1000, number("noise_ns") / 1000, number("hw"));
        let rtla = rtlas[&(number("cpu") as u32)];
        // Noise in ppm of the runtime.
        let (ours, theirs) = (noise_us * 1_000_000 / runtime_us, rtla.noise_us * 1_000_000 / rtla.runtime_us);
        println!("\n  {theirs} ppm of noise by rtla, {hw} by hardware; {ours} ppm by wakelat, {} by hardware", rtla.hw);
        // Each includes its own housekeeping: at most another quarter of a percent of the CPU.
        assert!(ours.abs_diff(theirs) <= 2_500, "{ours} ppm, {theirs} by rtla: {of:#}");
        assert!(hw.abs_diff(rtla.hw) <= 10, "{hw} noises by hardware, {} by rtla: {of:#}", rtla.hw);
    }
    Ok(())
}

fn need_own_time() -> Result<(), Skip> {
    if machine::has_own_time() {
        Ok(())
    } else {
        Err(Skip::because("where the host stops the guest, one run after the other is not comparable"))
    }
}
