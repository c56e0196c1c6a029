//! `wakelat hist-trigger`

use clap::{Args, Subcommand};

use super::{RenderFlags, TaskFlags, named_value::named_value};
use crate::config::{ConfigError, HistTriggerAction, HistTriggerConfig, HistogramSource, PrintConfig, duration};
use wakelat_core::report::LatencyFrom;
use wakelat_kernel::release::Release;
use wakelat_tracefs::hist_trigger::{
    chart::ChartSelection,
    unit::Unit,
    wakeup_latency::{Buckets, DEFAULT_SIZE, LatencyKey, RecipeError, TriggerRecipe},
};

const EXAMPLES: &str = "\
Examples:
  wakelat hist-trigger chart sched:sched_switch              chart of an event's hist triggers, live
  cat events/kmem/kmalloc/hist | wakelat hist-trigger show   table of any hist trigger output
  wakelat hist-trigger chart --key lat --log2 --unit us      one of several keys, in powers of two
  wakelat hist-trigger print --comm 'nginx*'                 commands to measure without wakelat";

const PRINT_HELP: &str = "\
`--pid` selects the threads that the process has when the commands run.

Examples:
  wakelat hist-trigger print --kernel 6.1 -d 1m            latency in powers of two, one minute
  wakelat hist-trigger print --by tid,prio --exact         exact latencies by thread and priority";

/// Show histograms of the kernel's hist triggers, or print commands that set one up
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct HistTriggerFlags {
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
    /// Print shell commands that measure wakeup latency without wakelat
    Print(PrintFlags),
}

#[derive(Clone, Debug, Args)]
struct ShowFlags {
    #[command(flatten)]
    source: SourceFlags,

    /// Unit of the bucketed key, or of the only key: none, ns, us
    #[arg(long, value_name = "UNIT", value_parser = named_value(&UNITS), hide_possible_values = true)]
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
    #[arg(long, value_name = "UNIT", value_parser = named_value(&UNITS), hide_possible_values = true)]
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
    /// Start of a wakeup's latency: wakeup (sched_wakeup: the task is queued) or waking (sched_waking: the waker
    /// starts to wake it)
    #[arg(long, value_name = "EVENT", default_value = "wakeup", value_parser = ["wakeup", "waking"], hide_possible_values = true)]
    from: String,

    /// Also group by these keys, at most two: tid, prio, comm, cpu
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = named_value(&KEYS), hide_possible_values = true)]
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
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration::seconds, allow_hyphen_values = true)]
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

/// Where histograms are read from.
#[derive(Clone, Debug, Args)]
struct SourceFlags {
    /// File with the output of `cat events/…/hist`, - for standard input, or an event such as sched:sched_switch
    #[arg(value_name = "FILE|EVENT", default_value = "-")]
    source: String,

    /// Read the event's triggers in this tracefs instance
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,

    /// Accept truncated histograms, for example from a document or a log
    #[arg(long)]
    excerpt: bool,
}

/// Parses the width of buckets; returns ns.
fn bucket_width(text: &str) -> Result<u64, String> {
    let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let width_ns = duration::with_unit(&if is_bare { format!("{text}ns") } else { text.to_owned() })?;
    // The kernel keeps the width in an `unsigned long`, and a bucket of more than a second shows nothing.
    if width_ns > 1_000_000_000 { Err(format!("`{text}` is too wide; expected at most `1s`")) } else { Ok(width_ns) }
}

/// The units, by name.
const UNITS: [(&str, Unit); 3] = [("none", Unit::None), ("ns", Unit::Ns), ("us", Unit::Us)];

/// The keys besides the latency, by name.
const KEYS: [(&str, LatencyKey); 4] =
    [("tid", LatencyKey::Tid), ("prio", LatencyKey::Prio), ("comm", LatencyKey::Comm), ("cpu", LatencyKey::Cpu)];

