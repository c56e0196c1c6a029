//! `wakelat hist-trigger`

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};

use super::parse::{Extent, Histograms};
use super::recipe::{Buckets, DEFAULT_SIZE, Recipe};
use super::show::{self, Unit};
use super::{Histogram, json};
use crate::cli::TaskFlags;
use crate::config::trigger_filter;
use crate::kernel::release::Release;
use crate::report::From;
use crate::sink::Style;
use crate::tracefs::{Tracefs, TracefsError};

const EXAMPLES: &str = "\
Examples:
  wakelat hist-trigger chart sched:sched_switch            the hist triggers on an event, live
  cat events/kmem/kmalloc/hist | wakelat hist-trigger show any output of the kernel's
  wakelat hist-trigger print --comm 'nginx*'               shell commands that measure without wakelat";

/// Read and show the kernel's own histograms, or print the commands that make one
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HistTriggerFlags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Debug, Subcommand)]
enum Verb {
    /// A table with all keys and values
    Show(ShowFlags),
    /// A chart of one value
    Chart(ChartFlags),
    /// A JSON document per histogram
    Json(SourceFlags),
    /// The shell commands that measure wakeup latency with no tool at all
    Print(PrintFlags),
}

/// Where the histograms come from.
#[derive(Clone, Debug, Args)]
struct SourceFlags {
    /// A file with what `cat events/…/hist` printed, - for standard input, or an event such as sched:sched_switch
    #[arg(value_name = "FILE|EVENT", default_value = "-")]
    source: String,

    /// Take the event's triggers in this tracefs instance
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// Take an excerpt too, in which the end with the totals is missing
    #[arg(long)]
    excerpt: bool,
}

#[derive(Clone, Debug, Args)]
struct ShowFlags {
    #[command(flatten)]
    source: SourceFlags,

    /// Unit of the keys that are buckets: none, ns, us
    #[arg(long, value_name = "UNIT", hide_possible_values = true)]
    unit: Option<Unit>,
}

#[derive(Clone, Debug, Args)]
struct ChartFlags {
    #[command(flatten)]
    show: ShowFlags,

    /// The value that the bars show; the hit count by default
    #[arg(long, value_name = "NAME")]
    value: Option<String>,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "Of a process that `--pid` names, the threads are measured that it has when the commands run.")]
struct PrintFlags {
    /// Where the clock starts: on the run queue (wakeup), or with the waker (waking)
    #[arg(long, value_name = "EVENT", default_value = "wakeup", value_parser = ["wakeup", "waking"], hide_possible_values = true)]
    from: String,

    /// Buckets of this width in ns instead of powers of two
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    width: Option<u64>,

    /// Room for this many threads
    #[arg(long, value_name = "ENTRIES", default_value_t = DEFAULT_SIZE, value_parser = clap::value_parser!(u32).range(128..=131_072))]
    size: u32,

    /// How long to measure
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10)]
    duration: u64,

    /// The kernel that the commands are for, such as 6.1; the running one by default
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,

    /// Which tasks, and where.
    #[command(flatten)]
    tasks: TaskFlags,
}

/// Does what was asked for.
///
/// # Errors
/// Where the input cannot be read or is not what hist triggers print; where a kernel has no hist triggers.
pub fn run(flags: &HistTriggerFlags, style: &Style, out: &mut dyn Write) -> Result<()> {
    match &flags.verb {
        Verb::Show(flags) => {
            flags.source.each(out, |histogram| Ok(show::table(histogram, flags.unit(histogram), style)))
        }
        Verb::Chart(flags) => flags.show.source.each(out, |histogram| {
            let unit = flags.show.unit(histogram);
            show::chart(histogram, flags.value.as_deref(), unit, style).with_context(|| {
                let sums: Vec<&str> = histogram
                    .value_names
                    .iter()
                    .filter(|name| histogram.column(name).is_some())
                    .map(String::as_str)
                    .collect();
                match &flags.value {
                    Some(value) => format!("no sum is called `{value}`; the histogram has `{}`", sums.join("`, `")),
                    None => "the histogram has no sum that bars could show".to_owned(),
                }
            })
        }),
        Verb::Json(flags) => flags.each(out, |histogram| Ok(format!("{}\n", json::document(histogram)))),
        Verb::Print(flags) => flags.print(out),
    }
}

