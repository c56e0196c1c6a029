//! Flags as typed. Their syntax is judged here, by the parsers of [`crate::config`]; whether they make sense on this
//! machine is judged there.

mod common;
mod doctor;
mod filter;
mod grouping;
mod hist;
mod output;
mod parts;
mod record;
mod refusal;
mod resources;
mod stacks;
mod threshold;
mod timerlat;
mod top;
mod trace;
mod tracer;
mod usage;
mod verify;
mod why;
mod window;

#[cfg(test)]
mod tests;

use std::ffi::OsString;

use anyhow::Result;
use clap::{ArgAction, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{config::Command, events::EventsFlags, hist_trigger::cli::HistTriggerFlags, kernel::Machine};

pub use common::CommonFlags;
pub use doctor::DoctorFlags;
pub use filter::{ClassName, FilterFlags, FromEvent, TaskFlags};
pub use grouping::GroupingFlags;
pub use output::{OutputFlags, RenderFlags};
pub use parts::CollectChoice;
pub use refusal::CliError;
pub use resources::ResourceFlags;
pub use threshold::ThresholdFlags;
pub use timerlat::{HistogramFlags, NoiseViewName, OsnoiseFlags, SavedFlags, TimerlatFlags, ViewName};
pub use tracer::TracerFlags;
pub use verify::VerifyFlags;
pub use window::WindowFlags;

const EXAMPLES: &str = "\
Examples:
  wakelat hist -d 10s                     how long tasks wait, over ten seconds
  wakelat hist 1 10 --comm 'nginx*' -P    nginx by process, ten charts of a second
  wakelat top --sort p99                  who waits longest, live
  wakelat trace --threshold 1ms           every wait of a millisecond or more
  wakelat why -d 10s                      where that time went, and who was in the way
  wakelat record -d 1m -o file.wakelat    all that `why` is made of, for later
  wakelat verify                          the same by the kernel's own histograms
  wakelat timerlat --from trace.txt       why a real-time thread was late
  wakelat doctor                          what this kernel and this user can do

Exit codes:
  0  done
  1  failed: a missing privilege or kernel feature, a file, a process
  2  wrong usage: nothing was started
  3  stopped by --on-threshold stop; the numbers of verify do not agree
  4  verify could not compare: hist triggers cannot be used";

/// How long a Linux task waits between being woken and running, why, and whether the number can be trusted
#[derive(Debug, Parser)]
#[command(name = "wakelat", version, after_help = EXAMPLES, arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
struct Flags {
    #[command(subcommand)]
    verb: Verb,

    /// Say more on standard error; twice for every step and the verifier's log
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Output", display_order = 1000)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Hist(hist::HistFlags),
    Top(top::TopFlags),
    Trace(trace::TraceFlags),
    Why(why::WhyFlags),
    Record(record::RecordFlags),
    Verify(verify::VerifyFlags),
    Timerlat(TimerlatFlags),
    Osnoise(OsnoiseFlags),
    #[command(hide = true)]
    TimerlatThread(tracer::ThreadFlags),
    HistTrigger(HistTriggerFlags),
    Events(EventsFlags),
    Doctor(DoctorFlags),
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// What to do.
    pub command: Command,
    /// How often `-v` was given.
    pub verbosity: u8,
}

/// Reads and validates the command line, the program's name first. Starts nothing.
///
/// # Errors
/// Where there is nothing to do but to say something and to exit: help, wrong usage, a machine that cannot serve it.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, CliError> {
    parse_on(args, Machine::detect)
}

/// All flags of all commands, each with its defaults.
fn command() -> clap::Command {
    Flags::command()
        .mut_subcommand("top", top::with_defaults)
        .mut_subcommand("why", why::with_defaults)
        .mut_subcommand("record", record::with_defaults)
}

/// `wakelat help hist` is `wakelat hist --help`.
fn with_help_as_a_flag(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|arg| arg == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// Like [`parse`], for a machine that is looked at only where flags have to be judged by it.
fn parse_on(
    args: impl IntoIterator<Item = OsString>,
    machine: impl FnOnce() -> Result<Machine>,
) -> Result<Invocation, CliError> {
    let args = with_help_as_a_flag(args.into_iter().collect());
    let known = command();
    let typed = args.iter().skip(1).find_map(|arg| known.find_subcommand(arg)).map(|verb| verb.get_name().to_owned());
    let matches = known.try_get_matches_from(args).map_err(|error| CliError::of(error, typed.as_deref()))?;
    let Flags { verb, verbose } = Flags::from_arg_matches(&matches)?;
    let command = match verb {
        Verb::Hist(flags) => Command::Hist(flags.config(&machine()?)?),
        Verb::Top(flags) => {
            let table = flags.table();
            Command::Top(flags.config(&machine()?)?, table)
        }
        Verb::Trace(flags) => {
            let (config, lines) = flags.config(&machine()?)?;
            Command::Trace(config, lines)
        }
        Verb::Why(flags) => flags.command(|| Ok(machine()?))?,
        Verb::Record(flags) => {
            let parts = flags.collect();
            Command::Record(flags.config(&machine()?)?, parts)
        }
        Verb::Verify(flags) => Command::Verify(flags.config(&machine()?)?),
        Verb::Timerlat(flags) => Command::Timerlat(Box::new(flags.config(machine)?)),
        Verb::Osnoise(flags) => Command::Osnoise(Box::new(flags.config(machine)?)),
        Verb::TimerlatThread(flags) => Command::TimerlatThread(flags.into()),
        Verb::HistTrigger(flags) => Command::HistTrigger(flags),
        Verb::Events(flags) => Command::Events(flags),
        Verb::Doctor(flags) => Command::Doctor(flags),
    };
    Ok(Invocation { command, verbosity: verbose })
}
