//! The `doctor` checklist: what this kernel and this user can do, and how to fix the rest.

use std::{io::Write, path::Path};

use anyhow::Result;
use serde::Serialize;

use super::print::print;
use crate::config::{Attach, OutputConfig};
use wakelat_core::render::{
    OutputFormat, Style,
    style::TextStyle,
    text_line::{TextLine, clean, width},
};
use wakelat_kernel::{
    Features, Machine, Roots,
    requirement::{self, Requirement, RequirementState},
    tracefs_access::TracefsAccess,
};
use wakelat_tracefs::{TracefsMount, leftovers, osnoise_tracers::saved_settings};

/// The checklist in JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Checklist<'a> {
    /// `wakelat.doctor/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.doctor/1")))]
    schema: &'static str,
    /// Kernel release.
    kernel: String,
    /// Whether wakelat can measure here: exit code 0, otherwise 1.
    can_measure: bool,
    /// The checks, in the order of the text.
    checks: &'a [Requirement],
}

/// `doctor`: checks this kernel and this user. Returns whether wakelat can measure.
///
/// # Errors
/// If the output cannot be written.
pub fn doctor(output: &OutputConfig) -> Result<bool> {
    let json = output.format == OutputFormat::Json;
    let mut can_measure = false;
    print(output, |style, out| {
        can_measure = write(&Features::detect(None), machine(Machine::detect()), json, style, out)?;
        Ok(())
    })?;
    Ok(can_measure)
}

/// The requirement of every measuring command: procfs and sysfs can be read. `None` if they can.
fn machine(detected: Result<Machine>) -> Option<Requirement> {
    let error = detected.err()?;
    let remedy = "mount them: `mount -t proc proc /proc`, `mount -t sysfs sysfs /sys`";
    Some(Requirement::missing("procfs and sysfs", format!("{error:#}"), remedy))
}

fn write(
    features: &Features,
    machine: Option<Requirement>,
    json: bool,
    style: &Style,
    out: &mut dyn Write,
) -> Result<bool> {
    let needed: Vec<_> = machine.into_iter().chain(requirement::all(features, Attach::Auto)).collect();
    let can_measure = needed.iter().all(|requirement| requirement.state != RequirementState::Missing);
    let checks: Vec<_> = [kernel(features)].into_iter().chain(needed).chain(useful(features)).collect();
    if json {
        let kernel = features.release.to_string();
        let list = Checklist { schema: "wakelat.doctor/1", kernel, can_measure, checks: &checks };
        serde_json::to_writer(&mut *out, &list)?;
        writeln!(out)?;
    } else {
        out.write_all(text(&checks, can_measure, style).as_bytes())?;
    }
    Ok(can_measure)
}

/// On narrower terminals, the findings go below the names: columns.
const BESIDE: usize = 72;

fn text(checks: &[Requirement], can_measure: bool, style: &Style) -> String {
    let mut out = String::new();
    let names = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for Requirement { name, state, found, remedy } in checks {
        let (ink, word) = match state {
            RequirementState::Ok => (TextStyle::Plain, "ok"),
            RequirementState::Missing => (TextStyle::Warning, "missing"),
            RequirementState::Note => (TextStyle::Strong, "note"),
        };
        let mut head = TextLine::of(ink, format!("{word:<7}"));
        head.push(TextStyle::Plain, format!("  {name:<names$}  "));
        if style.columns() < BESIDE {
            head.finish(style, &mut out);
            head = TextLine::of(TextStyle::Plain, "  ");
        }
        let indent = " ".repeat(head.width());
        wrapped(head, &clean(found, style), style, &mut out);
        if let Some(remedy) = remedy {
            wrapped(TextLine::of(TextStyle::Plain, format!("{indent}-> ")), &clean(remedy, style), style, &mut out);
        }
    }
    let verdict = if can_measure { "wakelat can measure here" } else { "wakelat cannot measure here" };
    out.push('\n');
    TextLine::of(TextStyle::Strong, verdict).finish(style, &mut out);
    out
}

/// Appends `text` after `head`, wrapped between words but not within a command in backticks, and never
/// truncated, because commands are copied.
fn wrapped(head: TextLine, text: &str, style: &Style, out: &mut String) {
    let indent = head.width();
    let mut line = head;
    let mut quoted = false;
    let pieces = text.split(|c: char| {
        quoted ^= c == '`';
        c == ' ' && !quoted
    });
    for piece in pieces {
        if line.width() > indent {
            if line.width() + 1 + width(piece) > style.columns() {
                line.finish_within(usize::MAX, style, out);
                line = TextLine::of(TextStyle::Plain, " ".repeat(indent));
            } else {
                line.push(TextStyle::Plain, " ");
            }
        }
        line.push(TextStyle::Plain, piece);
    }
    line.finish_within(usize::MAX, style, out);
}

