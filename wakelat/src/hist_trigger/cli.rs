//! The subcommand `wakelat hist-trigger`.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use clap::{Args, Subcommand};

use super::chart::{self, ChartSelection};
use super::json;
use super::recipe::{Buckets, DEFAULT_SIZE, LatencyKey, RecipeError, TriggerRecipe};
use super::show;
use super::source::SourceFlags;
use super::unit::{Unit, units_of};
use crate::cli::{RenderFlags, TaskFlags};
use crate::config::{ConfigError, span, trigger_filter};
use crate::kernel::release::Release;
use crate::tracefs::TracefsMount;
use wakelat_core::render::Style;
use wakelat_core::report::LatencyFrom;

const EXAMPLES: &str = "\
Examples:
  wakelat hist-trigger chart sched:sched_switch            chart of the hist triggers on an event, live
  cat events/kmem/kmalloc/hist | wakelat hist-trigger show table of any hist trigger output
  wakelat hist-trigger chart --key lat --log2 --unit us log distribution over one of several keys
  wakelat hist-trigger print --comm 'nginx*'               print shell commands that measure without wakelat";

const PRINT_HELP: &str = "\
`--pid` selects the threads that the process has when the commands run.

Examples:
  wakelat hist-trigger print --kernel 6.1 -d 1m            latency in powers of two, one minute
  wakelat hist-trigger print --by tid,prio --exact         exact latencies by thread and priority";

/// Show histograms of the kernel's hist triggers, or print commands that set one up
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HistTriggerFlags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Debug, Subcommand)]
enum Verb {
    /// Print a table with all keys and values
    Show(ShowFlags),
    /// Print a chart of one value
    Chart(ChartFlags),
    /// Print a JSON document per histogram
    Json(JsonFlags),
    /// Print shell commands that measure wakeup latency without any tool
    Print(PrintFlags),
}

#[derive(Clone, Debug, Args)]
struct ShowFlags {
    #[command(flatten)]
    source: SourceFlags,

    /// Unit of the bucketed key, or of the only key: none, ns, us
    #[arg(long, value_name = "UNIT", hide_possible_values = true)]
    unit: Option<Unit>,

    /// Print a JSON document per histogram instead, like `hist-trigger json`
    #[arg(long, help_heading = "Output", conflicts_with = "unit")]
    json: bool,

    #[command(flatten)]
    render: RenderFlags,
}

#[derive(Clone, Debug, Args)]
struct ChartFlags {
    #[command(flatten)]
    source: SourceFlags,

    /// Value that the bars show [default: the hit count]
    #[arg(long, value_name = "NAME")]
    value: Option<String>,

    /// Show only this key, summing over the others
    #[arg(long, value_name = "NAME")]
    key: Option<String>,

    /// Group the key's values in powers of two
    #[arg(long)]
    log2: bool,

    /// Unit of the key: none, ns, us
    #[arg(long, value_name = "UNIT", hide_possible_values = true)]
    unit: Option<Unit>,

    #[command(flatten)]
    render: RenderFlags,
}

#[derive(Clone, Debug, Args)]
struct JsonFlags {
    #[command(flatten)]
    source: SourceFlags,

    #[command(flatten)]
    render: RenderFlags,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = PRINT_HELP)]
struct PrintFlags {
    /// Event that starts a wakeup's latency: wakeup (task on a run queue) or waking (waker begins)
    #[arg(long, value_name = "EVENT", default_value = "wakeup", value_parser = ["wakeup", "waking"], hide_possible_values = true)]
    from: String,

    /// Also group by these keys, at most two: tid, prio, comm, cpu
    #[arg(long, value_name = "KEYS", value_delimiter = ',', hide_possible_values = true)]
    by: Vec<LatencyKey>,

    /// Use buckets of this width, such as 10us, instead of powers of two; a bare number is ns
    #[arg(long, value_name = "TIME", value_parser = bucket_width, allow_hyphen_values = true)]
    width: Option<u64>,

    /// Count each exact latency instead of powers of two
    #[arg(long, conflicts_with = "width")]
    exact: bool,

    /// Maximum number of entries per table, 128-131072
    #[arg(long, value_name = "ENTRIES", default_value_t = DEFAULT_SIZE, value_parser = clap::value_parser!(u32).range(128..=131_072))]
    size: u32,

    /// Measure for this long; a bare number is seconds
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = span::seconds, allow_hyphen_values = true)]
    duration: u64,

    /// Kernel version that the commands are for, such as 6.1 [default: the running kernel]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,

    /// Which tasks, and where.
    #[command(flatten)]
    tasks: TaskFlags,

    #[command(flatten)]
    render: RenderFlags,
}

