//! The requirements of a measurement: whether they are met, and how to meet the others.

use anyhow::{Result, bail};
use serde::Serialize;

use super::{
    Features,
    btf::{KernelBtf, RingBufferSupport},
    lockdown::Lockdown,
    tracefs_access::TracefsAccess,
};
use crate::attach_choice::Attach;
use wakelat_core::report::Mode;

/// Something that wakelat needs or can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Requirement {
    /// The name of the requirement.
    pub name: &'static str,
    /// Whether the requirement is met.
    pub state: RequirementState,
    /// What was found, as text.
    pub found: String,
    /// How to meet the requirement; none if it is met.
    pub remedy: Option<String>,
}

/// Whether a requirement is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RequirementState {
    /// The requirement is met.
    Ok,
    /// The requirement is not met, and wakelat cannot measure without it.
    Missing,
    /// The requirement is not met and the measurement is limited; or it is met and worth mentioning.
    Note,
}

impl Requirement {
    /// A requirement that is met.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: RequirementState::Ok, found: found.into(), remedy: None }
    }

    /// A requirement that is not met, without which wakelat cannot measure.
    pub fn missing(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, state: RequirementState::Missing, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// A requirement that is not met, without which the measurement is limited.
    pub fn note(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, state: RequirementState::Note, found: found.into(), remedy: Some(remedy.into()) }
    }
}

/// All requirements of a measurement, in the order in which to meet them.
pub fn all(features: &Features, attach: Attach) -> Vec<Requirement> {
    let mut all = vec![capabilities(features), lockdown(features.lockdown)];
    all.extend(types(features, attach));
    all.push(ring_buffer(features, Mode::Aggregate));
    all.push(attachment(features, attach));
    all
}

/// Checks that a measurement can begin.
///
/// # Errors
/// The first missing requirement, with its remedy.
pub(super) fn check(features: &Features, attach: Attach, rt_priority: Option<u8>, mode: Mode) -> Result<()> {
    let mut needed = all(features, attach);
    needed.push(ring_buffer(features, mode));
    needed.extend(rt_priority.map(|priority| real_time(features, priority)));
    match needed.into_iter().find(|requirement| requirement.state == RequirementState::Missing) {
        Some(Requirement { found, remedy, .. }) => bail!("{found}; {}", remedy.unwrap_or_default()),
        None => Ok(()),
    }
}

fn capabilities(features: &Features) -> Requirement {
    const NAME: &str = "privilege";
    let missing = features.privileges.missing(&features.release);
    if !missing.is_empty() {
        let (noun, verb) = if missing.len() == 1 { ("capability", "is") } else { ("capabilities", "are") };
        let words: Vec<_> = missing.iter().map(|name| format!("`{name}`")).collect();
        let binary = std::env::current_exe().map_or_else(|_| "wakelat".to_owned(), |path| path.display().to_string());
        return Requirement::missing(
            NAME,
            format!("the {noun} {} {verb} missing", words.join(" and ")),
            format!(
                "run wakelat with `sudo`, or give them to the binary once: `sudo setcap {}+ep {binary}`",
                all_capabilities(features)
            ),
        );
    }
    if !features.privileges.first_user_namespace {
        return Requirement::missing(
            NAME,
            "wakelat runs in a user namespace, whose capabilities do not apply to the host",
            "run wakelat on the host, or in a container started with `--userns=host --privileged`",
        );
    }
    Requirement::ok(NAME, "BPF programs can be loaded and attached")
}

fn real_time(features: &Features, priority: u8) -> Requirement {
    const NAME: &str = "real-time priority";
    if priority <= features.privileges.max_rt_priority {
        return Requirement::ok(NAME, format!("{priority} is available"));
    }
    Requirement::missing(
        NAME,
        format!("the capability `cap_sys_nice` is missing for the real-time priority `{priority}`"),
        format!("run wakelat with `sudo`, raise the limit with `ulimit -r {priority}`, or leave out `--rt-priority`"),
    )
}

/// The capabilities for `setcap`. Not only the missing ones, because setting file capabilities replaces the
/// existing ones.
fn all_capabilities(features: &Features) -> &'static str {
    match &features.release {
        release if release.is_at_least(5, 11) => "cap_bpf,cap_perfmon",
        release if release.is_at_least(5, 8) => "cap_bpf,cap_perfmon,cap_sys_resource",
        _ => "cap_sys_admin,cap_sys_resource",
    }
}

fn lockdown(lockdown: Lockdown) -> Requirement {
    const NAME: &str = "lockdown";
    match lockdown {
        Lockdown::None => Requirement::ok(NAME, "none"),
        Lockdown::Integrity => Requirement::ok(NAME, "integrity: reading is allowed"),
        Lockdown::Confidentiality => Requirement::missing(
            NAME,
            "the kernel is locked down for confidentiality, so BPF programs cannot read its memory",
            "boot without `lockdown=confidentiality`, with a kernel that does not force it (`CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY`)",
        ),
    }
}

