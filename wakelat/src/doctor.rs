//! The checklist: what this kernel and this user can do, and what to do about the rest.

use std::{io::Write, path::Path};

use anyhow::Result;
use serde::Serialize;

use crate::{
    config::{Attach, Doctor},
    kernel::{
        Features, Roots,
        requirement::{self, Requirement, State},
        tracefs::Tracefs,
    },
    timerlat::live::former,
    tracefs::{self, leftovers},
};

/// The checklist as JSON.
#[derive(Serialize)]
struct Checklist<'a> {
    schema: &'static str,
    kernel: String,
    can_measure: bool,
    checks: &'a [Requirement],
}

/// Looks at this kernel and this user, and writes what was found. Returns whether measuring is possible.
///
/// # Errors
/// Where writing fails.
pub fn run(doctor: Doctor, out: &mut dyn Write) -> Result<bool> {
    write(&Features::detect(None), doctor, out)
}

fn write(features: &Features, doctor: Doctor, out: &mut dyn Write) -> Result<bool> {
    let needed = requirement::all(features, Attach::Auto);
    let can_measure = needed.iter().all(|requirement| requirement.state != State::Missing);
    let checks: Vec<_> = [kernel(features)].into_iter().chain(needed).chain(useful(features)).collect();
    if doctor.json {
        let kernel = features.release.to_string();
        let list = Checklist { schema: "wakelat.doctor/1", kernel, can_measure, checks: &checks };
        serde_json::to_writer_pretty(&mut *out, &list)?;
        writeln!(out)?;
    } else {
        text(&checks, can_measure, out)?;
    }
    Ok(can_measure)
}

fn text(checks: &[Requirement], can_measure: bool, out: &mut dyn Write) -> Result<()> {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for Requirement { name, state, found, remedy } in checks {
        let word = match state {
            State::Ok => "ok",
            State::Missing => "missing",
            State::Note => "note",
        };
        writeln!(out, "{word:<7}  {name:<width$}  {found}")?;
        if let Some(remedy) = remedy {
            writeln!(out, "{:<7}  {:<width$}  -> {remedy}", "", "")?;
        }
    }
    let verdict = if can_measure { "wakelat can measure here" } else { "wakelat cannot measure here" };
    writeln!(out, "\n{verdict}")?;
    Ok(())
}

fn kernel(features: &Features) -> Requirement {
    let release = features.release.to_string();
    if features.release.is_at_least(5, 10) {
        Requirement::ok("kernel", release)
    } else {
        Requirement::note("kernel", release, "Linux 5.10 is the oldest that wakelat is tested on")
    }
}

/// What wakelat measures without, but not as well.
fn useful(features: &Features) -> Vec<Requirement> {
    let mut useful = vec![
        if features.counts_missed_runs() {
            Requirement::ok("missed events", "the kernel counts them")
        } else {
            Requirement::note("missed events", "the kernel does not count them", "use Linux 5.12 or later")
        },
        if features.first_pid_namespace {
            Requirement::ok("pid namespace", "the machine's own")
        } else {
            Requirement::note(
                "pid namespace",
                "a container's: ids in reports are the machine's, `--pid` and `--tid` are refused",
                "run it outside of it, or in a container with `--pid=host`",
            )
        },
        match &features.cgroup_v2 {
            Some(path) => Requirement::ok("cgroup v2", path.display().to_string()),
            None => Requirement::note(
                "cgroup v2",
                "not mounted: `--cgroup` and `--by cgroup` are not available",
                "mount -t cgroup2 none /sys/fs/cgroup/unified",
            ),
        },
        if features.schedstat {
            Requirement::ok("schedstat", "`/proc/PID/schedstat` counts run-queue waits: a second opinion")
        } else {
            Requirement::note(
                "schedstat",
                "`/proc/PID/schedstat` does not count",
                "kernel option `CONFIG_SCHED_INFO=y`",
            )
        },
    ];
    useful.extend(tracing(&features.tracefs));
    useful.extend(
        features.cpus_online.iter().map(|cpus| Requirement::ok("CPUs online", format!("{} ({cpus})", cpus.count()))),
    );
    useful.extend(features.clock_source.iter().map(|source| Requirement::ok("clock source", source)));
    useful
}