/// Parses the width of buckets; returns ns.
fn bucket_width(text: &str) -> Result<u64, String> {
    let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let width_ns = span::with_unit(&if is_bare { format!("{text}ns") } else { text.to_owned() })?;
    // The kernel keeps the width in an `unsigned long`, and a bucket of more than a second shows nothing.
    if width_ns > 1_000_000_000 { Err(format!("`{text}` is too wide; expected at most `1s`")) } else { Ok(width_ns) }
}

impl HistTriggerFlags {
    /// The flags that control where and how the result is written.
    pub fn render_flags(&self) -> &RenderFlags {
        match &self.verb {
            Verb::Show(flags) => &flags.render,
            Verb::Chart(flags) => &flags.render,
            Verb::Json(flags) => &flags.render,
            Verb::Print(flags) => &flags.render,
        }
    }
}

/// Runs the subcommand and writes its result to `out`.
///
/// # Errors
/// If the input cannot be read or is not the output of hist triggers, the kernel has no hist triggers, or a
/// flag does not fit the input ([`ConfigError::Usage`]).
pub fn run(flags: &HistTriggerFlags, style: &Style, out: &mut dyn Write) -> Result<()> {
    let document = |histogram: &_| Ok(format!("{}\n", json::document(histogram)));
    let usage = |error: super::fold::SelectionError| ConfigError::Usage(error.to_string());
    match &flags.verb {
        Verb::Show(flags) if flags.json => flags.source.each(out, document),
        Verb::Show(flags) => flags.source.each(out, |histogram| {
            let units = units_of(&histogram.trigger.keys, flags.unit).map_err(usage)?;
            Ok(show::table(histogram, &units, style))
        }),
        Verb::Chart(flags) => {
            let selection = ChartSelection { value: flags.value.clone(), key: flags.key.clone(), log2: flags.log2 };
            flags
                .source
                .each(out, |histogram| Ok(chart::chart(histogram, &selection, flags.unit, style).map_err(usage)?))
        }
        Verb::Json(flags) => flags.source.each(out, document),
        Verb::Print(flags) => flags.print(out),
    }
}

impl PrintFlags {
    fn print(&self, out: &mut dyn Write) -> Result<()> {
        let kernel = match &self.kernel {
            Some(text) if Release::parse(text).is_at_least(1, 0) => Release::parse(text),
            Some(text) => {
                let why = format!("`{text}` is not a kernel version; expected one such as `6.1`");
                return Err(ConfigError::usage("--kernel", why).into());
            }
            None => Release::running(),
        };
        let recipe = TriggerRecipe {
            event: "wakeup_latency".to_owned(),
            from: if self.from == "waking" { LatencyFrom::Waking } else { LatencyFrom::Wakeup },
            filter: trigger_filter(&self.tasks, self.tasks.tid.clone())?,
            by: self.by.clone(),
            buckets: match self.width {
                _ if self.exact => None,
                None => Some(Buckets::Log2),
                Some(width_ns) => Some(Buckets::Linear { width_ns, size: self.size }),
            },
            sum: false,
            size: self.size,
        };
        recipe.check(&kernel).map_err(|error| match &error {
            RecipeError::Pattern(_) => ConfigError::usage("--comm", error),
            RecipeError::Keys => ConfigError::usage("--by", error),
            RecipeError::Kernel(_) | RecipeError::Linear(_) if self.kernel.is_some() => {
                ConfigError::usage("--kernel", error)
            }
            RecipeError::Kernel(_) | RecipeError::Linear(_) => ConfigError::Unmet(error.to_string()),
        })?;
        // With `--kernel`, the commands are often for another machine: use the standard mount point of
        // tracefs.
        let mounted = self.kernel.is_none().then(|| TracefsMount::mounted().ok()).flatten();
        let root = mounted.as_ref().map_or(Path::new("/sys/kernel/tracing"), TracefsMount::root);
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

    /// A widely used introductory example of hist triggers, which leaves out the totals.
    const KMALLOC: &str = "kmalloc.excerpt";

    #[test]
    fn the_flags_are_consistent() {
        use clap::CommandFactory as _;
        Command::command().debug_assert();
    }

    #[test]
    fn every_rendering_of_a_file_matches_its_snapshot() {
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
    fn truncated_output_is_an_error_unless_an_excerpt_is_requested() {
        let error = run_with(&["show", &fixture(KMALLOC)]).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("line 8: the input ends here, before `Totals:`") && text.contains("`--excerpt`"),
            "{text}"
        );
    }

    #[test]
    fn the_error_for_an_unknown_value_lists_the_known_ones() {
        let error = run_with(&["chart", "--excerpt", "--value", "x", &fixture(KMALLOC)]).unwrap_err();
        assert_eq!(format!("{error:#}"), "`--value`: no value `x`; expected one of `hitcount`, `bytes_req`");
        assert!(matches!(error.downcast_ref(), Some(ConfigError::Usage(_))));
    }

    #[test]
    fn commands_are_for_the_requested_kernel() {
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

    #[test]
    fn wrong_flags_are_usage_errors() {
        for args in [
            &["print", "--kernel", "foo"][..],
            &["print", "--kernel", "3.10"],
            &["print", "--kernel", "6.1", "--comm", "a'b"],
            &["print", "--kernel", "6.1", "--by", "tid,prio,cpu"],
            &["show", env!("CARGO_MANIFEST_DIR")],
            &["chart", "--key", "x", &fixture("7.2-latency.hist")],
        ] {
            let error = run_with(args).unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(ConfigError::Usage(_))), "{args:?}: {error:#}");
            assert_eq!(format!("{error:#}").matches("directory").count(), usize::from(args[0] == "show"), "{error:#}");
        }
    }