fn types(features: &Features, attach: Attach) -> Vec<Requirement> {
    const NAME: &str = "kernel types (BTF)";
    let path = features.btf_path.display();
    let records = features.uses_classic_tracepoints(attach);
    let missing_tracepoints = match &features.btf {
        KernelBtf::Missing => {
            let found = format!("the kernel has no BTF at `{path}`");
            let remedy = "use a kernel built with `CONFIG_DEBUG_INFO_BTF=y`, as most distributions do, or give its BTF with \
                          `--btf FILE`; sysfs must be mounted at `/sys`";
            return vec![if records {
                Requirement::note(NAME, format!("{found}: processes, policies and cgroups are unknown"), remedy)
            } else {
                Requirement::missing(NAME, found, remedy)
            }];
        }
        KernelBtf::Unusable(why) => {
            return vec![Requirement::missing(NAME, why, "check that the file belongs to this kernel and is readable")];
        }
        KernelBtf::Present { missing_tracepoints, .. } => missing_tracepoints,
    };
    let tracepoints = if missing_tracepoints.is_empty() {
        Requirement::ok("tracepoints", super::btf::TRACEPOINTS.join(", "))
    } else {
        Requirement::missing(
            "tracepoints",
            format!("the kernel's BTF lacks `{}`", missing_tracepoints.join("`, `")),
            "use a kernel built with `CONFIG_TRACEPOINTS=y` and `CONFIG_BPF_EVENTS=y`",
        )
    };
    vec![Requirement::ok(NAME, path.to_string()), tracepoints]
}

/// Checks the ring buffer. Aggregation in the kernel needs one too, but never writes to it; everything else
/// does.
fn ring_buffer(features: &Features, mode: Mode) -> Requirement {
    const NAME: &str = "ring buffer";
    let release = &features.release;
    match (features.ring_buffer(), mode) {
        (RingBufferSupport::Usable, _) => Requirement::ok(NAME, "usable"),
        (RingBufferSupport::Missing, _) => Requirement::missing(
            NAME,
            format!("the kernel `{release}` has no BPF ring buffer"),
            "use Linux 5.8 or later, built with `CONFIG_BPF_SYSCALL=y`",
        ),
        (RingBufferSupport::SleepingLock, mode) => {
            let found = format!(
                "on kernel `{release}` the BPF ring buffer can freeze the machine, because its lock sleeps with PREEMPT_RT"
            );
            let remedy = "use Linux 6.12 or later; here only what the kernel aggregates works: `hist` and `top` (without `--by`, \
                          or by `tid`, `pid`, `comm`, `cgroup`, `container`, `cpu` or `class`), `why --mode aggregate`, \
                          `record --keep hist` and `serve`";
            if mode == Mode::Aggregate {
                Requirement::note(NAME, found, remedy)
            } else {
                Requirement::missing(NAME, found, remedy)
            }
        }
    }
}

