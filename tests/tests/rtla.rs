//! `wakelat timerlat` beside rtla, the kernel's own instrument for the same tracer.

use std::collections::BTreeMap;

use wakelat_tests::{
    from_each_source, machine, rtla,
    suite::{self, Outcome},
    tracer::{self, Trace, run, running},
};

const PERIOD_US: u32 = 1000;

fn main() {
    suite::main(
        from_each_source![what_rtla_counts_is_what_is_read]
            .into_iter()
            .chain(wakelat_tests::once![rtla_alone_and_wakelat_alone_see_the_same_shape,]),
    );
}

/// The latencies of each CPU and context, in the order of their activations.
fn latencies(trace: &Trace) -> BTreeMap<(u32, &'static str), Vec<u64>> {
    let mut found: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for (_, latency) in &trace.latencies {
        let Some(context) = ["irq", "thread"].into_iter().find(|context| *context == latency.context) else { continue };
        found.entry((latency.cpu, context)).or_default().push(latency.latency_ns);
    }
    found
}

/// Side by side, as the kernel gives the same to whoever asks: whatever the load and however often the host stops the guest,
/// rtla's histogram is that of some of the activations that wakelat has read, one after the other, to the nanosecond.
fn what_rtla_counts_is_what_is_read(source: &str) -> Outcome {
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
fn assert_in_order(trace: &Trace) {
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
fn rtla_alone_and_wakelat_alone_see_the_same_shape() -> Outcome {
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
