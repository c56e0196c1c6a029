//! Command lines, and their configuration on an arbitrary machine.

mod output_flags;
mod recordings;
mod serve;

use wakelat_common::{Class, Classes, filter::part};

use super::*;
use crate::config::{
    Attach, Colour, Config, OutputFormat, TableConfig, ThresholdAction, ThresholdConfig, WhyConfig, WhyLayout,
};
use wakelat_core::{
    aggregate::key::Key,
    render::top_table::Sort,
    report::{LatencyFrom, Mode},
};
use wakelat_kernel::testing;

/// Splits at spaces, except within single quotes.
fn words(line: &str) -> Vec<OsString> {
    line.split('\'')
        .enumerate()
        .flat_map(|(i, part)| if i % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
        .map(OsString::from)
        .collect()
}

fn read(line: &str, machine: &Machine) -> Result<Command, CliError> {
    parse_on(words(line), || Ok(machine.clone())).map(|invocation| invocation.command)
}

fn config(line: &str) -> Config {
    let (_directory, machine) = testing::arbitrary();
    match read(line, &machine) {
        Ok(Command::Hist(config, _) | Command::Top(config, _) | Command::Trace(config, _)) => config,
        Ok(Command::Why(config, _) | Command::Record(config, _)) => config,
        other => panic!("{line}: {other:?}"),
    }
}

/// The error message of a rejected command line, with the machine's directory replaced by `ROOT`, and
/// its exit code.
fn refused(line: &str, change: impl FnOnce(&mut Machine)) -> (String, u8) {
    let (directory, mut machine) = testing::arbitrary();
    change(&mut machine);
    let root = directory.path().canonicalize().unwrap().display().to_string();
    let refusal = read(&line.replace("ROOT", &root), &machine).expect_err(line);
    (refusal.to_string().replace(&root, "ROOT"), refusal.exit_code())
}

#[test]
fn the_flags_are_consistent() {
    command().debug_assert();
}

#[test]
fn the_default_is_wakeups_of_all_tasks_until_ctrl_c() {
    let config = config("wakelat hist");
    assert_eq!(config.window, crate::config::WindowConfig::default());
    assert_eq!(config.filter.parts, part::OTHERS);
    assert_eq!((config.classes, config.merged), (Classes::NONE.with(Class::Wakeup), false));
    assert_eq!((config.from, config.by.len(), config.max_groups), (LatencyFrom::Wakeup, 0, 16384));
    assert_eq!(config.threshold, None);
    assert_eq!(
        (config.output.format, &config.output.path, config.output.colour),
        (OutputFormat::Human, &None, Colour::Auto)
    );
    assert!(!config.output.ascii && !config.output.quiet && !config.output.timestamps);
    assert_eq!((config.resources.attach, config.resources.rt_priority), (Attach::Auto, None));
    assert_eq!((config.resources.max_tasks, config.resources.ring_bytes), (18_432, 4 << 20));
    assert_eq!(config.resources.drain_interval_ns, 20_000_000);
    assert!(config.notes.is_empty());
}

#[test]
fn the_kernel_aggregates_if_no_samples_are_needed() {
    for (line, mode) in [
        ("wakelat hist", Mode::Aggregate),
        ("wakelat hist 1 --by cpu,class --class runqueue --threshold 1ms", Mode::Aggregate),
        ("wakelat hist --mode aggregate", Mode::Aggregate),
        ("wakelat hist --mode samples", Mode::Samples),
        ("wakelat hist --by cpu,class,cgroup,container,pid,tid,comm", Mode::Aggregate),
        ("wakelat hist --by comm,prio", Mode::Samples),
        ("wakelat hist --by policy", Mode::Samples),
        ("wakelat hist 50ms --by tid", Mode::Samples),
        ("wakelat hist --threshold 1ms --on-threshold stop", Mode::Samples),
        ("wakelat top", Mode::Aggregate),
        ("wakelat top --by cpu", Mode::Aggregate),
        ("wakelat top --by waker", Mode::Samples),
        ("wakelat top --max-overhead 1%", Mode::Samples),
        ("wakelat top --from queued --max-overhead 1%", Mode::Aggregate),
        ("wakelat hist --from queued --by cgroup --max-overhead 1%", Mode::Aggregate),
        ("wakelat hist --mode aggregate --max-overhead 1%", Mode::Aggregate),
        ("wakelat trace --from queued --max-overhead 1%", Mode::Samples),
        ("wakelat trace", Mode::Samples),
        ("wakelat hist --attach classic --by cpu,class", Mode::Aggregate),
        ("wakelat hist --attach classic --by tid", Mode::Samples),
    ] {
        assert_eq!(config(line).mode, mode, "{line}");
    }
    for (line, why) in [
        ("wakelat top --mode aggregate --by tid,waker", "`--by waker` needs a record"),
        ("wakelat hist --mode aggregate --threshold 1ms --on-threshold stop", "`--on-threshold` needs each wait"),
        ("wakelat hist --mode aggregate --attach classic --by cpu,tid", "with classic tracepoints, `--by tid` needs"),
    ] {
        let (error, code) = refused(line, |_| {});
        assert!(error.contains(why) && code == 2, "{error}");
    }
}

#[test]
fn a_kernel_without_btf_aggregates_only_by_cpu_and_class() {
    let (_directory, mut machine) = testing::arbitrary();
    machine.publishes_btf = false;
    for (line, mode) in [("wakelat hist --by cpu,class", Mode::Aggregate), ("wakelat top", Mode::Samples)] {
        let Ok(Command::Hist(config, _) | Command::Top(config, _)) = read(line, &machine) else { panic!("{line}") };
        assert_eq!(config.mode, mode, "{line}");
    }
}

#[test]
fn the_window_takes_seconds_and_units() {
    let second = 1_000_000_000;
    let window = config("wakelat hist 1 10 --warm-up 500ms").window;
    assert_eq!((window.interval_ns, window.count, window.duration_ns), (Some(second), Some(10), None));
    assert_eq!(window.warm_up_ns, second / 2);
    assert_eq!(config("wakelat hist 500ms").window.interval_ns, Some(second / 2));
    assert_eq!(config("wakelat hist -d 10").window.duration_ns, Some(10 * second));
    assert_eq!(config("wakelat hist --duration 1h30m").window.duration_ns, Some(5400 * second));
    assert_eq!(config("wakelat top").window.interval_ns, Some(second));
}

#[test]
fn every_filter_is_applied() {
    let config = config(
        "wakelat hist -p 100,200 -p 100 -t 101 --comm 'nginx*,redis' --comm '?' --cgroup /kubepods --cgroup kubepods \
         -C 0 -C 2-3 --prio -1 --prio 100-139 --policy fifo,deadline --include-self",
    );
    let all = part::TGID | part::PID | part::COMM | part::CGROUP | part::CPU | part::PRIO | part::POLICY;
    assert_eq!(config.filter.parts, all);
    assert_eq!(
        (config.filter.tgids.as_slice(), config.filter.pids.as_slice()),
        ([100, 200].as_slice(), [101].as_slice())
    );
    assert_eq!(config.filter.cgroups.len(), 1);
    let filter = &config.filter.filter;
    let tree = self::config("wakelat hist --tree -p 100").filter;
    assert_eq!((tree.parts, tree.tgids), (part::TGID | part::DESCENDANTS | part::OTHERS, vec![100]));
    assert!(filter.comm.matches(b"nginx: worker\0\0\0") && filter.comm.matches(b"redis\0\0\0\0\0\0\0\0\0\0\0"));
    assert!(filter.wants_cpu(0) && !filter.wants_cpu(1) && filter.wants_cpu(3));
    assert!(filter.wants_prio(-1) && !filter.wants_prio(0) && filter.wants_prio(139));
    assert!(filter.wants_policy(1) && filter.wants_policy(6) && !filter.wants_policy(0));
    assert!(config.filter.include_self);
}

#[test]
fn run_queue_latency_is_measured_only_by_name() {
    let all = Class::ALL.into_iter().fold(Classes::NONE, Classes::with);
    let merged = |line| {
        let config = config(line);
        (config.classes, config.merged)
    };
    assert_eq!(merged("wakelat hist --class wakeup,new,preempted"), (all, false));
    assert_eq!(merged("wakelat hist --class runqueue"), (all, true));
    assert_eq!(merged("wakelat hist --class preempted"), (Classes::NONE.with(Class::Preempted), false));
    assert_eq!(config("wakelat hist --from waking").from, LatencyFrom::Waking);
}

#[test]
fn keys_keep_their_order_and_the_short_flags_add_theirs() {
    assert_eq!(config("wakelat hist --by comm,cpu -P").by, [Key::Comm, Key::Cpu, Key::Pid]);
    assert_eq!(config("wakelat hist -P -L --by pid").by, [Key::Pid, Key::Tid]);
    assert_eq!(config("wakelat top").by, [Key::Tid, Key::Comm]);
    assert_eq!(config("wakelat top -P --max-groups 5").by, [Key::Pid]);
    assert_eq!(config("wakelat top --max-groups 5").max_groups, 5);
}

#[test]
fn a_threshold_comes_with_its_action() {
    assert_eq!(
        config("wakelat trace --threshold 500us").threshold,
        Some(ThresholdConfig { threshold_ns: 500_000, action: ThresholdAction::Continue })
    );
    let action = ThresholdAction::Signal { signal: libc::SIGUSR1, pid: 200 };
    assert_eq!(
        config("wakelat hist --threshold 1ms --on-threshold signal:USR1:200").threshold,
        Some(ThresholdConfig { threshold_ns: 1_000_000, action })
    );
    assert_eq!(config("wakelat trace").threshold, None);
}

#[test]
fn the_output_has_the_given_format_and_destination() {
    let output = config("wakelat hist --json -o - -q -T --ascii --color never").output;
    assert_eq!((output.format, output.path, output.colour), (OutputFormat::Json, None, Colour::Never));
    assert!(output.quiet && output.timestamps && output.ascii);
    let output = config("wakelat trace --csv -o waits.csv --colour always").output;
    assert_eq!(
        (output.format, output.path, output.colour),
        (OutputFormat::Csv, Some("waits.csv".into()), Colour::Always)
    );
}

#[test]
fn the_table_is_sorted_as_requested() {
    let (_directory, machine) = testing::arbitrary();
    let table = |line| match read(line, &machine) {
        Ok(Command::Top(_, table)) => table,
        other => panic!("{other:?}"),
    };
    let default = TableConfig {
        sort: Sort::Max,
        limit: None,
        last_only: false,
        batch: false,
        flag: None,
        mode: None,
        collect: collected_events::DEFAULT,
    };
    assert_eq!(table("wakelat top"), default);
    assert!(table("wakelat top --last").last_only);
    let all = config("wakelat top");
    assert!(all.merged && all.classes.contains(Class::Preempted), "preempted tasks wait too");
    assert!(!config("wakelat top --class wakeup").classes.contains(Class::Preempted));
    assert_eq!(
        table("wakelat top --sort p99 -n 20"),
        TableConfig { sort: Sort::P99, limit: Some(20), flag: Some("--sort"), ..default }
    );
}

#[test]
fn a_ring_size_is_rounded_up_with_a_note() {
    let config = config("wakelat hist --ring-size 3M");
    assert_eq!(config.resources.ring_bytes, 4 << 20);
    assert_eq!(config.notes.len(), 1);
    assert!(config.notes[0].contains("has 4194304 bytes, not 3145728"), "{:?}", config.notes);
    let smallest = self::config("wakelat hist --ring-size 1").resources.ring_bytes;
    assert_eq!(smallest, 4096);
    assert_eq!(self::config("wakelat hist --ring-size 2G").resources.ring_bytes, 1 << 31);
}

#[test]
fn maps_are_sized_by_the_machine() {
    let (_directory, mut machine) = testing::arbitrary();
    let mut sized = |threads, pid_max, cpus: &str| {
        (machine.threads, machine.pid_max, machine.cpus) =
            (threads, pid_max, wakelat_kernel::cpus::Cpus::parse(cpus).unwrap());
        match read("wakelat hist", &machine) {
            Ok(Command::Hist(config, _)) => (config.resources.max_tasks, config.resources.ring_bytes),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(sized(10_000, 4_194_304, "0"), (73_728, 1 << 20));
    assert_eq!(sized(10_000, 32768, "0-2"), (36_864, 4 << 20));
    assert_eq!(sized(50, 301, "0-255"), (18_432, 64 << 20));
    assert_eq!(sized(u32::MAX, 4_194_304, "0"), (4_718_592, 1 << 20));
}

#[test]
fn verbosity_counts() {
    let (_directory, machine) = testing::arbitrary();
    let verbosity = |line| parse_on(words(line), || Ok(machine.clone())).unwrap().verbosity;
    assert_eq!((verbosity("wakelat hist"), verbosity("wakelat -v hist"), verbosity("wakelat hist -vv")), (0, 1, 2));
}

#[test]
fn doctor_needs_no_working_machine() {
    let invocation = parse_on(words("wakelat doctor --json"), || anyhow::bail!("no procfs")).unwrap();
    assert!(matches!(invocation.command, Command::Doctor(output) if output.format == OutputFormat::Json));
}

#[test]
fn an_overhead_limit_is_rejected_if_all_tasks_are_needed() {
    for line in [
        "wakelat why --max-overhead 1%",
        "wakelat hist --by component --max-overhead 1%",
        "wakelat trace --all --max-overhead 1%",
    ] {
        let (error, code) = refused(line, |_| {});
        assert!(code == 2 && error.contains("`--max-overhead`"), "{line}: {error}");
    }
}

#[test]
fn the_queue_clock_measures_for_every_view_that_needs_no_wakeups() {
    for line in [
        "wakelat record --from queued -o file",
        "wakelat why --from queued --stacks=wakee",
        "wakelat why --from queued --class preempted",
        "wakelat trace --all -M --from queued",
        "wakelat trace --breakdown --from queued",
        "wakelat hist --by component --from queued",
    ] {
        assert_eq!(config(line).from, LatencyFrom::Queued, "{line}");
    }
    for (line, why) in [
        ("wakelat hist --from queued --by waker", "`queued` sees no wakeups, and `--by waker` needs the waker"),
        ("wakelat why --from queued --by comm,waker", "`--by waker` needs the waker"),
        ("wakelat why --from queued --stacks", "`--stacks=waker` needs the stacks of wakers"),
        ("wakelat why --from queued --folded file", "`--stacks=waker` needs the stacks of wakers"),
        ("wakelat trace --all -w --from queued", "`--wakeups` needs each of them; use `wakeup` or `waking`"),
    ] {
        let (error, code) = refused(line, |_| {});
        assert!(error.contains(why) && code == 2, "{line}: {error}");
    }
}

#[test]
fn input_is_not_overwritten_and_no_file_is_written_twice() {
    for (line, why) in [
        ("wakelat why -i file -o ./file", "also the file of `--input`"),
        ("wakelat why -o file --folded file", "also the file of `--folded`"),
        ("wakelat why --folded -", "expected a file"),
        ("wakelat timerlat --from file -o file", "also the file of `--from`"),
        ("wakelat osnoise -o file --trace file", "also the file of `--trace`"),
        ("wakelat timerlat --trace ROOT/plain", "is a directory"),
    ] {
        let (error, code) = refused(line, |_| {});
        assert!(error.contains(why) && code == 2, "{line}: {error}");
    }
}

#[test]
fn a_machine_that_cannot_be_read_is_a_failure_not_a_usage_error() {
    let refusal = parse_on(words("wakelat hist"), || anyhow::bail!("cannot read `/proc/loadavg`")).unwrap_err();
    assert_eq!((refusal.exit_code(), refusal.to_string().as_str()), (1, "cannot read `/proc/loadavg`"));
}

/// Every line fails with exit code 2, and the error says what is wrong and what is accepted.
#[test]
fn wrong_usage_says_what_was_wrong_and_what_is_accepted() {
    let lines = include_str!("wrong_usage.txt").lines();
    let mut said = String::new();
    for line in lines {
        let (text, code) = refused(line, |_| {});
        assert_eq!(code, 2, "{line}: {text}");
        assert!(!text.contains('\n') && !text.ends_with('.'), "{line}: {text}");
        said += &format!("$ {line}\n{text}\n");
    }
    insta::assert_snapshot!(said);
}

/// Every line is valid in itself: the exit code is 1.
#[test]
fn what_this_machine_cannot_serve_is_a_failure() {
    let no_v2: fn(&mut Machine) = |machine| machine.mounts.retain(|mount| mount.kind != "cgroup2");
    let container: fn(&mut Machine) = |machine| machine.first_pid_namespace = false;
    let unchanged: fn(&mut Machine) = |_| {};
    let mut said = String::new();
    for (line, change) in [
        ("wakelat hist -p 999999", unchanged),
        ("wakelat hist -t 999999", unchanged),
        ("wakelat hist --threshold 1ms --on-threshold signal:TERM:999999", unchanged),
        ("wakelat hist --cgroup /kubepods", no_v2),
        ("wakelat hist --by cgroup", no_v2),
        ("wakelat hist -p 100", container),
        ("wakelat hist -t 101", container),
        ("wakelat hist --tree -- make", container),
    ] {
        let (text, code) = refused(line, change);
        assert_eq!(code, 1, "{line}: {text}");
        said += &format!("$ {line}\n{text}\n");
    }
    insta::assert_snapshot!(said);
}

#[test]
fn help_is_grouped_and_has_examples() {
    let mut said = String::new();
    let mut command = command().term_width(100);
    command.build();
    said += &command.render_help().to_string();
    for verb in ["hist", "top", "trace", "why", "record", "verify", "timerlat", "osnoise", "doctor"] {
        let verb = command.find_subcommand_mut(verb).unwrap();
        said += &format!("\n----- {} -----\n{}", verb.get_name(), verb.clone().term_width(100).render_help());
    }
    insta::assert_snapshot!(said);
}

#[test]
fn help_is_a_command_as_well_as_a_flag() {
    let help = |line: &str| match parse_on(words(line), || unreachable!("help needs no machine")) {
        Err(refusal @ CliError::Help(_)) => refusal.to_string(),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(help("wakelat help"), help("wakelat --help"));
    assert_eq!(help("wakelat help hist"), help("wakelat hist --help"));
    assert_eq!(help("wakelat help hist-trigger print"), help("wakelat hist-trigger print --help"));
}

#[test]
fn wakelat_without_arguments_is_an_overview_of_ten_seconds() {
    let (_directory, machine) = testing::arbitrary();
    for line in ["wakelat", "wakelat -v"] {
        let Ok(Command::Why(config, why)) = read(line, &machine) else { panic!("{line}") };
        assert_eq!((why.layout, why.worst), (WhyLayout::Overview, 3));
        assert_eq!((config.window.duration_ns, config.merged), (Some(10_000_000_000), true));
    }
}

#[test]
fn requested_help_is_a_success() {
    for line in ["wakelat --help", "wakelat hist --help", "wakelat help", "wakelat --version"] {
        assert_eq!(refused(line, |_| {}).1, 0, "{line}");
    }
    let (text, _) = refused("wakelat --help", |_| {});
    assert!(text.contains("Usage: wakelat") && text.contains("Exit codes:"), "{text}");
}
