//! Runs every command that measures, one after another and for a long time each, while a pipe keeps
//! each of two CPUs busy: the machine makes progress, the kernel reports nothing, and the command ends.
//!
//! `$WAKELAT_SOAK` is the number of seconds for each. The init of a test machine sets it:
//! `cargo xtask vm --soak`.

use std::process::{Command, ExitCode, Stdio};

use wakelat_tests::{
    machine, once,
    suite::{self, TestOutcome},
    tracefs, tracer,
    wakelat::command,
};

mod run;

use run::{Run, seconds};

fn main() -> ExitCode {
    suite::main_of(once![
        hist,
        hist_with_samples,
        hist_from_queued,
        top,
        top_with_samples,
        trace,
        trace_all,
        why,
        why_counted,
        record,
        verify,
        timerlat,
        osnoise,
        hist_trigger,
    ])
}

/// `wakelat` with these arguments, measuring for the requested time.
fn wakelat(arguments: &[&str]) -> Command {
    command(&[arguments, &["-d", &format!("{}s", seconds())]].concat())
}

/// Runs a command that needs the ring buffer. If the kernel's ring buffer would freeze the machine,
/// wakelat refuses to run.
fn streams(arguments: &[&str]) -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        Run::refused(wakelat(arguments), &["ring buffer", "PREEMPT_RT"]);
        return Ok(());
    }
    Run::begin()?.measure(wakelat(arguments)).assert_code(&[0]);
    Ok(())
}

/// Runs a command whose waits the kernel aggregates: it needs no ring buffer.
fn aggregates(arguments: &[&str]) -> TestOutcome {
    Run::begin()?.measure(wakelat(arguments)).assert_code(&[0]);
    Ok(())
}

fn hist() -> TestOutcome {
    aggregates(&["hist", "--json", "--mode", "aggregate"])
}

fn hist_with_samples() -> TestOutcome {
    streams(&["hist", "--json", "--mode", "samples"])
}

fn hist_from_queued() -> TestOutcome {
    aggregates(&["hist", "--json", "--from", "queued", "--by", "comm"])
}

fn top() -> TestOutcome {
    aggregates(&["top", "--json"])
}

fn top_with_samples() -> TestOutcome {
    streams(&["top", "--json", "--mode", "samples"])
}

fn trace() -> TestOutcome {
    streams(&["trace", "--json"])
}

fn trace_all() -> TestOutcome {
    streams(&["trace", "--all", "--json"])
}

fn why() -> TestOutcome {
    streams(&["why", "--json"])
}

fn why_counted() -> TestOutcome {
    aggregates(&["why", "--json", "--mode", "aggregate", "--by", "comm"])
}

/// The recording is read while it is written, because a guest has no room for it.
fn record() -> TestOutcome {
    let record = ["record", "-o", "-"];
    if machine::ring_buffer_may_sleep() {
        return streams(&record);
    }
    let run = Run::begin()?;
    let mut recorder = wakelat(&record).stdout(Stdio::piped()).spawn().expect("wakelat can be run");
    let recording = recorder.stdout.take().expect("piped");
    let mut reader = command(&["why", "--json", "-i", "-"]);
    reader.stdin(recording);
    run.measure(reader).assert_code(&[0]);
    let status = recorder.wait().expect("a child can be waited for");
    assert!(status.success(), "the recorder ended with {status}");
    Ok(())
}

fn verify() -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        return streams(&["verify", "--json"]);
    }
    // 4 means that there are no hist triggers to compare with.
    let agreed = if tracefs::has_hist_triggers() { 0 } else { 4 };
    Run::begin()?.measure(wakelat(&["verify", "--json"])).assert_verified(agreed);
    Ok(())
}

fn timerlat() -> TestOutcome {
    tracer::need("timerlat")?;
    Run::begin()?.measure(wakelat(&["timerlat", "--json"])).assert_code(&[0]);
    Ok(())
}

fn osnoise() -> TestOutcome {
    tracer::need("osnoise")?;
    Run::begin()?.measure(wakelat(&["osnoise", "--json"])).assert_code(&[0]);
    Ok(())
}

/// A shell runs the commands that `hist-trigger print` prints.
fn hist_trigger() -> TestOutcome {
    tracefs::need_hist_triggers()?;
    let printed = command(&["hist-trigger", "print", "-d", &seconds().to_string()]).output();
    let printed = printed.expect("wakelat can be run");
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let script = String::from_utf8(printed.stdout).expect("shell commands are text");
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &script]);
    Run::begin()?.measure(shell).assert_code(&[0]);
    assert!(!tracefs::path("instances/wakeup_latency").exists(), "the commands leave their instance behind");
    Ok(())
}