fn kernel(features: &Features) -> Requirement {
    let release = features.release.to_string();
    if features.release.is_at_least(5, 10) {
        Requirement::ok("kernel", release)
    } else {
        Requirement::note("kernel", release, "use Linux 5.10 or later; wakelat is not tested on older kernels")
    }
}

/// Optional features, without which wakelat measures less well.
fn useful(features: &Features) -> Vec<Requirement> {
    let mut useful = vec![
        if features.counts_missed_runs() {
            Requirement::ok("missed events", "the kernel counts them")
        } else {
            Requirement::note(
                "missed events",
                "the kernel does not count them",
                "use Linux 5.12 or later; without BTF, 6.7 or later",
            )
        },
        if features.first_pid_namespace {
            Requirement::ok("pid namespace", "the initial namespace")
        } else {
            Requirement::note(
                "pid namespace",
                "the namespace of a container: reports show IDs of the host, and `--pid` and `--tid` do not work",
                "run wakelat on the host, or in a container started with `--pid=host`",
            )
        },
        match &features.cgroup_v2 {
            Some(path) => Requirement::ok("cgroup v2", path.display().to_string()),
            None => Requirement::note(
                "cgroup v2",
                "not mounted: `--cgroup` and `--by cgroup` are not available",
                "boot with `systemd.unified_cgroup_hierarchy=1`, or mount it: `mount -t cgroup2 none DIRECTORY`",
            ),
        },
        if features.schedstat {
            Requirement::ok(
                "schedstat",
                "`/proc/PID/schedstat` counts runqueue waits; `wakelat verify` compares with it",
            )
        } else {
            Requirement::note(
                "schedstat",
                "`/proc/PID/schedstat` does not count runqueue waits",
                "use a kernel built with `CONFIG_SCHEDSTATS=y` or `CONFIG_TASK_DELAY_ACCT=y`",
            )
        },
    ];
    useful.extend(sandbox(features));
    useful.extend(tracing(&features.tracefs));
    useful.extend(
        features.cpus_online.iter().map(|cpus| Requirement::ok("CPUs online", format!("{} ({cpus})", cpus.count()))),
    );
    useful.extend(features.clock_source.iter().map(|source| Requirement::ok("clock source", source)));
    useful
}

/// What restricts wakelat after it has dropped its capabilities, besides these.
fn sandbox(features: &Features) -> [Requirement; 2] {
    [
        match features.landlock_abi {
            Some(abi) => Requirement::ok("landlock", format!("ABI {abi}: restricts files while wakelat measures")),
            None => Requirement::note(
                "landlock",
                "not available: while it measures, wakelat can open any file that its user may read",
                "use Linux 5.13 or later, built with `CONFIG_SECURITY_LANDLOCK=y` and booted with `landlock` in `lsm=`",
            ),
        },
        if features.seccomp {
            Requirement::ok("seccomp", "restricts system calls while wakelat measures")
        } else {
            Requirement::note(
                "seccomp",
                "not available: system calls are not restricted while wakelat measures",
                "use a kernel built with `CONFIG_SECCOMP_FILTER=y`, on x86-64 or aarch64",
            )
        },
    ]
}

