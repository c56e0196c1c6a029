//! Rewrites clap's errors in the style of all other errors.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// One line: what is wrong, and what is accepted. `command` is the command given, if any.
pub(super) fn text(error: &clap::Error, command: Option<&str>) -> String {
    let typed = strings(error, ContextKind::InvalidArg).join("`, `");
    let argument = name(&typed);
    let value = strings(error, ContextKind::InvalidValue).join(" ");
    let accepted = strings(error, ContextKind::ValidValue);
    let see = see_help(error, command);
    match error.kind() {
        ErrorKind::InvalidValue if value.is_empty() => match accepted.as_slice() {
            [] => format!("`{typed}` needs a value; {see}"),
            accepted => format!("`{typed}` needs a value; expected {}", one_of(accepted)),
        },
        ErrorKind::InvalidValue => format!("`{argument}`: unknown value `{value}`; expected {}", one_of(&accepted)),
        // The parsers of `config` name the value themselves.
        ErrorKind::ValueValidation => match error.source() {
            Some(source) => format!("`{argument}`: {source}"),
            None => format!("`{argument}`: invalid value `{value}`; {see}"),
        },
        ErrorKind::UnknownArgument => match strings(error, ContextKind::SuggestedArg).first() {
            Some(similar) => format!("unknown argument `{argument}`; did you mean `{similar}`?"),
            None => format!("unknown argument `{argument}`; {see}"),
        },
        ErrorKind::InvalidSubcommand => {
            let verb = strings(error, ContextKind::InvalidSubcommand).join(" ");
            // The most similar one is last.
            let similar = strings(error, ContextKind::SuggestedSubcommand);
            match similar.iter().rfind(|similar| !is_hidden(similar)) {
                Some(similar) => format!("unknown command `{verb}`; did you mean `{similar}`?"),
                None => format!("unknown command `{verb}`; {see}"),
            }
        }
        ErrorKind::ArgumentConflict => {
            let prior = strings(error, ContextKind::PriorArg).join("`, `");
            if prior.is_empty() || prior == typed {
                format!("`{argument}` is given more than once; give it once")
            } else {
                format!("`{argument}` and `{}` cannot be used together; give only one of them", name(&prior))
            }
        }
        ErrorKind::MissingRequiredArgument => format!("missing `{typed}`; {see}"),
        ErrorKind::TooManyValues => format!("`{argument}` takes no value; leave out `{value}`"),
        ErrorKind::InvalidUtf8 => format!("an argument is not valid UTF-8; {see}"),
        _ => error.kind().as_str().map_or_else(|| error.to_string(), |text| format!("{text}; {see}")),
    }
}

/// The flag or positional argument without its value: `--cpus <LIST>` is `--cpus`, `--stacks[=<LIST>]`
/// is `--stacks`, `[COUNT]` is `COUNT`.
fn name(typed: &str) -> &str {
    let value = typed.find(" <").or_else(|| typed.find("[="));
    value.map_or(typed, |at| &typed[..at]).trim_matches(['[', ']'])
}

/// Whether this is a command that only wakelat itself runs.
fn is_hidden(command: &str) -> bool {
    super::command().find_subcommand(command).is_some_and(clap::Command::is_hide_set)
}

fn strings(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// `a`, `b` or `c`.
fn one_of(words: &[String]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "something else".to_owned(),
    }
}

/// Refers to the help of the command. The usage line that comes with most errors begins with its name;
/// for the others, it is the command given.
fn see_help(error: &clap::Error, typed: Option<&str>) -> String {
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let command: Vec<_> = usage
        .trim_start_matches("Usage:")
        .split_whitespace()
        .take_while(|word| word.starts_with(|first: char| first.is_ascii_alphabetic()))
        .collect();
    match (command.is_empty(), typed) {
        (false, _) => format!("see `{} --help`", command.join(" ")),
        (true, Some(typed)) => format!("see `wakelat {typed} --help`"),
        (true, None) => "see `wakelat --help`".to_owned(),
    }
}