fn attachment(features: &Features, attach: Attach) -> Requirement {
    const NAME: &str = "attachment";
    if features.uses_classic_tracepoints(attach) {
        return match features.tracefs {
            TracefsAccess::Open { .. } => Requirement::ok(NAME, "classic tracepoints"),
            TracefsAccess::Denied(ref path) => Requirement::missing(
                NAME,
                format!("classic tracepoints need tracefs, and `{}` is not accessible to this user", path.display()),
                "run wakelat with `sudo`",
            ),
            TracefsAccess::NotMounted => Requirement::missing(
                NAME,
                "classic tracepoints need tracefs, which is not mounted",
                "mount -t tracefs nodev /sys/kernel/tracing",
            ),
        };
    }
    match (features.typed_tracepoints(), attach) {
        (_, Attach::Raw) => Requirement::ok(NAME, "raw tracepoints (raw_tp), as requested"),
        (false, Attach::Btf) => Requirement::missing(
            NAME,
            format!("the kernel `{}` has no typed tracepoints", features.release),
            "use Linux 5.5 or later with BTF, or `--attach auto`",
        ),
        (true, _) => Requirement::ok(NAME, "typed tracepoints (tp_btf)"),
        (false, _) => Requirement::note(
            NAME,
            "raw tracepoints (raw_tp): more overhead than typed ones",
            "use Linux 5.5 or later with BTF",
        ),
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::CapabilitySet;

    use super::*;
    use crate::{release::Release, testing::everything};

    fn error(features: &Features, attach: Attach) -> String {
        format!("{:#}", check(features, attach, None, Mode::Samples).unwrap_err())
    }

    #[test]
    fn a_real_time_priority_needs_its_own_privilege() {
        let mut features = everything();
        let check = |features: &Features, priority| check(features, Attach::Auto, priority, Mode::Samples);
        check(&features, Some(50)).unwrap();
        features.privileges.max_rt_priority = 49;
        check(&features, None).unwrap();
        let text = check(&features, Some(50)).unwrap_err().to_string();
        assert!(text.contains("`cap_sys_nice` is missing") && text.contains("ulimit -r 50"), "{text}");
    }

    #[test]
    fn a_measurement_can_begin_if_all_requirements_are_met() {
        for attach in [Attach::Auto, Attach::Btf, Attach::Raw] {
            check(&everything(), attach, None, Mode::Samples).unwrap();
        }
    }

    #[test]
    fn the_error_for_a_missing_capability_has_both_remedies() {
        let mut features = everything();
        features.privileges.effective = CapabilitySet::BPF;
        let text = error(&features, Attach::Auto);
        assert!(text.starts_with("the capability `cap_perfmon` is missing; run wakelat with `sudo`"), "{text}");
        assert!(text.contains("`sudo setcap cap_bpf,cap_perfmon+ep /"), "{text}");
        features.privileges.effective = CapabilitySet::empty();
        assert!(error(&features, Attach::Auto).starts_with("the capabilities `cap_bpf` and `cap_perfmon` are missing"));
    }

    #[test]
    fn root_of_a_user_namespace_is_not_root() {
        let mut features = everything();
        features.privileges.first_user_namespace = false;
        assert!(error(&features, Attach::Auto).contains("user namespace"));
    }

    #[test]
    fn the_error_for_a_kernel_without_btf_names_the_kernel_option() {
        let features = Features { btf: KernelBtf::Missing, ..everything() };
        let text = error(&features, Attach::Raw);
        assert!(
            text.contains("no BTF at `/sys/kernel/btf/vmlinux`") && text.contains("CONFIG_DEBUG_INFO_BTF=y"),
            "{text}"
        );
    }

    #[test]
    fn without_btf_classic_tracepoints_suffice_if_tracefs_is_accessible() {
        let features = Features { btf: KernelBtf::Missing, ..everything() };
        check(&features, Attach::Auto, None, Mode::Samples).unwrap();
        check(&features, Attach::Classic, None, Mode::Samples).unwrap();
        let blind = Features { tracefs: TracefsAccess::NotMounted, ..features };
        assert!(error(&blind, Attach::Auto).contains("mount -t tracefs"));
        let closed = Features { tracefs: TracefsAccess::Denied("/sys/kernel/tracing".into()), ..everything() };
        let text = error(&closed, Attach::Classic);
        assert!(
            text.contains("not accessible to this user; run wakelat with `sudo`") && !text.contains("mount"),
            "{text}"
        );
        check(&Features { tracefs: TracefsAccess::NotMounted, ..everything() }, Attach::Auto, None, Mode::Samples)
            .unwrap();
    }

    #[test]
    fn a_missing_tracepoint_and_a_missing_ring_buffer_are_named() {
        let btf =
            KernelBtf::Present { missing_tracepoints: vec!["sched_waking"], ring_buffer: RingBufferSupport::Usable };
        assert!(error(&Features { btf, ..everything() }, Attach::Auto).contains("lacks `sched_waking`"));
        let btf = KernelBtf::Present { missing_tracepoints: Vec::new(), ring_buffer: RingBufferSupport::Missing };
        let text = error(&Features { btf, ..everything() }, Attach::Auto);
        assert!(text.contains("`6.12.0` has no BPF ring buffer") && text.contains("5.8"), "{text}");
    }

    #[test]
    fn a_ring_buffer_that_can_freeze_the_machine_allows_only_aggregation_in_the_kernel() {
        let btf = KernelBtf::Present { missing_tracepoints: Vec::new(), ring_buffer: RingBufferSupport::SleepingLock };
        let features = Features { release: Release::parse("5.10.0-43-rt-amd64"), btf, ..everything() };
        let text = error(&features, Attach::Auto);
        assert!(text.contains("`5.10.0-43-rt-amd64` the BPF ring buffer can freeze the machine"), "{text}");
        assert!(text.contains("`why --mode aggregate`") && text.contains("`serve`"), "{text}");
        check(&features, Attach::Auto, None, Mode::Aggregate).unwrap();
        let checklist = all(&features, Attach::Auto);
        assert_eq!(checklist.iter().find(|check| check.name == "ring buffer").unwrap().state, RequirementState::Note);
    }

    #[test]
    fn lockdown_for_confidentiality_prevents_measuring() {
        let features = Features { lockdown: Lockdown::Confidentiality, ..everything() };
        assert!(error(&features, Attach::Auto).contains("boot without `lockdown=confidentiality`"));
        check(&Features { lockdown: Lockdown::Integrity, ..everything() }, Attach::Auto, None, Mode::Samples).unwrap();
    }

    #[test]
    fn typed_tracepoints_are_required_only_on_request() {
        let features = Features { release: Release::parse("5.4.0-rh"), ..everything() };
        check(&features, Attach::Auto, None, Mode::Samples).unwrap();
        check(&features, Attach::Raw, None, Mode::Samples).unwrap();
        assert!(error(&features, Attach::Btf).contains("`--attach auto`"));
    }
}
