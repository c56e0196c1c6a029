//! Opens the source of histograms: a file, standard input, or an event of this kernel.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::{
    config::{ConfigError, HistogramSource},
    status::status,
};
use wakelat_core::render::units;
use wakelat_tracefs::hist_trigger::TriggerHistogram;
use wakelat_tracefs::hist_trigger::parse::{Completeness, HistogramReader, SkippedLines};
use wakelat_tracefs::{TracefsError, TracefsMount};

/// Writes the histograms one by one, with `separator` between them, so that those before an error are not lost.
pub(super) fn each(
    source: &HistogramSource,
    separator: &str,
    out: &mut dyn Write,
    text: impl Fn(&TriggerHistogram) -> Result<String>,
) -> Result<()> {
    let (name, input) = open(source)?;
    let mut histograms =
        HistogramReader::new(input, if source.excerpt { Completeness::Excerpt } else { Completeness::Whole });
    let mut any = false;
    for histogram in &mut histograms {
        let text = text(&histogram.with_context(|| name.clone())?)?;
        if std::mem::replace(&mut any, true) {
            out.write_all(separator.as_bytes())?;
        }
        out.write_all(text.as_bytes())?;
    }
    match histograms.skipped() {
        SkippedLines { first: Some((line, found)), .. } if !any => {
            bail!("{name} does not contain hist trigger output; line {line} is `{found}`, expected `# event histogram`")
        }
        _ if !any => {
            bail!("{name} has no hist trigger; run `wakelat hist-trigger print` for commands that set one up")
        }
        SkippedLines { lines, first: Some((line, found)) } => {
            let skipped = units::counted(*lines, "line");
            status(format_args!(
                "skipped {skipped} of {name} without hist trigger output; the first is line {line}: `{found}`"
            ));
        }
        SkippedLines { first: None, .. } => {}
    }
    Ok(())
}

fn open(source: &HistogramSource) -> Result<(String, Box<dyn BufRead>)> {
    let HistogramSource { name: source, instance, .. } = source;
    if instance.is_some() && event_of(source).is_none() {
        let why = format!("`{source}` is not an event; expected one of the instance, such as `sched:sched_switch`");
        return Err(ConfigError::usage("--instance", why).into());
    }
    if source == "-" {
        return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
    }
    let name = format!("`{source}`");
    let event = event_of(source).filter(|_| instance.is_some() || !Path::new(source).exists());
    let Some(event) = event else {
        let file = File::open(source).with_context(|| name.clone())?;
        if file.metadata()?.is_dir() {
            return Err(ConfigError::usage("FILE", format!("{name} is a directory; expected a file or `-`")).into());
        }
        return Ok((name, Box::new(BufReader::new(file))));
    };
    let tracefs = TracefsMount::mounted()?;
    let root = tracefs.instance(instance.as_deref())?;
    let directory = root.join("events").join(event);
    if !directory.is_dir() {
        return Err(TracefsError::NoEvent(source.replacen('/', ":", 1)).into());
    }
    let path = directory.join("hist");
    if !path.exists() {
        return Err(TracefsError::NoHistTriggers.into());
    }
    let file = File::open(&path).with_context(|| format!("`{}`", path.display()))?;
    Ok((name, Box::new(BufReader::new(file))))
}

/// The path below `events` of `sched:sched_switch` or `sched/sched_switch`; none if the text is not an
/// event's name.
fn event_of(text: &str) -> Option<String> {
    let (system, event) = text.split_once([':', '/'])?;
    let name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    (name(system) && name(event)).then(|| format!("{system}/{event}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_event_is_in_an_instance() {
        for name in ["-", "./saved.hist"] {
            let instance = Some("mine".to_owned());
            let source = HistogramSource { name: name.to_owned(), instance, excerpt: false };
            let error = open(&source).map(drop).unwrap_err().to_string();
            assert!(error.contains("is not an event; expected one of the instance"), "{error}");
        }
    }

    #[test]
    fn paths_are_not_taken_for_event_names() {
        assert_eq!(event_of("sched:sched_switch").as_deref(), Some("sched/sched_switch"));
        assert_eq!(event_of("sched/sched_switch").as_deref(), Some("sched/sched_switch"));
        for path in ["./hist", "/sys/x", "hist", "a/b/c", "../x", "a:", ":b", "a/..", "a b:c"] {
            assert_eq!(event_of(path), None, "{path}");
        }
    }
}