    #[test]
    fn a_bare_duration_is_seconds_and_a_bare_width_is_ns() {
        let print = |args: &[&str]| run_with(&[&["print", "--kernel", "6.1"], args].concat());
        assert!(print(&["-d", "1m"]).unwrap().contains("\nsleep 60\n"));
        assert!(print(&["-d", "7"]).unwrap().contains("\nsleep 7\n"));
        for width in ["10000", "10us"] {
            assert!(print(&["--width", width]).unwrap().contains("keys=lat.buckets=10000:"));
        }
        for (width, why) in
            [("0", "`0ns` must be greater than zero"), ("2s", "`2s` is too wide; expected at most `1s`")]
        {
            assert!(print(&["--width", width]).unwrap_err().to_string().contains(why), "{width}");
        }
    }

    #[test]
    fn the_recipe_of_the_guide_can_be_printed() {
        let text = run_with(&["print", "--kernel", "6.1", "--by", "tid,prio", "--exact"]).unwrap();
        assert!(text.contains("echo 'hist:keys=pid,prio,lat:sort=pid,lat:size=16384' >>"), "{text}");
    }

    #[test]
    fn an_empty_histogram_and_one_with_only_shares_have_a_chart() {
        let empty = run_with(&["chart", &fixture("6.1-sched_migrate_task.hist")]).unwrap();
        assert!(empty.contains("\nnothing was counted\n0 hits, 0 entries, none dropped\n"), "{empty}");
        let shares = run_with(&["chart", &fixture("7.2-hrtimer_cancel.hist")]).unwrap();
        insta::assert_snapshot!("shares_chart", shares);
    }

    #[test]
    fn stacks_are_numbered_in_the_chart_and_listed_below_it() {
        insta::assert_snapshot!("stacks_chart", run_with(&["chart", &fixture("6.12-sched_waking.hist")]).unwrap());
    }

    /// Each transcript contains a whole histogram, lines of a test's log, and a histogram truncated by the
    /// log.
    #[test]
    fn a_log_is_read_up_to_a_truncated_histogram_and_as_an_excerpt_to_its_end() {
        for kernel in ["6.1-cloud", "6.1-rt", "6.12-cloud", "6.12-rt", "6.18-cloud", "6.18-rt", "7.0-rt", "7.2-cloud"] {
            let file = fixture(&format!("hist-triggers-{kernel}.txt"));
            let mut out = Vec::new();
            let command = Command::try_parse_from(["hist-trigger", "show", &file]).unwrap();
            let error = run(&command.flags, &Style::default(), &mut out).unwrap_err();
            assert!(format!("{error:#}").contains("`--excerpt` accepts incomplete input"), "{kernel}: {error:#}");
            let first = String::from_utf8(out).unwrap();
            let all = run_with(&["show", "--excerpt", &file]).unwrap();
            assert_eq!((first.matches("hist:keys").count(), all.matches("hist:keys").count()), (1, 2), "{kernel}");
        }
        let error = run_with(&["show", &fixture("hist-triggers-5.10-cloud.txt")]).unwrap_err().to_string();
        assert!(error.contains("does not contain hist trigger output; line 1 is `VMLAB"), "{error}");
    }

    #[test]
    fn show_can_write_json() {
        let file = fixture("7.2-latency.hist");
        assert_eq!(run_with(&["show", "--json", &file]).unwrap(), run_with(&["json", &file]).unwrap());
        assert!(run_with(&["json", &file]).unwrap().starts_with(r#"{"schema":"wakelat.hist-trigger/1","#));
    }
}
