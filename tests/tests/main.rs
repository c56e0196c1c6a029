//! All suites of the kernel tests, as one program: a test in a file here shows one fact about wakelat on the running
//! kernel.
//!
//! Without arguments, it runs every suite; `--suite why` runs the tests of `why.rs`, and `--suites` lists the names.

mod browser;
mod busy;
mod captures;
mod cause_sums;
mod causes;
mod compare;
mod context;
mod cost;
mod counts;
mod errors;
mod filters;
mod flight_recorder;
mod groups;
mod interactive_top;
mod interrupts;
mod kept_recordings;
mod killed_recording;
mod kubelet;
mod large;
mod losses;
mod measured_command;
mod names;
mod oracle;
mod otlp;
mod overhead;
mod overview;
mod peers;
mod pitfalls;
mod prometheus;
mod prometheus_load;
mod queue_clock;
mod queue_recording;
mod record_and_show;
mod recording;
mod reports;
mod rtla;
mod run_time;
mod sandbox;
mod serve;
mod service_causes;
mod service_manager;
mod stacks;
mod sustained;
mod terminal;
mod timehist;
mod timerlat;
mod timerlat_noise;
mod timerlat_report;
mod timerlat_threads;
mod trace_text;
mod verifier;
mod verify;
mod why;
mod window;
mod workloads;

use std::process::ExitCode;

use wakelat_tests::{inside, suite, suites};

fn main() -> ExitCode {
    inside::perform_if_asked(captures::INSIDE, captures::try_calls_of_a_launcher);
    inside::perform_if_asked(otlp::INSIDE, otlp::try_connections);
    inside::perform_if_asked(sandbox::INSIDE, sandbox::try_forbidden_calls);
    suite::main(suites![
        browser,
        busy,
        captures,
        cause_sums,
        causes,
        compare,
        context,
        cost,
        counts,
        errors,
        filters,
        flight_recorder,
        groups,
        interactive_top,
        interrupts,
        kept_recordings,
        killed_recording,
        kubelet,
        large,
        losses,
        measured_command,
        names,
        oracle,
        otlp,
        overhead,
        overview,
        peers,
        pitfalls,
        prometheus,
        prometheus_load,
        queue_clock,
        queue_recording,
        record_and_show,
        recording,
        reports,
        rtla,
        run_time,
        sandbox,
        serve,
        service_causes,
        service_manager,
        stacks,
        sustained,
        terminal,
        timehist,
        timerlat,
        timerlat_noise,
        timerlat_report,
        timerlat_threads,
        trace_text,
        verifier,
        verify,
        why,
        window,
        workloads
    ])
}
