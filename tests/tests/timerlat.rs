//! The timerlat and osnoise tracers, live: what is reported, what is stopped, and what is restored.
//!
//! The kernel writes the same records to every instance that enables a tracer, so an instance of the
//! test's own is the reference.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use wakelat_tests::{
    clock, from_each_source, machine, once, procfs,
    suite::{Case, Skip, TestOutcome},
    tracefs,
    tracer::{self, ParsedTrace, ReferenceInstance, run, running},
    wakelat::{Wakelat, command},
    workload::until,
};

pub fn cases() -> Vec<Case> {
    from_each_source![
        every_period_has_an_activation,
        wakelat_reads_exactly_what_the_kernel_records,
        a_reader_without_a_cpu_does_not_lengthen_the_window,
        a_threshold_stops_the_run_with_its_stack,
        a_latency_during_the_warm_up_stops_nothing,
        osnoise_measures_its_runtime,
        a_noise_over_the_threshold_stops_osnoise,
    ]
    .into_iter()
    .chain(once![
        a_stop_for_a_noise_from_before_the_window_begins_it_anew,
        another_process_that_stops_the_recording_is_no_threshold,
        options_are_set_and_restored,
        the_next_run_restores_what_a_killed_one_has_set,
        errors_name_the_values_that_the_kernel_accepts,
        a_tracer_in_use_is_left_alone,
    ])
    .collect()
}

fn every_period_has_an_activation(source: &str) -> TestOutcome {
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    const PERIOD_US: u64 = 2000;
    let (ended, trace) = run("timerlat", &["--source", source, "-d", "1s", "-p", "2ms"]);
    assert!(ended.status.success(), "{ended:#?}");
    let (irqs, threads) = (trace.of("irq"), trace.of("thread"));
    assert_eq!(irqs.keys().copied().map(|cpu| cpu as usize).collect::<Vec<_>>(), machine::cpus());
    for (cpu, irqs) in &irqs {
        // Each activation has the number after the previous one: none is lost silently.
        assert!(irqs.windows(2).all(|pair| pair[1].1 == pair[0].1 + 1), "CPU {cpu}: {irqs:?}");
        let woken = threads.get(cpu).map_or(0, Vec::len);
        assert!(irqs.len().abs_diff(woken) <= 1, "CPU {cpu}: {} interrupts, {woken} threads", irqs.len());
        let (first, last) = (irqs[0].0, irqs[irqs.len() - 1].0);
        let periods = (last - first + PERIOD_US / 2) / PERIOD_US;
        println!("\n  CPU {cpu}: {} activations, {periods} periods", irqs.len());
        // If the host stops the guest, the tracer itself skips what has passed meanwhile
        // (`wait_next_period`).
        if machine::has_own_time() {
            assert!((irqs.len() as u64 - 1).abs_diff(periods) * 100 <= periods, "CPU {cpu}");
            assert!(periods >= 450, "CPU {cpu}: {periods} periods in a second");
        }
    }
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a document");
    assert_eq!(document["schema"], "wakelat.timerlat/1");
    Ok(())
}

fn wakelat_reads_exactly_what_the_kernel_records(source: &str) -> TestOutcome {
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    let wakelat = running(&["--source", source, "-p", "5ms"]);
    let witness = ReferenceInstance::make("timerlat");
    // Until some activations of every CPU have been seen, by the reference instance itself.
    let entries = || ParsedTrace::parse(&tracefs::read("instances/wl-witness/trace")).of("thread");
    let cpus = machine::cpus().len();
    until("each CPU has fifty activations", || {
        let seen = entries();
        seen.len() == cpus && seen.values().all(|activations| activations.len() >= 50)
    });
    let expected = ParsedTrace::parse(&witness.text());
    let (_, read) = tracer::end(wakelat);
    drop(witness);
    let read_latencies: Vec<_> = read.latencies.iter().map(|(_, latency)| latency).collect();
    let missing: Vec<_> = expected.latencies.iter().filter(|(_, latency)| !read_latencies.contains(&latency)).collect();
    println!("\n  {} latencies and {} noise events, all of them read", expected.latencies.len(), expected.noises.len());
    assert!(missing.is_empty(), "recorded by the kernel, but not read by wakelat: {missing:?}");
    // And nothing else was read: between the first and the last, each number as often.
    for context in ["irq", "thread"] {
        let (expected, read) = (expected.of(context), read.of(context));
        for (cpu, expected) in expected {
            let (first, last) = (expected[0].1, expected[expected.len() - 1].1);
            let within = read[&cpu].iter().filter(|(_, seq)| (first..=last).contains(seq)).count();
            assert_eq!(within, expected.len(), "{context} of CPU {cpu}");
        }
    }
    let mut left: BTreeMap<_, i64> = BTreeMap::new();
    read.noises.iter().for_each(|noise| *left.entry(noise).or_default() += 1);
    for noise in &expected.noises {
        let count = left.entry(noise).or_default();
        *count -= 1;
        assert!(*count >= 0, "recorded by the kernel, but not read by wakelat: {noise:?}");
    }
    Ok(())
}

