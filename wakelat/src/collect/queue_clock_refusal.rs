//! Why the run queue's clock cannot measure here, and the remedy, for what needs it.

use super::Settings;

/// The text if the kernel lacks the field `missing`, which is `structure.member`.
pub(super) fn missing_field(settings: &Settings, missing: &str) -> String {
    let remedy = match settings.causes {
        None => "use `--from wakeup`",
        Some(_) if settings.is_service => "use a kernel with CONFIG_SCHED_INFO and CONFIG_FAIR_GROUP_SCHED",
        Some(_) => "use `--mode samples`",
    };
    format!("{} cannot be used: this kernel has no `{missing}`; {remedy}", needed_by(settings))
}

/// The text if only classic tracepoints can be used.
pub(super) fn classic_tracepoints(settings: &Settings) -> String {
    let remedy = match settings.btf {
        Some(_) => "leave out `--attach classic`",
        None => "use a kernel with BTF or give its BTF with `--btf FILE`",
    };
    // Causes and events need BTF whichever clock measures the waits.
    let has_other_clock = settings.causes.is_none() && settings.timeline.is_none();
    let other_clock = if has_other_clock { ", or use `--from wakeup`" } else { "" };
    format!(
        "{} reads the run queue's clock from kernel structures, which records of classic tracepoints do not contain; \
         {remedy}{other_clock}",
        needed_by(settings)
    )
}

/// What needs the run queue's clock.
fn needed_by(settings: &Settings) -> &'static str {
    match settings.causes {
        None => "`--from queued`",
        Some(_) if settings.is_service => "`serve`",
        Some(_) => "`why --mode aggregate`",
    }
}

#[cfg(test)]
mod tests {
    use wakelat_core::why::counted::CauseGroups;

    use super::*;
    use crate::collect::{CauseSettings, load::tests::settings};

    /// The settings of `--from queued`, of `why --mode aggregate` and of `serve`.
    fn all() -> [Settings; 3] {
        let causes = Some(CauseSettings { groups: CauseGroups::Cgroups, trace_interrupts: false });
        [settings(), Settings { causes, ..settings() }, Settings { causes, is_service: true, ..settings() }]
    }

    #[test]
    fn the_remedy_for_a_missing_field_is_one_of_the_command() {
        let [queued, causes, service] = all().map(|settings| missing_field(&settings, "rq.clock"));
        assert_eq!(queued, "`--from queued` cannot be used: this kernel has no `rq.clock`; use `--from wakeup`");
        assert!(causes.starts_with("`why --mode aggregate` ") && causes.ends_with("use `--mode samples`"), "{causes}");
        assert!(service.starts_with("`serve` ") && service.contains("CONFIG_SCHED_INFO"), "{service}");
    }

    #[test]
    fn the_remedy_for_classic_tracepoints_is_one_of_the_command() {
        let [queued, causes, service] = all().map(|settings| classic_tracepoints(&settings));
        assert!(queued.starts_with("`--from queued` ") && queued.ends_with("or use `--from wakeup`"), "{queued}");
        assert!(causes.starts_with("`why --mode aggregate` ") && causes.ends_with("`--btf FILE`"), "{causes}");
        assert!(service.starts_with("`serve` ") && service.ends_with("`--btf FILE`"), "{service}");
    }

    #[test]
    fn classic_tracepoints_on_a_kernel_with_btf_were_requested() {
        let [_, causes, _] = all().map(|all| classic_tracepoints(&Settings { btf: Some("vmlinux".into()), ..all }));
        assert!(causes.ends_with("leave out `--attach classic`"), "{causes}");
    }
}
