//! Flags as given on the command line, and their conversion to settings. [`crate::config`] checks the
//! values: its parsers their syntax, and its settings whether they can be used on this machine.

mod ab;
mod capture;
mod collected_events;
mod common;
mod compare;
mod demo;
mod diff;
mod doctor;
mod dump;
mod error;
mod events;
mod export;
mod filter;
mod flight_recorder;
mod grouping;
mod hist;
mod hist_trigger;
mod input;
mod launch;
mod merge;
mod named_value;
mod osnoise_tracers;
mod output;
mod record;
mod report;
mod resources;
mod serve;
mod stacks;
mod threshold;
mod timerlat;
mod top;
mod trace;
mod usage_error;
mod verify;
mod why;
mod window;

#[cfg(test)]
mod tests;

use std::ffi::OsString;

use anyhow::Result;
use clap::{ArgAction, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, parser::ValueSource};

use crate::config::Command;
use wakelat_kernel::Machine;

use common::CommonFlags;
use filter::{ClassName, FilterFlags, FromEvent, TaskFlags};
use grouping::GroupingFlags;
use input::{InputFlags, RecordingFlags, with_input};
use output::{OutputFlags, RenderFlags};
use resources::ResourceFlags;
use threshold::ThresholdFlags;
use window::WindowFlags;

pub use error::CliError;

const EXAMPLES: &str = "\
Examples:
  wakelat                                 ten seconds of this machine, at a glance
  wakelat demo                            the same for a built-in recording, without privileges
  wakelat hist -d 10s                     wakeup latency of all tasks, over ten seconds
  wakelat hist 1 10 --comm 'nginx*' -P    a chart per nginx process, every second, ten times
  wakelat top --sort p99                  live table of tasks, worst 99th percentile first
  wakelat trace --threshold 1ms           print each wait of a millisecond or more
  wakelat why -d 10s                      what tasks waited for, and what to do about it
  wakelat why -- make                     what the tasks waited for while `make` ran
  wakelat record -d 1m -o file.wakelat    record events, for any view with -i
  wakelat report -i file.wakelat -o report.html   a page that opens in any browser
  wakelat export -i file.wakelat --to perfetto -o file.pftrace   for https://ui.perfetto.dev
  wakelat diff a-*.wakelat -- b-*.wakelat  whether waits got longer, and why; exit 3 if so
  wakelat ab -- ./old --- ./new           record two commands alternately, and compare them
  wakelat serve                           metrics of all cgroups for Prometheus, continuously
  wakelat verify                          check the figures against the kernel's hist triggers
  wakelat timerlat --from trace.txt       why a real-time thread was late
  wakelat doctor                          what works with this kernel and this user

Exit codes:
  0  success
  1  failure, such as a missing privilege, kernel feature, file or process
  2  wrong usage; nothing was started
  3  stopped by --on-threshold stop, or verify found a difference, or diff or ab found worse waits
  4  verify could not compare: no hist triggers available
  5  diff or ab is inconclusive
With -- COMMAND: the exit code of the command, or 128 + N if signal N ended it.";

/// Measure how long Linux tasks wait for a CPU, explain why, and account for every wakeup
#[derive(Debug, Parser)]
#[command(name = "wakelat", version, after_help = EXAMPLES)]
#[command(disable_help_subcommand = true)]
struct Flags {
    #[command(subcommand)]
    verb: Option<Verb>,

    /// Print more on standard error; -vv also prints every step and the verifier log
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Output", display_order = 1000)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Hist(hist::HistFlags),
    Top(top::TopFlags),
    Trace(trace::TraceFlags),
    Why(why::WhyFlags),
    Demo(demo::DemoFlags),
    Record(record::RecordFlags),
    Dump(dump::DumpFlags),
    Merge(merge::MergeFlags),
    Report(report::ReportFlags),
    Export(export::ExportFlags),
    Diff(diff::DiffFlags),
    Ab(ab::AbFlags),
    Serve(serve::ServeFlags),
    Verify(verify::VerifyFlags),
    Timerlat(timerlat::TimerlatFlags),
    Osnoise(timerlat::OsnoiseFlags),
    #[command(hide = true)]
    TimerlatThread(osnoise_tracers::ThreadFlags),
    #[command(hide = true)]
    Launch(launch::LaunchFlags),
    #[command(hide = true)]
    CaptureProcess(capture::CaptureProcessFlags),
    HistTrigger(hist_trigger::HistTriggerFlags),
    Events(events::EventsFlags),
    Doctor(doctor::DoctorFlags),
}

/// A validated command line.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The command to run.
    pub command: Command,
    /// How often `-v` was given.
    pub verbosity: u8,
}

/// Parses and validates the command line, the program's name first. Starts nothing.
///
/// # Errors
/// If the program should only print something and exit: help, wrong usage, or a machine that cannot run
/// the command.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, CliError> {
    parse_on(args, Machine::detect)
}