/// The tracers' threads take the CPU from all others, as real-time tasks of users do: the reader may be late.
fn a_reader_without_a_cpu_does_not_lengthen_the_window(source: &str) -> TestOutcome {
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    // Long enough to stop the reader within it, also in a guest that its host delays.
    const WINDOW_NS: u64 = 3_000_000_000;
    let wakelat = Wakelat::measuring(command(&["timerlat", "--source", source, "--json", "-d", "3s"]));
    wakelat.stall();
    clock::block_until(clock::now_ns() + WINDOW_NS + 1_000_000_000);
    wakelat.signal(Signal::SIGCONT);
    let ended = wakelat.end();
    assert!(ended.status.success(), "{ended:#?}");
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a document");
    assert_eq!(document["coverage"]["duration_ns"], WINDOW_NS, "{document:#}");
    for cpu in document["cpus"].as_array().expect("a list") {
        let activations = cpu["irq"]["count"].as_u64().expect("a number");
        println!("\n  {activations} activations in three seconds");
        // One each millisecond.
        assert!((1..=3_001).contains(&activations), "{cpu:#}");
    }
    Ok(())
}

fn a_threshold_stops_the_run_with_its_stack(source: &str) -> TestOutcome {
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    let before = tracer::state();
    for (flag, context) in [("--thread", "thread"), ("--irq", "irq")] {
        // Every activation is at least that late.
        let (ended, trace) = run("timerlat", &["--source", source, "-d", "60s", flag, "1us", "--stack", "1us"]);
        assert_eq!(ended.status.code(), Some(3), "{flag}: {ended:#?}");
        let (_, last) = trace.latencies.last().expect("a latency stopped it");
        assert_eq!(last.context, context, "{flag}: {last:?}");
        assert!(trace.frames.iter().any(|frame| frame.starts_with("timerlat_irq")), "{flag}: {:?}", trace.frames);
    }
    let (ended, trace) =
        run("timerlat", &["--source", source, "-d", "500ms", "-T", "1us", "--on-threshold", "continue"]);
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    assert!(trace.latencies.len() > 2, "{:?}", trace.latencies);
    assert_eq!(tracer::state(), before);
    Ok(())
}

fn a_latency_during_the_warm_up_stops_nothing(source: &str) -> TestOutcome {
    tracer::need("timerlat")?;
    tracer::need_source(source)?;
    const WARM_UP_US: u64 = 3_000_000;
    let begun_us = clock::now_ns() / 1_000;
    // Every activation is at least that late, also during the warm-up.
    let (ended, trace) = run("timerlat", &["--source", source, "--warm-up", "3s", "-d", "60s", "-T", "1us"]);
    assert_eq!(ended.status.code(), Some(3), "{ended:#?}");
    let (at_us, first) = trace.latencies.first().expect("a latency stopped it");
    assert!(at_us.saturating_sub(begun_us) >= WARM_UP_US, "{first:?} at {at_us} us, begun at {begun_us} us");
    Ok(())
}

