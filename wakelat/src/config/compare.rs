//! Comparisons: what is compared, what decides, and where the result goes.

use std::{ffi::OsString, path::PathBuf};

use super::{Config, ConfigError, OutputConfig, duration};
use wakelat_core::{
    aggregate::percentile_rank::Percentile,
    compare::{
        criteria::{Criteria, Limit},
        metric::ComparedMetric,
    },
};

/// How two arms are compared, and where the result goes.
#[derive(Clone, Debug)]
pub struct CompareConfig {
    /// The view of a recording, without its input.
    pub view: Config,
    /// The flags that select or group waits, as far as they were given: a saved report has no single waits for them.
    pub selected_by: Vec<&'static str>,
    /// What decides.
    pub criteria: Criteria,
    /// What an inconclusive comparison counts as.
    pub inconclusive: InconclusiveAs,
    /// The format of the result.
    pub format: CompareFormat,
    /// Where the result is written, and in which style.
    pub output: OutputConfig,
    /// The file for JUnit XML, if requested.
    pub junit: Option<PathBuf>,
    /// The file in the Bencher Metric Format, if requested.
    pub bmf: Option<PathBuf>,
    /// The file that the result is also written to as HTML, if requested.
    pub report: Option<PathBuf>,
}

/// Two arms of saved runs.
#[derive(Clone, Debug)]
pub struct DiffConfig {
    /// The files of the base.
    pub base: Vec<PathBuf>,
    /// The files of the new arm.
    pub new: Vec<PathBuf>,
    /// How they are compared.
    pub compare: CompareConfig,
}

/// Two commands whose runs are recorded alternately.
#[derive(Clone, Debug)]
pub struct AbConfig {
    /// The commands of base and new.
    pub commands: [Vec<OsString>; 2],
    /// The shell command before each run of base and new, if there is one.
    pub setups: [Option<String>; 2],
    /// The shell command after each run, if there is one.
    pub cleanup: Option<String>,
    /// Number of runs per arm.
    pub runs: usize,
    /// The directory of the recordings.
    pub directory: PathBuf,
    /// How they are compared.
    pub compare: CompareConfig,
}

/// What an inconclusive comparison counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InconclusiveAs {
    /// Itself, with an exit code of its own.
    #[default]
    Itself,
    /// Not worse.
    Pass,
    /// Worse.
    Fail,
}

/// The format of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompareFormat {
    /// Text for people.
    #[default]
    Text,
    /// JSON.
    Json,
    /// Markdown.
    Markdown,
}

/// A margin: of one metric, or of all percentiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    metric: Option<ComparedMetric>,
    share: f64,
}

/// Parses a margin such as `5%` or `p99=10%`.
///
/// # Errors
/// If it is neither, in words.
pub fn margin(text: &str) -> Result<Margin, String> {
    let (metric, share) = match text.split_once('=') {
        Some((metric, share)) => (Some(metric), share),
        None => (None, text),
    };
    let refused = || format!("`{text}` is not accepted; expected a margin such as `5%`, `p99=10%` or `wait=20%`");
    let metric = metric.map(|name| ratio(name.trim()).ok_or_else(refused)).transpose()?;
    let share = share.trim().strip_suffix('%').and_then(|percent| percent.trim_end().parse::<f64>().ok());
    let share = share.filter(|percent| (0.0..=10_000.0).contains(percent)).ok_or_else(refused)? / 100.0;
    Ok(Margin { metric, share })
}

/// Parses a limit such as `p99<2ms` or `above(10ms)<0.1%`.
///
/// # Errors
/// If it is not one, in words.
pub fn limit(text: &str) -> Result<Limit, String> {
    let refused = |why: &str| {
        let expected = "expected a limit such as `p99<2ms`, `wait<10ms` (per second) or `above(10ms)<0.1%`";
        format!("`{text}` is not accepted{why}; {expected}")
    };
    let (metric, bound) = text.split_once('<').ok_or_else(|| refused(""))?;
    let (metric, bound) = (metric.trim(), bound.trim());
    if let Some(length) = metric.strip_prefix("above(").and_then(|rest| rest.strip_suffix(')')) {
        let ns = duration::with_unit(length.trim()).map_err(|why| refused(&format!(": {why}")))?;
        let percent = bound.strip_suffix('%').and_then(|percent| percent.trim_end().parse::<f64>().ok());
        let percent = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0).ok_or_else(|| refused(""))?;
        return Ok(Limit { metric: ComparedMetric::Above(ns), bound: percent / 100.0 });
    }
    let metric = ratio(metric).ok_or_else(|| refused(""))?;
    let ns = duration::with_unit(bound).map_err(|why| refused(&format!(": {why}")))?;
    Ok(Limit { metric, bound: ns as f64 })
}

