//! `wakelat timerlat` and `wakelat osnoise` beside rtla, the kernel's own instrument for the same tracers.

use std::collections::BTreeMap;

use wakelat_tests::{
    from_each_source, machine, rtla,
    suite::{self, Skip, TestOutcome},
    tracer::{self, ParsedTrace, run, running},
};

const PERIOD_US: u32 = 1000;

fn main() {
    suite::main(
        from_each_source![what_rtla_counts_is_what_is_read, osnoise_leaves_as_much_of_a_cpu_as_rtla_says]
            .into_iter()
            .chain(wakelat_tests::once![
                rtla_alone_and_wakelat_alone_see_the_same_shape,
                a_histogram_takes_no_more_time_than_rtlas,
            ]),
    );
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

/// Side by side, as the kernel gives the same to whoever asks: whatever the load and however often the host stops the guest,
/// rtla's histogram is that of some of the activations that wakelat has read, one after the other, to the nanosecond.
fn what_rtla_counts_is_what_is_read(source: &str) -> TestOutcome {
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

/// Asserts that no thread was earlier than its interrupt.
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

/// One after the other, both by way of the trace buffer. Nothing of either runs before the interrupt has read the clock. Then wakelat has the interferences
/// recorded too, and rtla has not: the end of the interrupt and the thread that had the CPU, hundreds of instructions each, and
/// half as many again as the way from the interrupt to the thread has without them.
fn rtla_alone_and_wakelat_alone_see_the_same_shape() -> TestOutcome {
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
        // Where the host stops the guest, each run skips as many periods as it is stopped for, and latencies are its.
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

/// One after the other, each with the tracer's own record of the samples and nothing else.
fn a_histogram_takes_no_more_time_than_rtlas() -> TestOutcome {
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

/// One after the other on an idle machine: what is left of a CPU is the same, and hardware makes as little noise.
fn osnoise_leaves_as_much_of_a_cpu_as_rtla_says(source: &str) -> TestOutcome {
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
        // Noise in a million parts of the runtime.
        let (ours, theirs) = (noise_us * 1_000_000 / runtime_us, rtla.noise_us * 1_000_000 / rtla.runtime_us);
        println!("\n  {theirs} ppm of noise by rtla, {hw} by hardware; {ours} ppm by wakelat, {} by hardware", rtla.hw);
        // Each has its own housekeeping in it: at most another quarter of a percent of the CPU.
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