fn osnoise_measures_its_runtime(source: &str) -> TestOutcome {
    tracer::need("osnoise")?;
    tracer::need_source(source)?;
    let before = tracer::state();
    let document = tracer::document(&["osnoise"], &["--source", source, "-d", "1500ms", "-p", "200ms", "-r", "100ms"]);
    assert_eq!(document["schema"], "wakelat.osnoise/1");
    let cpus = document["cpus"].as_array().expect("a list");
    assert_eq!(cpus.len(), machine::cpus().len(), "{document:#}");
    for cpu in cpus {
        let number = |field: &str| cpu[field].as_u64().unwrap_or_else(|| panic!("no `{field}` in {cpu:#}"));
        let (periods, runtime_ns) = (number("periods"), number("runtime_ns"));
        println!("\n  {periods} periods, {runtime_ns} ns");
        // The end may have cut the last period short (`run_osnoise`, kernel/trace/trace_osnoise.c).
        assert!(periods >= 2 && runtime_ns >= (periods - 1) * 100_000_000, "{cpu:#}");
        assert!(number("noise_ns") <= runtime_ns, "{cpu:#}");
    }
    assert_eq!(tracer::state(), before);
    Ok(())
}

fn a_noise_over_the_threshold_stops_osnoise(source: &str) -> TestOutcome {
    tracer::need("osnoise")?;
    tracer::need_source(source)?;
    let before = tracer::state();
    // The timer interrupt by itself takes longer than that.
    let (ended, _) = run("osnoise", &["--source", source, "-d", "60s", "-a", "1us"]);
    assert_eq!(ended.status.code(), Some(3), "{ended:#?}");
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a document");
    let longest = document["cpus"].as_array().expect("a list").iter().map(|cpu| cpu["max_single_ns"].as_u64()).max();
    assert!(longest.flatten().is_some_and(|ns| ns > 1_000), "{document:#}");
    // `top` by itself does not listen to single noises: the kernel stops the run, and wakelat reports it.
    let ended = Wakelat::start(command(&["osnoise", "--source", source, "-d", "60s", "-s", "1us"])).end();
    assert_eq!(ended.status.code(), Some(3), "{ended:#?}");
    assert!(ended.stderr.contains("a single noise stopped the run"), "{ended:#?}");
    assert_eq!(tracer::state(), before);
    Ok(())
}

fn a_stop_for_a_noise_from_before_the_window_begins_it_anew() -> TestOutcome {
    tracer::need("osnoise")?;
    let before = tracer::state();
    // No record comes in the first seconds, and no noise reaches that total.
    let more = ["-d", "7s", "-p", "3s", "-r", "2s", "-S", "60s"];
    let wakelat = Wakelat::measuring(command(&[&["osnoise", "--json"], &more[..]].concat()));
    let instances = tracefs::left_by_wakelat();
    let [instance] = &instances[..] else { panic!("one instance: {instances:?}") };
    // A measuring thread that was preempted between its record and its stop would do the same.
    tracefs::append(&format!("instances/{instance}/tracing_on"), "0");
    let ended = wakelat.end();
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a document");
    assert!(document["all"]["periods"].as_u64().is_some_and(|periods| periods >= 1), "{document:#}");
    assert!(document["coverage"]["duration_ns"].as_u64().is_some_and(|ns| ns >= 7_000_000_000), "{document:#}");
    assert_eq!(tracer::state(), before);
    Ok(())
}

fn another_process_that_stops_the_recording_is_no_threshold() -> TestOutcome {
    tracer::need("timerlat")?;
    let before = tracer::state();
    // No activation is that late.
    let thresholds: [&[&str]; 2] = [&[], &["-T", "60s"]];
    for threshold in thresholds {
        let run = ["timerlat", "hist", "--json", "-d", "30s"];
        let wakelat = Wakelat::measuring(command(&[&run[..], threshold].concat()));
        let instances = tracefs::left_by_wakelat();
        let [instance] = &instances[..] else { panic!("one instance: {instances:?}") };
        // Until then, the run would begin anew.
        clock::block_until(clock::now_ns() + 2_000_000_000);
        tracefs::append(&format!("instances/{instance}/tracing_on"), "0");
        let ended = wakelat.end();
        assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
        assert!(ended.stderr.contains("another process stopped the recording"), "{ended:#?}");
        let document: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a document");
        assert!(document["all"]["irq"]["count"].as_u64().is_some_and(|count| count > 0), "{document:#}");
        assert_eq!(tracer::state(), before);
    }
    Ok(())
}

