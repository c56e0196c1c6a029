//! Reads a run from a file: a recording, the text of another tool's trace, or reports of `hist --json`.

use std::{fs, io::Read as _, path::Path};

use anyhow::{Context as _, Error, Result};

use super::{super::measurement::Source, run_view::RunView};
use crate::{
    config::{CompareConfig, ConfigError, RECORDED_INTERVAL_NS, RecordedInput},
    session::{open_input, replay},
};
use wakelat_core::{
    compare::{run::ComparedRun, saved_report},
    html_report::HtmlSource,
    recording::Kept,
};

/// Reads the run in the file at `path`, and where its waits come from.
///
/// # Errors
/// If it cannot be read, or does not have what `config` requests.
pub fn read(path: &Path, config: &CompareConfig) -> Result<(ComparedRun, HtmlSource)> {
    let name = path.display().to_string();
    if fs::metadata(path).is_ok_and(|file| !file.is_file()) {
        return Err(ConfigError::Usage(format!(
            "`{name}` is not a regular file, which a run must be: it is read twice"
        ))
        .into());
    }
    if is_json(path).with_context(|| replay::unreadable(path))? {
        if let Some(flag) = config.selected_by.first() {
            let why =
                format!("{name} is a saved report, whose groups are fixed; leave out the flag, or use a recording");
            return Err(ConfigError::usage(&format!("--{flag}"), why).into());
        }
        let mut text = String::new();
        open_input::open(path)
            .and_then(|mut file| file.read_to_string(&mut text))
            .with_context(|| replay::unreadable(path))?;
        let run = saved_report::run(&name, &text).map_err(Error::msg).with_context(|| replay::unreadable(path))?;
        let source = HtmlSource::of_report(name, &run.conditions.kernel);
        return Ok((run, source));
    }
    let input = config.view.input.clone().unwrap_or_default();
    let mut view = config.view.clone();
    view.input = Some(RecordedInput { paths: vec![path.to_owned()], ..input });
    let (source, mut view) = Source::open(&view).with_context(|| name.clone())?;
    let header = (*source.headers().first().context("a run is read from a file")?).clone();
    view.window.interval_ns = Some(match header.kept {
        Kept::Histograms { interval_ns, .. } => interval_ns.max(RECORDED_INTERVAL_NS),
        Kept::Events | Kept::Waits => RECORDED_INTERVAL_NS,
    });
    let of_header = HtmlSource::new(Some(name.clone()), &header);
    let mut run = RunView::new(name, &header, &view);
    source.show(&view, &mut run)?;
    Ok((run.into_run(), of_header))
}

/// Whether a file begins as JSON does.
fn is_json(path: &Path) -> std::io::Result<bool> {
    let mut first = Vec::new();
    open_input::open(path)?.take(64).read_to_end(&mut first)?;
    Ok(first.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{'))
}
