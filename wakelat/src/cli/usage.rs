//! What clap has to complain of, in the words in which everything else complains.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// One line: what was wrong, what is accepted. `command` is the command that was typed, where there is one.
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
        ErrorKind::InvalidValue => format!("`{argument}`: `{value}` is not known; expected {}", one_of(&accepted)),
        // The parsers of `config` name the value themselves.
        ErrorKind::ValueValidation => match error.source() {
            Some(source) => format!("`{argument}`: {source}"),
            None => format!("`{argument}`: `{value}` is not accepted; {see}"),
        },
        ErrorKind::UnknownArgument => match strings(error, ContextKind::SuggestedArg).first() {
            Some(similar) => format!("unknown argument `{argument}`; did you mean `{similar}`?"),
            None => format!("unknown argument `{argument}`; {see}"),
        },
        ErrorKind::InvalidSubcommand => {
            let verb = strings(error, ContextKind::InvalidSubcommand).join(" ");
            match strings(error, ContextKind::SuggestedSubcommand).first() {
                Some(similar) => format!("unknown command `{verb}`; did you mean `{similar}`?"),
                None => format!("unknown command `{verb}`; {see}"),
            }
        }
        ErrorKind::ArgumentConflict => {
            let prior = strings(error, ContextKind::PriorArg).join("`, `");
            if prior.is_empty() || prior == typed {
                format!("`{argument}` is given twice; give it once")
            } else {
                format!("`{argument}` and `{}` exclude one another; give one of them", name(&prior))
            }
        }
        ErrorKind::MissingRequiredArgument => format!("`{typed}` is missing; {see}"),
        ErrorKind::TooManyValues => format!("`{argument}` takes no value, but was given `{value}`"),
        ErrorKind::InvalidUtf8 => format!("an argument is not UTF-8; {see}"),
        _ => error.kind().as_str().map_or_else(|| error.to_string(), |text| format!("{text}; {see}")),
    }
}

/// The flag or positional without its value: `--cpus <LIST>` is `--cpus`, `--stacks[=<LIST>]` is `--stacks`, `[COUNT]` is
/// `COUNT`.
fn name(typed: &str) -> &str {
    let value = typed.find(" <").or_else(|| typed.find("[="));
    value.map_or(typed, |at| &typed[..at]).trim_matches(['[', ']'])
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

/// Where to read on: the command's own help. Its name begins the usage line that comes with most errors; of the others, it is
/// the one that was typed.
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