/// All flags of all commands, each command with its own defaults: what help, manual pages and completions are made of.
pub fn command() -> clap::Command {
    Flags::command()
        .mut_subcommand("hist", with_input)
        .mut_subcommand("top", |top| with_input(top::with_defaults(top)))
        .mut_subcommand("trace", |trace| hide(with_input(trace), &["group_memory"]))
        .mut_subcommand("why", |why| with_input(why::with_defaults(why)))
        .mut_subcommand("record", record::with_defaults)
        .mut_subcommand("export", export::with_defaults)
        .mut_subcommand("report", report::with_defaults)
        .mut_subcommand("diff", compare::with_defaults)
        .mut_subcommand("ab", compare::with_defaults)
        .mut_subcommand("osnoise", timerlat::of_osnoise)
        .mut_subcommand("verify", |verify| hide(verify, &["group_memory"]))
        // The programs of the service send no records, and have no groups but cgroups.
        .mut_subcommand("serve", |serve| hide(serve, &["ring_size", "drain_interval", "group_memory"]))
}

/// Leaves flags that have no effect on this command out of its help.
fn hide(command: clap::Command, ids: &[&'static str]) -> clap::Command {
    ids.iter().fold(command, |command, id| command.mut_arg(id, |arg| arg.hide(true)))
}

/// Turns `wakelat help hist` into `wakelat hist --help`.
fn with_help_as_a_flag(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|arg| arg == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// Like [`parse`], for a machine that is detected only if flags have to be checked against it.
fn parse_on(
    args: impl IntoIterator<Item = OsString>,
    machine: impl FnOnce() -> Result<Machine>,
) -> Result<Invocation, CliError> {
    let args = with_help_as_a_flag(args.into_iter().collect());
    let known = command();
    let typed = args.iter().skip(1).find_map(|arg| known.find_subcommand(arg)).map(|verb| verb.get_name().to_owned());
    let matches = known.try_get_matches_from(args).map_err(|error| CliError::of(error, typed.as_deref()))?;
    let Flags { verb, verbose } = Flags::from_arg_matches(&matches)?;
    let of_verb = matches.subcommand().map(|(_, of_verb)| of_verb);
    let given = |id: &str| of_verb.is_some_and(|of_verb| of_verb.value_source(id) == Some(ValueSource::CommandLine));
    let Some(verb) = verb else {
        let command = parse_on(demo::overview_of_this_machine(), machine)?.command;
        return Ok(Invocation { command: demo::as_overview(command), verbosity: verbose });
    };
    let command = match verb {
        Verb::Demo(flags) => {
            let (command_line, is_overview) = flags.command_line();
            let Invocation { command, verbosity } = parse_on(command_line, machine)?;
            let command = if is_overview { demo::as_overview(command) } else { command };
            return Ok(Invocation { command, verbosity: verbosity.max(verbose) });
        }
        Verb::Hist(flags) => {
            let (config, hist) = flags.config(given, || Ok(machine()?))?;
            Command::Hist(config, hist)
        }
        Verb::Top(flags) => {
            let table = flags.table(given);
            Command::Top(flags.config(given, || Ok(machine()?))?, table)
        }
        Verb::Trace(flags) => {
            let (config, rows) = flags.config(given, || Ok(machine()?))?;
            Command::Trace(config, rows)
        }
        Verb::Why(flags) => flags.command(given, || Ok(machine()?))?,
        Verb::Record(flags) => {
            let (config, record) = flags.config(given, &machine()?)?;
            Command::Record(config, record)
        }
        Verb::Dump(flags) => Command::Dump(flags.into()),
        Verb::Merge(flags) => flags.command()?,
        Verb::Report(flags) => flags.command(given, || Ok(machine()?))?,
        Verb::Export(flags) => flags.command(given, || Ok(machine()?))?,
        Verb::Diff(flags) => Command::Diff(Box::new(flags.config(given)?)),
        Verb::Ab(flags) => Command::Ab(Box::new(flags.config(given)?)),
        Verb::Serve(flags) => Command::Serve(Box::new(flags.config(&machine()?)?)),
        Verb::Verify(flags) => Command::Verify(flags.config(&machine()?)?),
        Verb::Timerlat(flags) => Command::Timerlat(Box::new(flags.config(machine)?)),
        Verb::Osnoise(flags) => Command::Osnoise(Box::new(flags.config(machine)?)),
        Verb::TimerlatThread(flags) => Command::TimerlatThread(flags.into()),
        Verb::Launch(flags) => Command::Launch(flags.into()),
        Verb::CaptureProcess(flags) => Command::CaptureProcess(flags.config()?),
        Verb::HistTrigger(flags) => Command::HistTrigger(flags.config()?),
        Verb::Events(flags) => Command::Events(flags.config()?),
        Verb::Doctor(flags) => Command::Doctor(flags.output()?),
    };
    Ok(Invocation { command, verbosity: verbose })
}