fn options_are_set_and_restored() -> TestOutcome {
    tracer::need("timerlat")?;
    if tracer::setting("osnoise/options").is_empty() {
        return Err(Skip::because("this kernel has no `osnoise/options`"));
    }
    let before = tracer::state();
    let cpu = machine::one_cpu().to_string();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let wakelat = running(&[
            "-p",
            "3ms",
            "-c",
            &cpu,
            "-T",
            "30s",
            "-i",
            "20s",
            "-s",
            "10s",
            "-P",
            "f:42",
            "--dma-latency",
            "0",
            "--options",
            "OSNOISE_IRQ_DISABLE",
        ]);
        assert_eq!(tracer::setting("osnoise/cpus"), cpu);
        for (file, value) in [
            ("timerlat_period_us", "3000"),
            ("stop_tracing_total_us", "30000000"),
            ("stop_tracing_us", "20000000"),
            ("print_stack", "10000000"),
        ] {
            assert_eq!(tracer::setting(&format!("osnoise/{file}")), value, "{file}");
        }
        let options = tracer::setting("osnoise/options");
        assert!(options.split(' ').any(|option| option == "OSNOISE_IRQ_DISABLE"), "{options}");
        let thread = format!("timerlat/{cpu}");
        let priority = procfs::pids_named(&thread).first().map(|tid| procfs::rt_priority(*tid));
        assert_eq!(priority, Some(42), "`{thread}`");
        wakelat.signal(signal);
        let ended = wakelat.end();
        assert!(ended.status.success(), "{ended:#?}");
        assert_eq!(tracer::state(), before);
    }
    tracer::saved();
    Ok(())
}

fn the_next_run_restores_what_a_killed_one_has_set() -> TestOutcome {
    tracer::need("timerlat")?;
    let before = tracer::state();
    let killed = running(&["-p", "7ms", "-c", "0"]);
    let pid = killed.pid();
    killed.signal(Signal::SIGKILL);
    assert_eq!(killed.end().killed_by(), Some(Signal::SIGKILL as i32));
    assert_ne!(tracer::state(), before, "a killed run restores nothing");
    // Another user changes one of the settings meanwhile: that change must be kept.
    tracefs::append("osnoise/print_stack", "77");
    let (ended, _) = run("timerlat", &["-d", "100ms"]);
    assert!(ended.status.success(), "{ended:#?}");
    for what in ["removed the tracefs instance", "restored `osnoise/"] {
        assert!(ended.stderr.contains(what) && ended.stderr.contains(&pid.to_string()), "{ended:#?}");
    }
    assert_eq!(tracer::setting("osnoise/print_stack"), "77");
    tracefs::append("osnoise/print_stack", &before["osnoise/print_stack"]);
    assert_eq!(tracer::state(), before);
    Ok(())
}

fn errors_name_the_values_that_the_kernel_accepts() -> TestOutcome {
    tracer::need("timerlat")?;
    let before = tracer::state();
    for (arguments, code, words) in [
        (&["-p", "50us"][..], 1, &["--period", "50", "100us to 1s"][..]),
        (&["-p", "2s"], 1, &["--period", "100us to 1s"]),
        (&["--options", "SUCH_A_THING"], 1, &["--options", "SUCH_A_THING"]),
        (&["--options", "PANIC_ON_STOP"], 2, &["--options", "panic"]),
        (&["-c", "4095"], 2, &["--cpus", "4095", "online"]),
        (&["-P", "f:100"], 2, &["--priority"]),
        (&["-C=wl-no-such-group"], 1, &["--cgroup", "wl-no-such-group"]),
        (&["--from", "x", "-p", "1ms"], 2, &["--from", "together"]),
    ] {
        let (ended, _) = run("timerlat", &[&["-d", "100ms"], arguments].concat());
        ended.assert_refused(code, words);
        assert_eq!(tracer::state(), before, "{arguments:?}");
    }
    Ok(())
}

fn a_tracer_in_use_is_left_alone() -> TestOutcome {
    tracer::need("timerlat")?;
    let witness = ReferenceInstance::make("timerlat");
    let before = tracer::state();
    let (ended, _) = run("timerlat", &["-d", "100ms"]);
    ended.assert_refused(1, &["wl-witness", "is already running"]);
    assert_eq!(tracer::state(), before);
    drop(witness);
    Ok(())
}
