//! Runs every command that measures for a long time, while a pipe keeps each of two CPUs busy: the machine makes
//! progress, the kernel reports nothing, and the command ends. The commands run one after another, and again several
//! at once.
//!
//! `$WAKELAT_SOAK` is the number of seconds for each. The init of a test machine sets it:
//! `cargo xtask vm --soak`.

use std::process::{Command, ExitCode};

use wakelat_tests::{
    machine, once,
    skip::Skip,
    suite::{self, TestOutcome},
    tracefs, tracer,
    wakelat::{binary, command},
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
        at_once_counting,
        at_once_streaming,
        at_once_with_the_kernels_instruments,
    ])
}

/// Commands whose waits the kernel aggregates: they need no ring buffer.
const COUNTING: [&[&str]; 4] = [
    &["hist", "--json", "--mode", "aggregate"],
    &["hist", "--json", "--from", "queued", "--by", "comm"],
    &["top", "--json"],
    &["why", "--json", "--mode", "aggregate", "--by", "comm"],
];

/// Commands that read each event from the ring buffer. [`recorder`] is another one.
const STREAMING: [&[&str]; 5] = [
    &["hist", "--json", "--mode", "samples"],
    &["top", "--json", "--mode", "samples"],
    &["trace", "--json"],
    &["trace", "--all", "--json"],
    &["why", "--json"],
];

const RECORD: &[&str] = &["record", "-o", "-"];
const VERIFY: &[&str] = &["verify", "--json"];
const TIMERLAT: &[&str] = &["timerlat", "--json"];
const OSNOISE: &[&str] = &["osnoise", "--json"];

/// `wakelat` with these arguments, measuring for the requested time.
fn wakelat(arguments: &[&str]) -> Command {
    command(&[arguments, &["-d", &format!("{}s", seconds())]].concat())
}

/// A shell that reads a recording while it is written, because a guest has no room for it.
fn recorder() -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"set -o pipefail; "$0" record -o - -d "$1" | "$0" why --json -i -"#]);
    shell.args([binary().as_os_str(), format!("{}s", seconds()).as_ref()]);
    shell
}

/// A shell that runs the commands that `hist-trigger print` prints.
fn triggers() -> Command {
    let printed = command(&["hist-trigger", "print", "-d", &seconds().to_string()]).output();
    let printed = printed.expect("wakelat can be run");
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let script = String::from_utf8(printed.stdout).expect("shell commands are text");
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &script]);
    shell
}

/// Runs a command that needs the ring buffer. If the kernel's ring buffer would freeze the machine,
/// wakelat refuses to run.
fn streams(arguments: &[&str]) -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        Run::refused(wakelat(arguments), &["ring buffer", "PREEMPT_RT"]);
        return Ok(());
    }
    runs(wakelat(arguments))
}

/// Runs a command that no kernel refuses.
fn runs(command: Command) -> TestOutcome {
    Run::begin()?.measure(command).assert_code(&[0]);
    Ok(())
}

fn hist() -> TestOutcome {
    runs(wakelat(COUNTING[0]))
}

fn hist_from_queued() -> TestOutcome {
    runs(wakelat(COUNTING[1]))
}

fn top() -> TestOutcome {
    runs(wakelat(COUNTING[2]))
}

fn why_counted() -> TestOutcome {
    runs(wakelat(COUNTING[3]))
}

fn hist_with_samples() -> TestOutcome {
    streams(STREAMING[0])
}

fn top_with_samples() -> TestOutcome {
    streams(STREAMING[1])
}

fn trace() -> TestOutcome {
    streams(STREAMING[2])
}

fn trace_all() -> TestOutcome {
    streams(STREAMING[3])
}

fn why() -> TestOutcome {
    streams(STREAMING[4])
}

fn record() -> TestOutcome {
    if machine::ring_buffer_may_sleep() { streams(RECORD) } else { runs(recorder()) }
}

/// What `verify` reports if everything that it compared agrees. 4 means that there are no hist triggers to compare
/// with.
fn agreed() -> i32 {
    if tracefs::has_hist_triggers() { 0 } else { 4 }
}

fn verify() -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        return streams(VERIFY);
    }
    Run::begin()?.measure(wakelat(VERIFY)).assert_verified(agreed());
    Ok(())
}

fn timerlat() -> TestOutcome {
    tracer::need("timerlat")?;
    runs(wakelat(TIMERLAT))
}

fn osnoise() -> TestOutcome {
    tracer::need("osnoise")?;
    runs(wakelat(OSNOISE))
}

fn hist_trigger() -> TestOutcome {
    tracefs::need_hist_triggers()?;
    runs(triggers())?;
    assert_no_instance_is_left();
    Ok(())
}

fn assert_no_instance_is_left() {
    assert!(!tracefs::path("instances/wakeup_latency").exists(), "the commands leave their instance behind");
}

/// All commands that count in the kernel, and the osnoise tracer, which cannot run beside timerlat.
fn at_once_counting() -> TestOutcome {
    let mut commands: Vec<_> = COUNTING.map(wakelat).into();
    if tracer::need("osnoise").is_ok() {
        commands.push(wakelat(OSNOISE));
    }
    all_succeed(commands)
}

fn at_once_streaming() -> TestOutcome {
    if machine::ring_buffer_may_sleep() {
        return Err(Skip::because("each of these commands is refused, as their own tests show"));
    }
    let mut commands: Vec<_> = STREAMING.map(wakelat).into();
    commands.push(recorder());
    all_succeed(commands)
}

/// `verify` beside the hist triggers of another instance and the timerlat tracer.
fn at_once_with_the_kernels_instruments() -> TestOutcome {
    let mut others = Vec::new();
    if tracefs::has_hist_triggers() {
        others.push(triggers());
    }
    if tracer::need("timerlat").is_ok() {
        others.push(wakelat(TIMERLAT));
    }
    let verify = (!machine::ring_buffer_may_sleep()).then(|| wakelat(VERIFY));
    let verifies = verify.is_some();
    let mut measured = Run::begin()?.measure_at_once(others.into_iter().chain(verify));
    if verifies && let Some(verify) = measured.pop() {
        verify.assert_verified(agreed());
    }
    measured.iter().for_each(|measured| measured.assert_code(&[0]));
    assert_no_instance_is_left();
    Ok(())
}

fn all_succeed(commands: Vec<Command>) -> TestOutcome {
    for measured in Run::begin()?.measure_at_once(commands) {
        measured.assert_code(&[0]);
    }
    Ok(())
}
