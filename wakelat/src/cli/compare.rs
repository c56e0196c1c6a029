//! The flags of comparisons: which waits, what decides, and where the result goes.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::PossibleValue};

use super::{CliError, FilterFlags, filter::FromEvent, output::StyleFlags};
use crate::config::{
    CompareConfig, CompareFormat, Config, ConfigError, InconclusiveAs, Margin, OutputConfig, RecordedInput, criteria,
    keywords, limit, margin, number,
};
use wakelat_core::{aggregate::key::Key, compare::criteria::Limit};

/// How two arms are compared.
#[derive(Clone, Debug, Args)]
pub struct CompareFlags {
    /// How much larger a percentile may be, such as 5% for all, p99=10% for one, or wait=20% for the waiting time; repeatable [default: 5%, or none if --limit is given]
    #[arg(long, value_name = "MARGIN", value_parser = margin, allow_hyphen_values = true, help_heading = "Verdict")]
    pub margin: Vec<Margin>,

    /// Limit for the new runs, such as 'p99<2ms' or 'above(10ms)<0.1%'; repeatable
    #[arg(long, value_name = "LIMIT", value_parser = limit, help_heading = "Verdict")]
    pub limit: Vec<Limit>,

    /// Exit code of an inconclusive comparison: pass (0) or fail (3) [default: 5]
    #[arg(long, value_name = "AS", hide_possible_values = true, help_heading = "Verdict")]
    pub inconclusive: Option<InconclusiveAs>,

    /// Give a verdict even with one run per arm; it holds only for these two runs
    #[arg(long, help_heading = "Verdict")]
    pub accept_single_runs: bool,

    /// Seed of the random permutations and bootstrap blocks
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Verdict")]
    pub seed: u64,

    /// Compare groups by comm, cgroup, container, cpu, prio, policy or class; comma-separated
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = keywords::key, help_heading = "Grouping")]
    pub by: Vec<Key>,

    /// Maximum number of groups that are compared: those with the most waiting time
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::groups, allow_hyphen_values = true, help_heading = "Grouping")]
    pub max_groups: usize,

    /// Which waits.
    #[command(flatten)]
    pub filter: FilterFlags,

    /// Print JSON
    #[arg(long, conflicts_with = "markdown", help_heading = "Output")]
    pub json: bool,

    /// Print Markdown, for a comment on a pull request
    #[arg(long, help_heading = "Output")]
    pub markdown: bool,

    /// Also write JUnit XML: worse is a failure, inconclusive is skipped
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub junit: Option<PathBuf>,

    /// Also write the new arm's percentiles in the Bencher Metric Format
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub bmf: Option<PathBuf>,

    /// Also write the result as one HTML file, which opens in any browser
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub report: Option<PathBuf>,

    /// Print only the result
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// The style.
    #[command(flatten)]
    pub style: StyleFlags,
}

impl ValueEnum for InconclusiveAs {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Pass, Self::Fail]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Itself => None,
            Self::Pass => Some("pass".into()),
            Self::Fail => Some("fail".into()),
        }
    }
}

/// The flags that select or group waits.
const SELECTING: [&str; 9] = ["by", "cgroup", "class", "comm", "cpus", "pid", "policy", "prio", "tid"];

/// Changes the filter: waits of all classes, from `sched_waking` on, as `record` records them.
pub(super) fn with_defaults(command: clap::Command) -> clap::Command {
    super::why::with_all_waits(command)
        .mut_arg("include_self", |arg| arg.hide(true))
        .mut_arg("tree", |arg| arg.hide(true))
}

impl CompareFlags {
    /// The configuration of a comparison, whose result goes to `path`. `given`: whether a flag was given, and has not only
    /// its default.
    pub(super) fn config(
        &self,
        path: Option<PathBuf>,
        given: impl Fn(&str) -> bool,
    ) -> Result<CompareConfig, CliError> {
        for key in &self.by {
            if !matches!(
                key,
                Key::Comm | Key::Cgroup | Key::Container | Key::Cpu | Key::Prio | Key::Policy | Key::Class
            ) {
                let why = format!(
                    "`{}` does not name the same tasks in two runs; expected names, such as `comm`",
                    key.name()
                );
                return Err(ConfigError::usage("--by", why).into());
            }
        }
        for (flag, is_given) in [("--include-self", self.filter.include_self), ("--tree", self.filter.tree)] {
            if is_given {
                return Err(ConfigError::usage(flag, "only applies to a measurement; leave it out").into());
            }
        }
        let output = OutputConfig {
            path,
            quiet: self.quiet,
            ascii: self.style.ascii,
            colour: self.style.color,
            ..Default::default()
        };
        let files = [("--junit", &self.junit), ("--bmf", &self.bmf), ("--report", &self.report)];
        output.check_all_beside([], files.map(|(flag, file)| (flag, file.as_deref())))?;
        let mut filter = self.filter.clone();
        if filter.from != FromEvent::Queued && !given("from") {
            super::why::adjust_from(&mut filter);
        }
        let (classes, merged) = filter.classes()?;
        let input = RecordedInput {
            cgroups: filter.cgroup.iter().map(|path| RecordedInput::cgroup(path)).collect(),
            has_given_classes: given("class"),
            has_given_from: given("from"),
            ..RecordedInput::default()
        };
        let mut by = self.by.clone();
        by.dedup();
        let mut view =
            Config::recorded(input, filter.recorded_config()?, OutputConfig { quiet: true, ..Default::default() });
        (view.classes, view.merged, view.from, view.by) = (classes, merged, filter.from(classes)?, by);
        let mut criteria = criteria(&self.margin, &self.limit);
        criteria.accepts_single_runs = self.accept_single_runs;
        criteria.max_groups = self.max_groups;
        criteria.seed = self.seed;
        Ok(CompareConfig {
            view,
            selected_by: SELECTING.into_iter().filter(|flag| given(flag)).collect(),
            criteria,
            inconclusive: self.inconclusive.unwrap_or_default(),
            format: match (self.json, self.markdown) {
                (true, _) => CompareFormat::Json,
                (false, true) => CompareFormat::Markdown,
                (false, false) => CompareFormat::Text,
            },
            output,
            junit: self.junit.clone(),
            bmf: self.bmf.clone(),
            report: self.report.clone(),
        })
    }
}