impl ShowFlags {
    fn unit(&self, histogram: &Histogram) -> Unit {
        self.unit.unwrap_or_else(|| show::unit_of(&histogram.trigger.keys))
    }
}

impl SourceFlags {
    /// Writes one histogram after another, so that what comes before an error is not lost.
    fn each(&self, out: &mut dyn Write, text: impl Fn(&Histogram) -> Result<String>) -> Result<()> {
        let (name, input) = self.open()?;
        let extent = if self.excerpt { Extent::Excerpt } else { Extent::Whole };
        let mut any = false;
        for histogram in Histograms::new(input, extent) {
            let text = text(&histogram.with_context(|| name.clone())?)?;
            if std::mem::replace(&mut any, true) {
                writeln!(out)?;
            }
            out.write_all(text.as_bytes())?;
        }
        if !any {
            bail!("{name} has no hist trigger; `wakelat hist-trigger print` shows how to make one");
        }
        Ok(())
    }

    fn open(&self) -> Result<(String, Box<dyn BufRead>)> {
        let source = self.source.as_str();
        if source == "-" {
            return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
        }
        let name = format!("`{source}`");
        let event = event_of(source).filter(|_| self.instance.is_some() || !Path::new(source).exists());
        let Some(event) = event else {
            let file = File::open(source).with_context(|| name.clone())?;
            return Ok((name, Box::new(BufReader::new(file))));
        };
        let tracefs = Tracefs::mounted()?;
        let mut root = tracefs.root().to_owned();
        if let Some(instance) = &self.instance {
            root = root.join("instances").join(instance);
            if !root.is_dir() {
                bail!("there is no tracefs instance `{instance}`");
            }
        }
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
}

/// `sched:sched_switch` or `sched/sched_switch` as a path below `events`; none where it is no event's name.
pub(crate) fn event_of(text: &str) -> Option<String> {
    let (system, event) = text.split_once([':', '/'])?;
    let name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    (name(system) && name(event)).then(|| format!("{system}/{event}"))
}

impl PrintFlags {
    fn print(&self, out: &mut dyn Write) -> Result<()> {
        let kernel = match &self.kernel {
            Some(text) if Release::parse(text).is_at_least(1, 0) => Release::parse(text),
            Some(text) => bail!("`{text}` is not a kernel version; expected one such as `6.1`"),
            None => Release::running(),
        };
        let recipe = Recipe {
            event: "wakeup_latency".to_owned(),
            from: if self.from == "waking" { From::Waking } else { From::Wakeup },
            filter: trigger_filter(&self.tasks, self.tasks.tid.clone())?,
            buckets: match self.width {
                None => Buckets::Log2,
                Some(width_ns) => Buckets::Linear { width_ns, size: self.size },
            },
            sum: false,
            size: self.size,
        };
        recipe.check(&kernel)?;
        // The commands are often for another machine, where tracefs is where it is everywhere.
        let here = self.kernel.is_none().then(|| Tracefs::mounted().ok()).flatten();
        let root = here.as_ref().map_or(Path::new("/sys/kernel/tracing"), Tracefs::root);
        let text = recipe.shell(&kernel, &root.display().to_string(), &self.tasks.pid, self.duration);
        out.write_all(text.as_bytes())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: HistTriggerFlags,
    }