/// wakelat measures without tracefs; it is where other instruments are.
fn tracing(tracefs: &Tracefs) -> Vec<Requirement> {
    let (path, hist_triggers, tracers) = match tracefs {
        Tracefs::NotMounted => {
            let remedy = "mount -t tracefs nodev /sys/kernel/tracing";
            return vec![Requirement::note("tracefs", "not mounted; measuring does not need it", remedy)];
        }
        Tracefs::Closed(path) => {
            let found = format!("{}: closed to this user; measuring does not need it", path.display());
            return vec![Requirement::note("tracefs", found, "run it with `sudo` to see what it offers")];
        }
        Tracefs::Open { path, hist_triggers, tracers } => (path, *hist_triggers, tracers),
    };
    let mut found = vec![Requirement::ok("tracefs", path.display().to_string())];
    found.push(if hist_triggers {
        Requirement::ok("hist triggers", "there: a second opinion")
    } else {
        Requirement::note("hist triggers", "not in this kernel", "kernel option `CONFIG_HIST_TRIGGERS=y`")
    });
    for leftover in leftovers::find(&tracefs::Tracefs::at(path), &Roots::default().proc) {
        let remedy = "`wakelat verify` removes it at its start";
        found.push(Requirement::note("left behind", leftover.to_string(), remedy));
    }
    for owner in former::leftovers(Path::new(former::NOTES), &Roots::default().proc) {
        let what = format!("settings of the tracers, by process {}, which is gone", owner.pid);
        let remedy = "`wakelat timerlat` or `wakelat osnoise` puts back what was there before, at its start";
        found.push(Requirement::note("left behind", what, remedy));
    }
    for (name, option) in [("osnoise", "CONFIG_OSNOISE_TRACER"), ("timerlat", "CONFIG_TIMERLAT_TRACER")] {
        found.push(if tracers.iter().any(|tracer| tracer == name) {
            Requirement::ok(name, "there")
        } else {
            Requirement::note(name, "not in this kernel", format!("kernel option `{option}=y`"))
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use rustix::thread::CapabilitySet;

    use super::*;
    use crate::kernel::{
        btf::KernelBtf, cpus::Cpus, privilege::Privileges, release::Release, requirement::tests::everything,
    };

    fn shown(features: &Features, json: bool) -> (bool, String) {
        let mut out = Vec::new();
        let can_measure = write(features, Doctor { json }, &mut out).unwrap();
        // The binary's path in the remedy is the test's own.
        let exe = std::env::current_exe().unwrap().display().to_string();
        (can_measure, String::from_utf8(out).unwrap().replace(&exe, "/usr/bin/wakelat"))
    }

    /// An old kernel without anything, and a user without privilege.
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
            tracefs: Tracefs::NotMounted,
            cgroup_v2: None,
            schedstat: false,
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
    fn the_checklist_as_json_says_the_same() {
        let (_, text) = shown(&nothing(), true);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["schema"], "wakelat.doctor/1");
        assert_eq!(json["can_measure"], false);
        let checks = json["checks"].as_array().unwrap();
        let privilege = checks.iter().find(|check| check["name"] == "privilege").unwrap();
        assert_eq!(privilege["state"], "missing");
        assert!(privilege["remedy"].as_str().unwrap().contains("setcap"));
    }

    #[test]
    fn the_doctor_works_for_anybody_on_this_machine() {
        let mut out = Vec::new();
        run(Doctor { json: false }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("wakelat can measure here\n") || text.ends_with("wakelat cannot measure here\n"));
    }
}