/// Checks of tracefs, which wakelat does not need for measuring but the other instruments do.
fn tracing(tracefs: &TracefsAccess) -> Vec<Requirement> {
    let (path, hist_triggers, tracers) = match tracefs {
        TracefsAccess::NotMounted => {
            let remedy = "mount -t tracefs nodev /sys/kernel/tracing";
            return vec![Requirement::note("tracefs", "not mounted; measuring does not need it", remedy)];
        }
        TracefsAccess::Denied(path) => {
            let found = format!("{}: not accessible to this user; measuring does not need it", path.display());
            return vec![Requirement::note("tracefs", found, "run `sudo wakelat doctor` to check the rest")];
        }
        TracefsAccess::Open { path, hist_triggers, tracers } => (path, *hist_triggers, tracers),
    };
    let mut found = vec![Requirement::ok("tracefs", path.display().to_string())];
    found.push(if hist_triggers {
        Requirement::ok("hist triggers", "available; `wakelat verify` compares with them")
    } else {
        Requirement::note("hist triggers", "not in this kernel", "use a kernel built with `CONFIG_HIST_TRIGGERS=y`")
    });
    for leftover in leftovers::find(&TracefsMount::at(path), &Roots::default().proc) {
        let remedy = "run `wakelat verify`, which removes it when it starts";
        found.push(Requirement::note("left behind", leftover.to_string(), remedy));
    }
    for owner in saved_settings::leftovers(Path::new(saved_settings::STATE_DIR), &Roots::default().proc) {
        let what = format!("tracer settings changed by process {}, which has exited", owner.pid);
        let remedy = "run `wakelat timerlat` or `wakelat osnoise`, which restores the original settings when it starts";
        found.push(Requirement::note("left behind", what, remedy));
    }
    for (name, option) in [("osnoise", "CONFIG_OSNOISE_TRACER"), ("timerlat", "CONFIG_TIMERLAT_TRACER")] {
        found.push(if tracers.iter().any(|tracer| tracer == name) {
            Requirement::ok(name, "available")
        } else {
            Requirement::note(name, "not in this kernel", format!("use a kernel built with `{option}=y`"))
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use rustix::thread::CapabilitySet;

    use super::*;
    use wakelat_kernel::{btf::KernelBtf, cpus::Cpus, privilege::Privileges, release::Release, testing::everything};

    fn shown_at(features: &Features, json: bool, width: usize) -> (bool, String) {
        let mut out = Vec::new();
        let style = Style { width, ..Style::default() };
        let can_measure = write(features, None, json, &style, &mut out).unwrap();
        // The path of the binary in the remedy is that of the test.
        let exe = std::env::current_exe().unwrap().display().to_string();
        (can_measure, String::from_utf8(out).unwrap().replace(&exe, "/usr/bin/wakelat"))
    }

    fn shown(features: &Features, json: bool) -> (bool, String) {
        shown_at(features, json, 80)
    }

    /// An old kernel without any feature, and a user without privileges.
    fn nothing() -> Features {
        Features {
            release: Release::parse("5.4.0"),
            btf: KernelBtf::Missing,
            privileges: Privileges {
                effective: CapabilitySet::empty(),
                first_user_namespace: false,
                memory_unlimited: false,
                max_rt_priority: 0,
            },
            first_pid_namespace: false,
            tracefs: TracefsAccess::NotMounted,
            cgroup_v2: None,
            schedstat: false,
            landlock_abi: None,
            seccomp: false,
            cpus_online: Some(Cpus::parse("0").unwrap()),
            clock_source: None,
            ..everything()
        }
    }

    #[test]
    fn a_kernel_with_everything_can_measure() {
        let (can_measure, text) = shown(&everything(), false);
        assert!(can_measure);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn what_is_missing_comes_with_its_remedy() {
        let (can_measure, text) = shown(&nothing(), false);
        assert!(!can_measure);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_json_checklist_has_the_same_content() {
        let (_, text) = shown(&nothing(), true);
        assert_eq!((text.lines().count(), text.starts_with("{\"schema\":\"wakelat.doctor/1\",")), (1, true), "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["schema"], "wakelat.doctor/1");
        assert_eq!(json["can_measure"], false);
        let checks = json["checks"].as_array().unwrap();
        let privilege = checks.iter().find(|check| check["name"] == "privilege").unwrap();
        assert_eq!(privilege["state"], "missing");
        assert!(privilege["remedy"].as_str().unwrap().contains("setcap"));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_except_for_a_command() {
        for width in [40, 80] {
            for features in [nothing(), everything()] {
                let (_, text) = shown_at(&features, false, width);
                let is_command = |line: &str| line.trim().trim_start_matches("-> ").starts_with('`');
                assert!(text.lines().all(|line| line.len() <= width || is_command(line)), "{width}:\n{text}");
            }
        }
    }

    #[test]
    fn unreadable_procfs_is_a_missing_requirement() {
        let requirement = machine(Err(anyhow::anyhow!("cannot read `/proc/self/mountinfo`"))).unwrap();
        let mut out = Vec::new();
        let can_measure = write(&everything(), Some(requirement), false, &Style::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            !can_measure && text.contains("cannot read `/proc/self/mountinfo`") && text.contains("mount -t proc"),
            "{text}"
        );
    }

    /// With `WAKELAT_ACCEPT_SCHEMAS` set, the test writes the schema.
    #[test]
    fn the_schema_is_that_of_the_type_and_what_is_written_is_valid() {
        json_schemas::assert_current::<Checklist>();
        for features in [nothing(), everything()] {
            assert_eq!(json_schemas::assert_valid(&shown(&features, true).1), 1);
        }
    }

    #[test]
    fn the_doctor_needs_no_privilege() {
        let mut out = Vec::new();
        write(&Features::detect(None), machine(Machine::detect()), false, &Style::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("wakelat can measure here\n") || text.ends_with("wakelat cannot measure here\n"));
    }
}
