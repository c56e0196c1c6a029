//! Measures every requested workload with every requested instrument, and writes the results.

use std::fs;

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use wakelat_build::{bpf_programs, cargo_build, workspace};

use crate::affinity::CpuList;
use crate::args::BenchArgs;
use crate::instrument::{self, FLOOR, Instrument, SkippedInstrument};
use crate::observation::BenchContext;
use crate::run::{self, BenchScale, WorkloadResult};
use crate::sigint::InterruptFlag;
use crate::workload::{BenchWorkload, WORKLOADS};
use crate::{machine, overhead_md, table};

/// The page into which a whole run writes its table.
const PAGE: &str = "docs/overhead.md";

/// The highest priority, as a nice value.
const FIRST: i32 = -20;

/// Builds wakelat, measures, prints the report and writes `target/bench/bench.json`; a whole run also
/// writes its table into the page. Takes a quarter of an hour or more.
///
/// # Errors
/// Fails if this process is not root, the kernel accounts BPF run times already, a build fails, or a
/// workload or instrument is unknown. A workload that fails is skipped, with the reason in the report.
pub fn measure(args: &BenchArgs) -> anyhow::Result<()> {
    let accounted = fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").context("cannot read the setting")?;
    ensure!(
        accounted.trim() == "0",
        "the kernel accounts BPF run times already, which slows down every BPF tool; run `sysctl kernel.bpf_stats_enabled=0`"
    );
    let directory = workspace::root().join("target/bench");
    fs::create_dir_all(&directory).with_context(|| format!("cannot make `{}`", directory.display()))?;
    instrument::prepare_runqlat_bt(&directory)?;
    let (wakelat, empty_programs) = (cargo_build::release()?.binary, bpf_programs::empty()?);
    let (instruments, mut skipped) = instrument::all(&wakelat, &directory)?;
    let workloads = workloads(&args.workload)?;
    let instruments = chosen(instruments, &args.instrument, &mut skipped)?;
    let scale = BenchScale {
        rounds: args.rounds.unwrap_or(if args.quick { 2 } else { 5 }) as usize,
        part: if args.quick { 5 } else { 1 },
    };

    // Ahead of all other processes: builds and the like would take less from one run and more from the
    // next. The tools and the workloads inherit the priority alike.
    rustix::process::setpriority_process(None, FIRST).context("cannot raise the priority")?;
    let interrupt = InterruptFlag::listen()?;
    let allowed = CpuList::allowed()?;
    let context = BenchContext { empty_programs: &empty_programs, directory: &directory, interrupt: &interrupt };
    let mut found = Vec::new();
    for workload in &workloads {
        match run::measure_under(workload, &instruments, &allowed, scale, &context, &mut skipped) {
            Ok(one) => found.extend(one),
            // The results of the other workloads remain valid.
            Err(error) => {
                interrupt.check()?;
                eprintln!("bench: {} is skipped: {error:#}", workload.id);
                let (title, reason) = ("everything".to_owned(), format!("{error:#}"));
                skipped.push(SkippedInstrument {
                    instrument: String::new(),
                    title,
                    workload: Some(workload.id),
                    reason,
                });
            }
        }
    }

    let machine = machine::detect(&allowed);
    let text = text(&machine, scale, &found, &skipped);
    let document = json!({
        "schema": "wakelat.bench/1", "machine": machine, "extent": scale, "workloads": found, "skipped": skipped,
    });
    let path = directory.join("bench.json");
    fs::write(&path, format!("{document:#}\n")).with_context(|| format!("cannot write `{}`", path.display()))?;
    let whole = !args.quick && args.workload.is_empty() && args.instrument.is_empty();
    if whole || args.write {
        let page = workspace::root().join(PAGE);
        let before = fs::read_to_string(&page).with_context(|| format!("cannot read `{PAGE}`"))?;
        fs::write(&page, overhead_md::with_table(&before, &text)?).with_context(|| format!("cannot write `{PAGE}`"))?;
        eprintln!("bench: the table is in {PAGE}");
    }
    eprintln!("bench: every round is in {}", path.display());
    print!("{text}");
    Ok(())
}

/// The requested workloads, or all of them.
fn workloads(asked: &[String]) -> anyhow::Result<Vec<&'static BenchWorkload>> {
    const ALL: &[BenchWorkload] = &WORKLOADS;
    let ids = || ALL.iter().map(|workload| workload.id).collect::<Vec<_>>().join("`, `");
    for id in asked {
        ensure!(ALL.iter().any(|workload| workload.id == id), "no workload is called `{id}`, expected `{}`", ids());
    }
    Ok(ALL.iter().filter(|workload| asked.is_empty() || asked.iter().any(|id| id == workload.id)).collect())
}

/// The requested instruments, or all of them; always with the floor.
fn chosen(
    all: Vec<Instrument>,
    asked: &[String],
    skipped: &mut Vec<SkippedInstrument>,
) -> anyhow::Result<Vec<Instrument>> {
    let wanted = |id: &str| asked.is_empty() || id == FLOOR || asked.iter().any(|asked| asked == id);
    skipped.retain(|skipped| wanted(&skipped.instrument));
    for id in asked {
        if let Some(SkippedInstrument { reason, .. }) = skipped.iter().find(|skipped| skipped.instrument == *id) {
            bail!("`{id}` is {reason}");
        }
        let ids = || all.iter().map(|instrument| instrument.id.clone()).collect::<Vec<_>>().join("`, `");
        ensure!(all.iter().any(|known| known.id == *id), "no instrument is called `{id}`, expected `{}`", ids());
    }
    Ok(all.into_iter().filter(|instrument| wanted(&instrument.id)).collect())
}

/// The report, as it is printed and written into the page.
fn text(
    machine: &machine::MachineInfo,
    scale: BenchScale,
    found: &[WorkloadResult],
    skipped: &[SkippedInstrument],
) -> String {
    let part = if scale.part == 1 { String::new() } else { format!(" of 1/{} of the length", scale.part) };
    let mut text = format!("Measured on a {machine}; {} rounds{part}.\n", scale.rounds);
    for found in found {
        text += &format!("\n{}", found.section());
    }
    let not_run = table::skipped(skipped);
    if !not_run.is_empty() {
        text += &format!("\nNot measured here:\n\n{not_run}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::InstrumentKind;

    fn instrument(id: &str) -> Instrument {
        Instrument { id: id.to_owned(), title: id.to_owned(), kind: InstrumentKind::Nothing }
    }

    #[test]
    fn the_floor_is_always_among_the_chosen() {
        let all = || ["nothing", FLOOR, "runqlat"].map(instrument).into();
        let ids = |asked: &[String]| {
            let chosen = chosen(all(), asked, &mut Vec::new()).unwrap();
            chosen.into_iter().map(|instrument| instrument.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&["runqlat".to_owned()]), [FLOOR, "runqlat"]);
        assert_eq!(ids(&[]).len(), 3);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = workloads(&["pipes".to_owned()]).err().unwrap().to_string();
        assert!(error.starts_with("no workload is called `pipes`, expected `pipe`, `pipe-2`"), "{error}");
        let missing = SkippedInstrument {
            instrument: "x".into(),
            title: "X".into(),
            workload: None,
            reason: "not installed".into(),
        };
        let error = chosen(Vec::new(), &["x".to_owned()], &mut vec![missing]).err().unwrap().to_string();
        assert_eq!(error, "`x` is not installed");
    }
}
