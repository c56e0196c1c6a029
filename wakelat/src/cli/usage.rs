//! What clap has to complain of, in the words in which everything else complains.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// One line: what was wrong, what is accepted.
pub(super) fn text(error: &clap::Error) -> String {
    let typed = strings(error, ContextKind::InvalidArg).join("`, `");
    let argument = name(&typed);
    let value = strings(error, ContextKind::InvalidValue).join(" ");
    let accepted = strings(error, ContextKind::ValidValue);
    let see = see_help(error);
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
        ErrorKind::MissingRequiredArgument => format!("`{typed}` is missing, and something else given needs it; {see}"),
        ErrorKind::TooManyValues => format!("`{argument}` takes no value, but was given `{value}`"),
        ErrorKind::InvalidUtf8 => format!("an argument is not UTF-8; {see}"),
        _ => error.kind().as_str().map_or_else(|| error.to_string(), |text| format!("{text}; {see}")),
    }
}

/// The flag or positional without its value: `--cpus <LIST>` is `--cpus`, `[COUNT]` is `COUNT`.
fn name(typed: &str) -> &str {
    typed.split_once(" <").map_or(typed, |(name, _)| name).trim_matches(['[', ']'])
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

/// Where to read on: the command's own help, whose name begins the usage line that comes with the error.
fn see_help(error: &clap::Error) -> String {
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let command: Vec<_> = usage
        .trim_start_matches("Usage:")
        .split_whitespace()
        .take_while(|word| word.starts_with(|first: char| first.is_ascii_alphabetic()))
        .collect();
    format!("see `{} --help`", if command.is_empty() { "wakelat".to_owned() } else { command.join(" ") })
}
