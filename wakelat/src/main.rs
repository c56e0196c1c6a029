//! The entry point: the only place that ends the process.

#![forbid(unsafe_code)]

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use anyhow::Result;
use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};
use wakelat::{
    cli::{self, Invocation},
    commands,
    config::{Command, ConfigError, TraceRows},
    session::{CommandNotStarted, StopReason},
    status::{StatusWriter, status},
};

fn main() -> ExitCode {
    // The kernel names a process that another wakelat has started after the last part of `/proc/self/exe`.
    if rustix::thread::name().is_ok_and(|name| name.as_c_str() == c"exe") {
        _ = rustix::thread::set_name(c"wakelat");
    }
    let Invocation { command, verbosity } = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(error) => {
            return match error.print() {
                Err(failed) if failed.kind() != io::ErrorKind::BrokenPipe => {
                    status(format_args!("error: cannot write to standard output: {failed}"));
                    ExitCode::FAILURE
                }
                _ => error.exit_code().into(),
            };
        }
    };
    log(verbosity);
    match run(&command) {
        Ok(code) => code,
        Err(error) => {
            let remedy = if has_failed_by(&error, libc::EMFILE) {
                "; raise the limit, for example with `ulimit -n 1024`"
            } else if has_failed_by(&error, libc::ENOMEM) && getrlimit(Resource::As).current.is_some() {
                "; raise the limit, for example with `ulimit -v unlimited`"
            } else {
                ""
            };
            status(format_args!("error: {error:#}{remedy}"));
            // Some flags can be checked only with their input.
            let is_usage = matches!(error.downcast_ref(), Some(ConfigError::Usage(_)));
            let not_started = error.downcast_ref().map(CommandNotStarted::exit_code);
            ExitCode::from(not_started.unwrap_or(if is_usage { 2 } else { 1 }))
        }
    }
}

/// Whether a system call failed with `errno`. The standard library and rustix have types of their own for it.
fn has_failed_by(error: &anyhow::Error, errno: i32) -> bool {
    error.chain().any(|cause| {
        let of_std = cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        let of_rustix = || cause.downcast_ref::<Errno>().map(|errno| errno.raw_os_error());
        of_std.or_else(of_rustix) == Some(errno)
    })
}

fn run(command: &Command) -> Result<ExitCode> {
    let stop = match command {
        Command::Hist(config, hist) => commands::hist(config, hist)?,
        Command::Top(config, table) => commands::top(config, *table)?,
        Command::Trace(config, TraceRows::Waits) => commands::trace(config)?,
        Command::Trace(config, TraceRows::Breakdowns(svg)) => commands::trace_breakdown(config, svg.as_deref())?,
        Command::Trace(config, TraceRows::Switches(all)) => commands::trace_all(config, all)?,
        Command::Why(config, why) => commands::why(config, why)?,
        Command::WhyCounted(config, groups) => commands::why_counted(config, *groups)?,
        Command::Record(config, record) => commands::record(config, record)?,
        Command::Dump(request) => {
            commands::dump(*request)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Merge(config) => commands::merge(config)?,
        Command::Report(config) => commands::html_report(config)?,
        Command::Export(config, export) => commands::export(config, export)?,
        Command::Diff(config) => return Ok(commands::diff(config)?.exit_code().into()),
        Command::Ab(config) => return Ok(commands::ab(config)?.exit_code().into()),
        Command::Serve(config) => commands::serve(config)?,
        Command::Verify(config) => return Ok(commands::verify(config)?.exit_code().into()),
        Command::Timerlat(config) => commands::timerlat(config)?,
        Command::Osnoise(config) => commands::osnoise(config)?,
        Command::Launch(launch) => {
            commands::launch(launch)?;
            return Ok(ExitCode::FAILURE);
        }
        Command::CaptureProcess(config) => {
            commands::capture_process(config)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::TimerlatThread(thread) => {
            commands::timerlat_thread(thread)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::HistTrigger(config) => {
            commands::hist_trigger(config)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Events(config) => {
            commands::events(config)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Doctor(output) => {
            return Ok(if commands::doctor(output)? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
    };
    Ok(match stop {
        StopReason::Threshold => ExitCode::from(3),
        StopReason::CommandEnded(code) => ExitCode::from(code),
        StopReason::Done | StopReason::Signalled | StopReason::NoReader => ExitCode::SUCCESS,
    })
}

/// Log messages go to standard error: warnings always, more with `-v`, everything with RUST_LOG.
fn log(verbosity: u8) {
    let level = match verbosity {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let style = if io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() { "always" } else { "never" };
    let settings = env_logger::Env::default().default_filter_or(level).default_write_style_or(style);
    let to = env_logger::Target::Pipe(Box::new(StatusWriter));
    env_logger::Builder::from_env(settings).target(to).format_timestamp_micros().init();
}
