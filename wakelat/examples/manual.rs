//! Writes the manual pages and the shell completions, as `cargo xtask dist` packages them, into two directories:
//! `manual MAN_DIRECTORY COMPLETIONS_DIRECTORY`.

use std::{
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::Path,
};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use wakelat::cli;

fn main() -> io::Result<()> {
    let directories: Vec<OsString> = env::args_os().skip(1).collect();
    let [pages, completions] = &directories[..] else {
        return Err(io::Error::other("two directories are needed: for manual pages and for completions"));
    };
    for directory in [pages, completions] {
        fs::create_dir_all(directory)?;
    }
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut cli::command(), "wakelat", completions)?;
    }
    let mut command = cli::command();
    command.build();
    write_pages(command, "wakelat", pages.as_ref())
}

/// Writes the page of a command and those of its subcommands.
fn write_pages(command: Command, name: &str, directory: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        if subcommand.get_name() != "help" {
            write_pages(subcommand.clone(), &format!("{name}-{}", subcommand.get_name()), directory)?;
        }
    }
    fs::write(directory.join(format!("{name}.1")), page(command, name)?)
}

/// The page of a command, with its examples, exit codes and notes last.
fn page(command: Command, name: &str) -> io::Result<Vec<u8>> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut notes = Vec::new();
    // Headings are in capitals, which changes units: text in parentheses becomes a note.
    let command = command.after_help(None::<&str>).mut_args(|arg| {
        let Some((heading, note)) = arg.get_help_heading().and_then(|heading| heading.split_once(" (")) else {
            return arg;
        };
        let (heading, note) = (heading.to_owned(), format!("{heading}: {}.", note.trim_end_matches(')')));
        if !notes.contains(&note) {
            notes.push(note);
        }
        // clap takes headings for the whole run of the program.
        arg.help_heading(&*heading.leak())
    });
    let mut page = Vec::new();
    Man::new(command).title(name).render(&mut page)?;
    page.write_all(sections(&after).as_bytes())?;
    if !notes.is_empty() {
        let notes: Vec<String> = notes.iter().map(|note| roff(note)).collect();
        write!(page, ".SH NOTES\n{}\n", notes.join("\n.PP\n"))?;
    }
    Ok(page)
}

/// The sections of the text after a command's flags: each begins with a line that ends in a colon, and keeps its
/// lines.
fn sections(text: &str) -> String {
    let mut page = String::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match line.strip_suffix(':').filter(|heading| !heading.starts_with(' ')) {
            Some(heading) => _ = write!(page, ".fi\n.SH {}\n.nf\n", roff(&heading.to_uppercase())),
            None => _ = writeln!(page, "{}", roff(line.trim_start())),
        }
    }
    page.push_str(".fi\n");
    page
}

/// A line of text as troff reads it.
fn roff(line: &str) -> String {
    let escaped = line.replace('\\', "\\\\").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_heading_begins_a_section_that_keeps_its_lines() {
        let text = "Examples:\n  wakelat hist -d 10s   waits\n\nExit codes:\n  0  success\n";
        let expected =
            ".fi\n.SH EXAMPLES\n.nf\nwakelat hist \\-d 10s   waits\n.fi\n.SH EXIT CODES\n.nf\n0  success\n.fi\n";
        assert_eq!(sections(text), expected);
    }

    #[test]
    fn a_line_that_begins_like_a_request_is_text() {
        assert_eq!(roff(".so /etc/passwd"), "\\&.so /etc/passwd");
        assert_eq!(roff("'*' \\n"), "\\&'*' \\\\n");
    }

    #[test]
    fn a_heading_has_no_units_in_capitals() {
        let hist = cli::command().find_subcommand("hist").expect("a command").clone();
        let page = String::from_utf8(page(hist, "wakelat-hist").expect("a page")).expect("text");
        assert!(page.contains("\n.SH TIME\n") && page.contains("\n.SH NOTES\n"), "{page}");
    }
}