    fn run_with(args: &[&str]) -> Result<String> {
        let command = Command::try_parse_from([&["hist-trigger"], args].concat())?;
        let mut out = Vec::new();
        run(&command.flags, &Style { unicode: true, ..Style::default() }, &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    fn fixture(name: &str) -> String {
        format!("{}/tests/fixtures/hist/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    /// The example with which hist triggers were introduced to many: it leaves the totals out.
    const KMALLOC: &str = "kmalloc.excerpt";

    #[test]
    fn the_flags_are_sound() {
        use clap::CommandFactory as _;
        Command::command().debug_assert();
    }

    #[test]
    fn every_view_of_a_file_is_as_it_was() {
        insta::assert_snapshot!("kmalloc_show", run_with(&["show", "--excerpt", &fixture(KMALLOC)]).unwrap());
        let chart = run_with(&["chart", "--excerpt", "--value", "bytes_req", &fixture(KMALLOC)]).unwrap();
        insta::assert_snapshot!("kmalloc_chart", chart);
        insta::assert_snapshot!(
            "latency_chart",
            run_with(&["chart", "--unit", "ns", &fixture("7.2-latency.hist")]).unwrap()
        );
        insta::assert_snapshot!("latency_show", run_with(&["show", &fixture("7.2-latency.hist")]).unwrap());
        insta::assert_snapshot!("names_show", run_with(&["show", &fixture("6.12-sched_switch.hist")]).unwrap());
        insta::assert_snapshot!("onmax_show", run_with(&["show", &fixture("7.2-sched_switch-onmax.hist")]).unwrap());
        insta::assert_snapshot!(
            "percent_show",
            run_with(&["show", &fixture("6.12-hrtimer_expire_entry.hist")]).unwrap()
        );
        insta::assert_snapshot!("syscall_chart", run_with(&["chart", &fixture("6.1-sys_enter.hist")]).unwrap());
        insta::assert_snapshot!("onmax_json", run_with(&["json", &fixture("7.2-sched_switch-onmax.hist")]).unwrap());
    }

    #[test]
    fn an_output_that_is_cut_off_is_an_error_and_an_excerpt_on_request() {
        let error = run_with(&["show", &fixture(KMALLOC)]).unwrap_err();
        assert!(format!("{error:#}").contains("line 8: the input ends here, before `Totals:`"), "{error:#}");
    }

    #[test]
    fn a_value_that_is_not_there_is_refused_with_those_that_are() {
        let error = run_with(&["chart", "--excerpt", "--value", "x", &fixture(KMALLOC)]).unwrap_err();
        assert_eq!(format!("{error:#}"), "no sum is called `x`; the histogram has `hitcount`, `bytes_req`");
    }

    #[test]
    fn an_events_name_is_told_from_a_path() {
        assert_eq!(event_of("sched:sched_switch").as_deref(), Some("sched/sched_switch"));
        assert_eq!(event_of("sched/sched_switch").as_deref(), Some("sched/sched_switch"));
        for path in ["./hist", "/sys/x", "hist", "a/b/c", "../x", "a:", ":b", "a/..", "a b:c"] {
            assert_eq!(event_of(path), None, "{path}");
        }
    }

    #[test]
    fn commands_are_for_the_kernel_asked_for() {
        let print = |args: &[&str]| run_with(&[&["print"], args].concat());
        insta::assert_snapshot!(
            "print_filtered",
            print(&["--kernel", "6.1", "--pid", "7", "--comm", "nginx*", "--prio", "0-99", "--cpus", "0-3,8"]).unwrap()
        );
        let error = |args| format!("{:#}", print(args).unwrap_err());
        assert!(error(&["--kernel", "4.9"]).contains("4.17"));
        assert!(error(&["--kernel", "5.10", "--width", "1000"]).contains("5.14"));
        assert!(error(&["--kernel", "new"]).contains("expected one such as `6.1`"));
        assert!(print(&["--kernel", "5.15", "--width", "1000"]).unwrap().contains("lat.buckets=1000"));
        assert!(print(&["--kernel", "6.1", "--from", "waking"]).unwrap().contains("onmatch(sched.sched_waking)"));
    }
}
