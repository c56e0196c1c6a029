//! The scheduler of fair tasks.

use std::fs;

use super::{Roots, release::Release};

/// Its name: that of the loaded sched_ext scheduler (`/sys/kernel/sched_ext/root/ops`, Documentation/scheduler/sched-ext.rst,
/// from 6.12 on), or `EEVDF` from 6.6 on (kernel/sched/fair.c), or `CFS` before.
pub fn name(roots: &Roots, release: &Release) -> String {
    let loaded = fs::read_to_string(roots.sys.join("kernel/sched_ext/root/ops")).unwrap_or_default();
    match loaded.trim() {
        "" if release.is_at_least(6, 6) => "EEVDF".to_owned(),
        "" => "CFS".to_owned(),
        ops => format!("sched_ext: {ops}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_scheduler_comes_before_that_of_the_release() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots { sys: directory.path().into(), ..Roots::default() };
        let releases = ["5.10.0", "6.6.1"].map(Release::parse);
        assert_eq!(releases.each_ref().map(|release| name(&roots, release)), ["CFS", "EEVDF"]);
        fs::create_dir_all(roots.sys.join("kernel/sched_ext/root")).unwrap();
        fs::write(roots.sys.join("kernel/sched_ext/root/ops"), "lavd_1.0\n").unwrap();
        assert_eq!(name(&roots, &Release::parse("6.12")), "sched_ext: lavd_1.0");
    }
}
