//! The kernels every change is tested on.

use std::fmt;

/// A kernel by what it is, not by where it lies: the newest build of it in the suite is the one that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Debian suite whose packages hold it.
    pub suite: &'static str,
    /// The first two numbers of its version, such as `6.12`.
    pub series: &'static str,
    /// How it is configured.
    pub flavour: Flavour,
}

/// How Debian configures a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// For virtual machines: small; has hist triggers from 6.1 on, and no tracers.
    Cloud,
    /// PREEMPT_RT; the only one with the osnoise and timerlat tracers.
    Rt,
}

impl Flavour {
    /// The last part of the package's name.
    pub fn package_suffix(self) -> &'static str {
        match self {
            Self::Cloud => "cloud-amd64",
            Self::Rt => "rt-amd64",
        }
    }
}

impl fmt::Display for Spec {
    /// What `--kernel` takes, such as `6.12-rt`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flavour = match self.flavour {
            Flavour::Cloud => "cloud",
            Flavour::Rt => "rt",
        };
        f.pad(&format!("{}-{flavour}", self.series))
    }
}

const fn spec(suite: &'static str, series: &'static str, flavour: Flavour) -> Spec {
    Spec { suite, series, flavour }
}

/// Oldest first. Each is there for something the others do not have.
pub const KERNELS: &[Spec] = &[
    // sched_switch with three arguments, `task_struct.state`, no hist triggers, no osnoise.
    spec("bullseye-security", "5.10", Flavour::Cloud),
    // The oldest hist triggers.
    spec("bookworm-security", "6.1", Flavour::Cloud),
    // Event records with one more common field; timerlat without sample tracepoints and without `timerlat_fd`.
    spec("bookworm-security", "6.1", Flavour::Rt),
    spec("bookworm-security", "6.12", Flavour::Cloud),
    // timerlat without sample tracepoints, with `timerlat_fd`.
    spec("bookworm-security", "6.12", Flavour::Rt),
    // The tracepoints `timerlat_sample` and `osnoise_sample`.
    spec("trixie-backports", "6.19", Flavour::Rt),
    // Lazy preemption, sched_ext, `timerlat_align_us`.
    spec("trixie-backports", "7.2", Flavour::Cloud),
    spec("trixie-backports", "7.2", Flavour::Rt),
];

/// The kernels of the given names, in the list's order; all of them where no name is given.
///
/// # Errors
/// A name that is not in the list.
pub fn select(names: &[String]) -> anyhow::Result<Vec<Spec>> {
    for name in names {
        if !KERNELS.iter().any(|kernel| kernel.to_string() == *name) {
            let known: Vec<String> = KERNELS.iter().map(Spec::to_string).collect();
            anyhow::bail!("no kernel `{name}` in the list; there are {}", known.join(", "));
        }
    }
    let wanted = |kernel: &&Spec| names.is_empty() || names.contains(&kernel.to_string());
    Ok(KERNELS.iter().filter(wanted).copied().collect())
}

/// The first of each series.
pub fn one_of_each_series(specs: &[Spec]) -> Vec<Spec> {
    let mut first: Vec<Spec> = specs.to_vec();
    first.dedup_by_key(|spec| spec.series);
    first
}

/// The package names of `spec` among all the suite's, newest first.
///
/// Debian has changed the scheme: up to 6.18 the kernel is in `linux-image-*`; later that is a package of links, and the
/// kernel is in `linux-binary-*`.
pub fn packages_of(spec: &Spec, names: &[String]) -> Vec<String> {
    let builds_of = |kind: &str| {
        let prefix = format!("linux-{kind}-{}.", spec.series);
        let suffix = format!("-{}", spec.flavour.package_suffix());
        let mut found: Vec<(Vec<u64>, &String)> = names
            .iter()
            .filter_map(|name| {
                let build = name.strip_prefix(&prefix)?.strip_suffix(&suffix)?;
                // `6.1.0-48` and `6.12.117+deb12`, but not the `6.1.0-48-cloud` of a longer flavour.
                let plain = build.replace("deb", "").chars().all(|c| c.is_ascii_digit() || ".+-~".contains(c));
                plain.then(|| (numbers(build), name))
            })
            .collect();
        found.sort();
        found.reverse();
        found.into_iter().map(|(_, name)| name.clone()).collect::<Vec<_>>()
    };
    let binaries = builds_of("binary");
    if binaries.is_empty() { builds_of("image") } else { binaries }
}

/// The numbers in a version, so that build 48 comes before build 107.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn names_are_unique_and_select_in_the_order_of_the_list() {
        let mut names: Vec<String> = KERNELS.iter().map(Spec::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), KERNELS.len());
        let chosen = select(&owned(&["7.2-rt", "5.10-cloud"])).unwrap();
        assert_eq!(chosen.iter().map(Spec::to_string).collect::<Vec<_>>(), ["5.10-cloud", "7.2-rt"]);
        assert_eq!(select(&[]).unwrap(), KERNELS);
    }

    #[test]
    fn of_each_series_there_is_one() {
        let names: Vec<String> = one_of_each_series(KERNELS).iter().map(Spec::to_string).collect();
        assert_eq!(names, ["5.10-cloud", "6.1-cloud", "6.12-cloud", "6.19-rt", "7.2-cloud"]);
        let rt = select(&owned(&["6.12-rt", "7.2-rt"])).unwrap();
        assert_eq!(one_of_each_series(&rt), rt);
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let error = select(&owned(&["6.2-rt"])).unwrap_err().to_string();
        assert!(error.starts_with("no kernel `6.2-rt` in the list; there are 5.10-cloud, 6.1-cloud"), "{error}");
    }

    #[test]
    fn the_newest_build_comes_first_by_number_not_by_letter() {
        let names = owned(&[
            "linux-image-6.12-rt-amd64",
            "linux-image-6.12.100+deb12-rt-amd64",
            "linux-image-6.12.117+deb12-rt-amd64",
            "linux-image-6.12.117+deb12-rt-amd64-dbg",
            "linux-image-6.12.117+deb12-cloud-amd64",
            "linux-image-6.12.99+deb12-rt-amd64",
        ]);
        assert_eq!(
            packages_of(&spec("s", "6.12", Flavour::Rt), &names),
            owned(&[
                "linux-image-6.12.117+deb12-rt-amd64",
                "linux-image-6.12.100+deb12-rt-amd64",
                "linux-image-6.12.99+deb12-rt-amd64"
            ])
        );
    }

    #[test]
    fn a_series_is_not_taken_for_a_longer_one() {
        let names = owned(&["linux-image-6.12.1+deb12-cloud-amd64", "linux-image-6.1.0-48-cloud-amd64"]);
        let found = packages_of(&spec("s", "6.1", Flavour::Cloud), &names);
        assert_eq!(found, owned(&["linux-image-6.1.0-48-cloud-amd64"]));
    }

    #[test]
    fn the_package_with_the_kernel_wins_over_the_package_of_links() {
        let names = owned(&["linux-image-7.2.12+deb13-rt-amd64", "linux-binary-7.2.12+deb13-rt-amd64"]);
        let found = packages_of(&spec("s", "7.2", Flavour::Rt), &names);
        assert_eq!(found, owned(&["linux-binary-7.2.12+deb13-rt-amd64"]));
    }
}
