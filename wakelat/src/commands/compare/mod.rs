//! `diff` and `ab`: compare the waits of two arms.

mod interleaved_runs;
mod run_view;
mod saved_run;

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::terminal_style::style;
use crate::{
    config::{AbConfig, CompareConfig, CompareFormat, DiffConfig, InconclusiveAs},
    session::output::Output,
};
use wakelat_core::{
    compare::{
        comparison::{ArmComparison, ArmVerdict, compare},
        render,
        run::ComparedRun,
    },
    html_report::{self, HtmlSource, comparison::HtmlRun},
};

/// How a comparison ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    verdict: ArmVerdict,
    inconclusive: InconclusiveAs,
}

impl Outcome {
    /// The exit code: 0 for not worse, 3 for worse, 5 for inconclusive unless that counts as one of them.
    pub fn exit_code(self) -> u8 {
        match (self.verdict, self.inconclusive) {
            (ArmVerdict::NotWorse, _) | (ArmVerdict::Inconclusive, InconclusiveAs::Pass) => 0,
            (ArmVerdict::Worse, _) | (ArmVerdict::Inconclusive, InconclusiveAs::Fail) => 3,
            (ArmVerdict::Inconclusive, InconclusiveAs::Itself) => 5,
        }
    }
}

/// `diff`: compares saved runs.
///
/// # Errors
/// If a file cannot be read, the runs cannot be compared, or the result cannot be written.
pub fn diff(config: &DiffConfig) -> Result<Outcome> {
    compare_files(&config.base, &config.new, &config.compare)
}

/// `ab`: records two commands alternately, and compares them. Ctrl-C ends the recording, and compares the runs so far.
///
/// # Errors
/// Errors of [`diff`], or if a command fails.
pub fn ab(config: &AbConfig) -> Result<Outcome> {
    let [base, new] = interleaved_runs::record(config)?;
    if base.is_empty() || new.is_empty() {
        bail!("stopped before both commands had completed a run; nothing to compare");
    }
    compare_files(&base, &new, &config.compare)
}

fn compare_files(base: &[PathBuf], new: &[PathBuf], config: &CompareConfig) -> Result<Outcome> {
    let read = |paths: &[PathBuf]| -> Result<(Vec<ComparedRun>, Vec<HtmlSource>)> {
        paths.iter().map(|path| saved_run::read(path, config)).collect()
    };
    let ((base, base_sources), (new, new_sources)) = (read(base)?, read(new)?);
    let comparison = compare(&base, &new, &config.criteria)?;
    if let Some(path) = &config.report {
        let runs = |runs: &[ComparedRun], sources: Vec<HtmlSource>| {
            runs.iter().zip(sources).map(|(run, source)| HtmlRun::new(run, source)).collect()
        };
        let runs = [runs(&base, base_sources), runs(&new, new_sources)];
        Output::open(Some(path))?.write(|out| html_report::comparison::write(&comparison, &runs, out))?;
    }
    write(&comparison, config)?;
    Ok(Outcome { verdict: comparison.verdict, inconclusive: config.inconclusive })
}

/// Writes the result in its format, and the files beside it.
fn write(comparison: &ArmComparison, config: &CompareConfig) -> Result<()> {
    let text = match config.format {
        CompareFormat::Text => render::text(comparison, &style(&config.output).0),
        CompareFormat::Json => render::json(comparison)?,
        CompareFormat::Markdown => render::markdown(comparison),
    };
    let files = [
        (config.junit.as_deref(), render::junit as fn(&ArmComparison) -> String),
        (config.bmf.as_deref(), render::bmf as fn(&ArmComparison) -> String),
    ];
    for (path, render) in files {
        if let Some(path) = path {
            Output::open(Some(path))?.write(|out| out.write_all(render(comparison).as_bytes()))?;
        }
    }
    Output::open(config.output.path.as_deref())?.write(|out| out.write_all(text.as_bytes()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verdict_has_an_exit_code() {
        use ArmVerdict::{Inconclusive, NotWorse, Worse};
        let codes =
            |inconclusive| [NotWorse, Worse, Inconclusive].map(|verdict| Outcome { verdict, inconclusive }.exit_code());
        assert_eq!(codes(InconclusiveAs::Itself), [0, 3, 5]);
        assert_eq!(codes(InconclusiveAs::Pass), [0, 3, 0]);
        assert_eq!(codes(InconclusiveAs::Fail), [0, 3, 3]);
    }
}
