//! Command lines about recordings.

use super::*;
use wakelat_core::timeline::stack_event::Role;

#[test]
fn a_recording_is_shown_on_a_machine_that_cannot_measure() {
    let shown = |line: &str| parse_on(words(line), || anyhow::bail!("no procfs")).map(|invocation| invocation.command);
    let Ok(Command::Why(config, why)) = shown("wakelat why -i file --by cgroup --worst 7") else { panic!() };
    assert_eq!((config.by, why.worst), (vec![Key::Cgroup], 7));
    for verb in ["hist", "top", "trace", "trace --breakdown", "trace --all -V", "why"] {
        let of = |flags: &str| shown(&format!("wakelat {verb} -i file {flags}"));
        // Whether such tasks, CPUs and cgroups exist here does not matter.
        for flags in ["--pid 4000000", "--tid 4000000", "--cpus 8191", "--cgroup /no/such", "--comm x --prio 3"] {
            assert!(of(flags).is_ok(), "{verb} {flags}: {:?}", of(flags));
        }
        for flags in ["-d 1s", "--attach raw", "--warm-up 1s", "--ring-size 1M", "--include-self"] {
            let refusal = of(flags).unwrap_err();
            assert_eq!(refusal.exit_code(), 2, "{verb} {flags}");
            assert!(refusal.to_string().contains("--input"), "{verb} {flags}: {refusal}");
        }
        assert!(of("--cpus 8192").unwrap_err().to_string().contains("no kernel has a CPU"), "{verb}");
    }
    for line in ["wakelat why -i file --collect irq", "wakelat hist -i file --mode aggregate"] {
        assert_eq!(shown(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn the_table_of_a_recording_has_an_interval_only_if_one_is_given() {
    let interval = |line| match read(line, &testing::arbitrary().1) {
        Ok(Command::Top(config, _)) => config.window.interval_ns,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(interval("wakelat top"), Some(1_000_000_000));
    assert_eq!(interval("wakelat top -i file"), None);
    assert_eq!(interval("wakelat top -i file --interval 2"), Some(2_000_000_000));
}

#[test]
fn a_recording_needs_a_file_and_has_its_own_format() {
    for (line, why) in [
        ("wakelat record -d 1s", "--output"),
        ("wakelat record -d 1s -o file --json", "its own format"),
        ("wakelat record -d 1s -o file --max-overhead 1%", "not of a sample"),
        ("wakelat record --last 5s -o -", "expected the name of a file"),
        ("wakelat record --last 5s -o file --warm-up 1s", "cannot be used together"),
        ("wakelat record --max-files 3 -o file", "--last"),
        ("wakelat hist --record file -i other", "cannot be used together"),
        ("wakelat hist --record file --mode aggregate", "cannot be used together"),
        ("wakelat record -o file --keep waits --stacks", "only applies to `--keep events`"),
        ("wakelat record -o file --from queued --stacks", "`--stacks=waker` needs the stacks of wakers"),
        ("wakelat record -o file --stacks both", "unknown argument `both`"),
        ("wakelat hist --record -", "expected a file"),
        ("wakelat hist --record file -o file", "two different files"),
        ("wakelat hist --label a=b", "--record"),
    ] {
        let (error, code) = refused(line, |_| {});
        assert!(error.contains(why) && code == 2, "{line}: {error}");
    }
}

#[test]
fn a_recording_has_the_stacks_that_are_requested() {
    let stacks = |line: &str| match read(line, &testing::arbitrary().1) {
        Ok(Command::Record(_, record)) => record.more.stacks().collect::<Vec<_>>(),
        Ok(Command::Why(config, _)) => {
            config.input.unwrap().measured.expect("a measurement").record.more.stacks().collect()
        }
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(stacks("wakelat record -o file"), []);
    assert_eq!(stacks("wakelat record -o file --stacks"), [Role::Waker, Role::Wakee]);
    assert_eq!(stacks("wakelat record -o file --from queued --stacks=wakee"), [Role::Wakee]);
    assert_eq!(stacks("wakelat why --record file --stacks=waker"), [Role::Waker]);
    assert_eq!(stacks("wakelat why --record file --folded other"), [Role::Waker, Role::Wakee]);
}

#[test]
fn an_export_needs_a_recording_and_a_file_and_has_its_own_format() {
    for (line, why) in [
        ("wakelat export --to perfetto -o file", "--input"),
        ("wakelat export --to perfetto -i file", "--output"),
        ("wakelat export -i file -o other", "--to"),
        ("wakelat export --to perfetto -i file -o other --json", "`--to` determines the format"),
        ("wakelat export --to perfetto -i file -o ./file", "also the file of `--input`"),
        ("wakelat export --to perfetto -i file -o other -d 1s", "cannot be used together"),
        ("wakelat export --to csv -i file -o other --interval 1s", "only applies to `--to hdr`"),
    ] {
        let (error, code) = refused(line, |_| {});
        assert!(error.contains(why) && code == 2, "{line}: {error}");
    }
}

#[test]
fn the_demo_shows_its_recording_with_any_view_on_any_machine() {
    let of = |line: &str| parse_on(words(line), || anyhow::bail!("no procfs")).map(|invocation| invocation.command);
    let Ok(Command::Why(config, WhyConfig { layout, .. })) = of("wakelat demo") else { panic!() };
    assert_eq!(layout, WhyLayout::Overview);
    assert!(config.input.is_some_and(|input| input.is_demo()));
    let Ok(Command::Why(config, why)) = of("wakelat demo why --by cgroup --worst 2") else { panic!() };
    assert_eq!((config.by, why.worst, why.layout), (vec![Key::Cgroup], 2, WhyLayout::Report));
    assert!(matches!(of("wakelat demo top --sort p99"), Ok(Command::Top(..))));
    assert!(matches!(of("wakelat demo hist 1 2"), Ok(Command::Hist(..))));
    assert!(matches!(of("wakelat demo trace --all -V"), Ok(Command::Trace(..))));
    assert!(matches!(of("wakelat demo export --to hdr -o file"), Ok(Command::Export(..))));
    assert!(matches!(of("wakelat demo report -o file"), Ok(Command::Report(_))));
    let Ok(Command::Why(_, why)) = of("wakelat demo --report file") else { panic!("not why") };
    assert_eq!((why.layout, why.report), (WhyLayout::Overview, Some("file".into())));
    assert!(matches!(of("wakelat demo why --help"), Err(CliError::Help(_))));
    for (line, why) in [
        ("wakelat demo serve", "expected `hist`, `top`, `trace`, `why`, `report` or `export`"),
        ("wakelat demo why -d 1s", "`--input` and `--duration`"),
        ("wakelat demo top --frob", "unknown argument `--frob`"),
    ] {
        let refusal = of(line).unwrap_err();
        assert_eq!(refusal.exit_code(), 2, "{line}");
        assert!(refusal.to_string().contains(why), "{line}: {refusal}");
    }
}