impl HistTriggerFlags {
    /// What is printed, and where.
    ///
    /// # Errors
    /// If the output file is a directory, or the kernel does not accept the triggers to print.
    pub(super) fn config(self) -> Result<HistTriggerConfig, ConfigError> {
        let render = match &self.verb {
            Verb::Show(flags) => &flags.render,
            Verb::Chart(flags) => &flags.render,
            Verb::Json(flags) => &flags.render,
            Verb::Print(flags) => &flags.render,
        };
        let output = render.config()?;
        let action = match self.verb {
            Verb::Show(flags) if flags.json => HistTriggerAction::Json(flags.source.into()),
            Verb::Show(flags) => HistTriggerAction::Show(flags.source.into(), flags.unit),
            Verb::Chart(flags) => {
                let selection = ChartSelection { value: flags.value, key: flags.key, log2: flags.log2 };
                HistTriggerAction::Chart(flags.source.into(), selection, flags.unit)
            }
            Verb::Json(flags) => HistTriggerAction::Json(flags.source.into()),
            Verb::Print(flags) => HistTriggerAction::Print(flags.config()?),
        };
        Ok(HistTriggerConfig { action, output })
    }
}

impl From<SourceFlags> for HistogramSource {
    fn from(flags: SourceFlags) -> Self {
        let SourceFlags { source, instance, excerpt } = flags;
        Self { name: source, instance, excerpt }
    }
}

impl PrintFlags {
    fn config(self) -> Result<PrintConfig, ConfigError> {
        let kernel = match &self.kernel {
            Some(text) if Release::parse(text).is_at_least(1, 0) => Release::parse(text),
            Some(text) => {
                let why = format!("`{text}` is not a kernel version; expected one such as `6.1`");
                return Err(ConfigError::usage("--kernel", why));
            }
            None => Release::running(),
        };
        let recipe = TriggerRecipe {
            event: "wakeup_latency".to_owned(),
            from: if self.from == "waking" { LatencyFrom::Waking } else { LatencyFrom::Wakeup },
            filter: self.tasks.trigger_filter(self.tasks.tid.clone())?,
            by: self.by,
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
        Ok(PrintConfig {
            recipe,
            kernel,
            is_for_this_machine: self.kernel.is_none(),
            tgids: self.tasks.pid,
            duration_ns: self.duration,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: HistTriggerFlags,
    }

    /// What the subcommand with these arguments does.
    fn action(args: &[&str]) -> anyhow::Result<HistTriggerAction> {
        let command = Command::try_parse_from([&["hist-trigger"], args].concat())?;
        Ok(command.flags.config()?.action)
    }

    /// The commands that `hist-trigger print` prints.
    fn print(args: &[&str]) -> anyhow::Result<String> {
        let HistTriggerAction::Print(print) = action(&[&["print"], args].concat())? else { panic!("not `print`") };
        Ok(print.recipe.shell(&print.kernel, "/sys/kernel/tracing", &print.tgids, print.duration_ns))
    }

    #[test]
    fn the_flags_are_consistent() {
        Command::command().debug_assert();
    }

    #[test]
    fn commands_are_for_the_requested_kernel() {
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
            &["--kernel", "foo"][..],
            &["--kernel", "3.10"],
            &["--kernel", "6.1", "--comm", "a'b"],
            &["--kernel", "6.1", "--by", "tid,prio,cpu"],
        ] {
            let error = print(args).unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(ConfigError::Usage(_))), "{args:?}: {error:#}");
        }
    }

    #[test]
    fn a_bare_duration_is_seconds_and_a_bare_width_is_ns() {
        let print = |args: &[&str]| print(&[&["--kernel", "6.1"], args].concat());
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
        let text = print(&["--kernel", "6.1", "--by", "tid,prio", "--exact"]).unwrap();
        assert!(text.contains("echo 'hist:keys=pid,prio,lat:sort=pid,lat:size=16384' >>"), "{text}");
    }

    #[test]
    fn show_can_write_json() {
        assert_eq!(action(&["show", "--json", "file"]).unwrap(), action(&["json", "file"]).unwrap());
    }
}
