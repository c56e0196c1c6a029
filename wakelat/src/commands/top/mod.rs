//! `top`: which tasks wait longest, on interactive screens or as a table.

mod frame_writer;
mod interactive;
mod last_seconds;
mod new_files;
mod page;
mod table;

use anyhow::Result;

use super::{measurement::Source, terminal_style::style};
use crate::{
    config::{Attach, Config, OutputFormat, TableConfig},
    session::{StopReason, terminal},
    status::status,
};
use wakelat_core::{recording::Kept, report::Mode};

/// `top`: shows interactive screens on a terminal, and a table otherwise.
///
/// # Errors
/// Errors of [`crate::session::run`], or if the recording cannot be read or does not have what `config` requests.
pub fn top(config: &Config, table: TableConfig) -> Result<StopReason> {
    if !has_terminal(config, table) {
        let (source, config) = Source::open(config)?;
        return table::show(source, &config, table);
    }
    let obstacle = match obstacle(config, table) {
        Some(why) => why,
        None => match Source::open(&Config { mode: Mode::Samples, ..config.clone() }) {
            Ok((source, opened)) => match lacks_events(&source, &opened) {
                None => return interactive::show(source, &opened, table),
                Some(why) => {
                    note(&opened, why);
                    // The table of a measurement is not one of samples.
                    let config = if source.is_live() { config } else { &opened };
                    return table::show(source, config, table);
                }
            },
            Err(error) => format!("{error:#}"),
        },
    };
    let (source, config) = Source::open(config)?;
    note(&config, &obstacle);
    table::show(source, &config, table)
}

fn note(config: &Config, why: &str) {
    if !config.output.quiet {
        status(format_args!("a table instead of interactive screens: {why}"));
    }
}

/// Whether interactive screens can be drawn, and are wanted.
fn has_terminal(config: &Config, table: TableConfig) -> bool {
    let is_text = config.output.format == OutputFormat::Human && config.output.path.is_none();
    is_text && !table.batch && style(&config.output).0.cursor && terminal::is_ours()
}

/// Why there are no interactive screens with these settings, if so: they need every event, and have no settings of a
/// table.
fn obstacle(config: &Config, table: TableConfig) -> Option<String> {
    if let Some(flag) = table.flag {
        return Some(format!("`{flag}` applies only to the table"));
    }
    if table.mode == Some(Mode::Aggregate) {
        return Some("`--mode aggregate` sends no events from the kernel".to_owned());
    }
    config.max_overhead_ppm.map(|_| "`--max-overhead` measures a sample of the tasks".to_owned())
}

/// Why `source` does not have every event, if so.
fn lacks_events(source: &Source, config: &Config) -> Option<&'static str> {
    match source {
        Source::Saved(_) if source.headers().iter().any(|header| header.kept != Kept::Events) => {
            Some("the recording does not keep every event")
        }
        Source::Saved(_) => None,
        Source::Live(environment) | Source::LiveRecorded(environment, _) => {
            let attach = config.resources.attach;
            match (attach, &environment.btf) {
                (Attach::Raw | Attach::Classic, _) => {
                    Some("only typed tracepoints have every event; leave out `--attach`")
                }
                (Attach::Auto | Attach::Btf, None) => {
                    Some("only typed tracepoints have every event, and this kernel has no BTF")
                }
                (Attach::Auto | Attach::Btf, Some(_)) => None,
            }
        }
    }
}