/// A percentile such as `p99.9`, or `wait`.
fn ratio(name: &str) -> Option<ComparedMetric> {
    if name == "wait" {
        return Some(ComparedMetric::WaitRate);
    }
    let per_mille = name.strip_prefix('p')?.parse::<f64>().ok()? * 10.0;
    let is_known = per_mille > 0.0 && per_mille < 1000.0 && (per_mille - per_mille.round()).abs() < 1e-6;
    is_known.then(|| ComparedMetric::Percentile(Percentile::per_mille(per_mille.round() as u16)))
}

/// The criteria of these margins and limits: without margins, only limits decide.
pub(crate) fn criteria(margins: &[Margin], limits: &[Limit]) -> Criteria {
    let default = Criteria::default();
    let general = margins.iter().rev().find(|margin| margin.metric.is_none()).map(|margin| margin.share);
    let own = margins.iter().filter_map(|margin| Some((margin.metric?, margin.share))).collect();
    let needs_none = !limits.is_empty() && general.is_none();
    Criteria {
        margin: if needs_none { None } else { general.or(default.margin) },
        margins: own,
        limits: limits.to_vec(),
        ..default
    }
}

/// Splits the words after `--` at `---` into the commands of both arms.
///
/// # Errors
/// If there is not one `---`, or a command is missing.
pub(crate) fn commands(words: &[OsString]) -> Result<[Vec<OsString>; 2], ConfigError> {
    let parts: Vec<&[OsString]> = words.split(|word| word == "---").collect();
    match parts[..] {
        [base, new] if !base.is_empty() && !new.is_empty() => Ok([base.to_vec(), new.to_vec()]),
        _ => {
            let why = "expected two commands: `wakelat ab -- COMMAND_A --- COMMAND_B`";
            Err(ConfigError::Usage(why.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_of_one_metric_or_of_all_percentiles() {
        let of = |texts: &[&str], limits: &[&str]| {
            let margins: Vec<Margin> = texts.iter().map(|text| margin(text).unwrap()).collect();
            let limits: Vec<Limit> = limits.iter().map(|text| limit(text).unwrap()).collect();
            let criteria = criteria(&margins, &limits);
            [
                ComparedMetric::Percentile(Percentile::P50),
                ComparedMetric::Percentile(Percentile::P99),
                ComparedMetric::WaitRate,
            ]
            .map(|metric| criteria.margin_of(metric))
        };
        assert_eq!(of(&[], &[]), [Some(0.05), Some(0.05), None]);
        assert_eq!(of(&["10%", "p99=20 %"], &[]), [Some(0.1), Some(0.2), None]);
        assert_eq!(of(&["wait=1%"], &[]), [Some(0.05), Some(0.05), Some(0.01)]);
        assert_eq!(of(&[], &["p99<2ms"]), [None, None, None]);
        assert_eq!(of(&["p99=0%"], &["p99<2ms"]), [None, Some(0.0), None]);
        for wrong in ["5", "p=5%", "max=5%", "p100=1%", "-1%", "p99=", "above(1ms)=1%"] {
            assert!(margin(wrong).unwrap_err().contains("expected a margin"), "{wrong}");
        }
    }

    #[test]
    fn a_limit_has_the_unit_of_its_metric() {
        let of = |text: &str| limit(text).map(|limit| (limit.metric.name(), limit.bound));
        assert_eq!(of("p99<2ms"), Ok(("p99".to_owned(), 2e6)));
        assert_eq!(of("p99.9 < 1s"), Ok(("p99.9".to_owned(), 1e9)));
        assert_eq!(of("above(10ms)<0.1%"), Ok(("above(10ms)".to_owned(), 0.001)));
        for wrong in ["p99", "p99<2", "p99>2ms", "above(10ms)<2ms", "above(10)<1%", "max<1s", "above(1ms)<0%"] {
            assert!(of(wrong).unwrap_err().contains("expected a limit"), "{wrong}");
        }
    }

    #[test]
    fn three_dashes_separate_the_commands() {
        let of = |line: &str| commands(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("a -x --- b -- c").unwrap().map(|words| words.len()), [2, 3]);
        for wrong in ["", "a", "a ---", "--- b", "a --- b --- c"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
