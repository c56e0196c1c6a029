//! The kernels that every change is tested on, and any other kernel of a Debian suite.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap, fmt};

use anyhow::{Context, bail};
use wakelat_build::Architecture;

/// A kernel identified by its suite, series, architecture and flavour instead of a file: the newest build in the suite
/// is the one that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSpec {
    /// The Debian suite whose packages contain it.
    pub suite: Cow<'static, str>,
    /// The first two numbers of its version, such as `6.12`.
    pub series: Cow<'static, str>,
    /// What it runs on.
    pub architecture: Architecture,
    /// How it is configured.
    pub flavour: Flavour,
}

/// How Debian configures a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flavour {
    /// For virtual machines: small; has hist triggers from 6.1 on, and no tracers.
    Cloud,
    /// For any machine; has hist triggers from 6.1 on, and no tracers.
    Plain,
    /// PREEMPT_RT; the only one with the osnoise and timerlat tracers.
    Rt,
    /// The plain one with pages of 16 KiB, from 6.12 on; only for arm64.
    Pages16k,
}

/// The flavours of each architecture: the name that `--kernel` takes, and the last part of the package's name.
const FLAVOURS: [(Architecture, Flavour, &str, &str); 7] = [
    (Architecture::X86_64, Flavour::Cloud, "cloud", "cloud-amd64"),
    (Architecture::X86_64, Flavour::Plain, "amd64", "amd64"),
    (Architecture::X86_64, Flavour::Rt, "rt", "rt-amd64"),
    (Architecture::Aarch64, Flavour::Cloud, "cloud-arm64", "cloud-arm64"),
    (Architecture::Aarch64, Flavour::Plain, "arm64", "arm64"),
    (Architecture::Aarch64, Flavour::Rt, "rt-arm64", "rt-arm64"),
    (Architecture::Aarch64, Flavour::Pages16k, "arm64-16k", "arm64-16k"),
];

impl KernelSpec {
    /// The series as numbers, so that 6.9 comes before 6.12.
    pub fn age(&self) -> Vec<u64> {
        numbers(&self.series)
    }

    /// The names of its flavour: the one that `--kernel` takes, and the last part of the package's name.
    fn flavour_names(&self) -> (&'static str, &'static str) {
        let of_this = |(architecture, flavour, ..): &&(Architecture, Flavour, &str, &str)| {
            (*architecture, *flavour) == (self.architecture, self.flavour)
        };
        FLAVOURS.iter().find(of_this).map_or(("unknown", "unknown"), |(.., name, suffix)| (name, suffix))
    }

    /// Parses `SUITE:SERIES-FLAVOUR`.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let parts = text.split_once(':').and_then(|(suite, rest)| Some((suite, rest.split_once('-')?)));
        let form = "expected `SUITE:SERIES-FLAVOUR`, such as `trixie-backports:6.18-rt`";
        let (suite, (series, flavour)) = parts.with_context(|| format!("`{text}` is not a kernel: {form}"))?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if suite.is_empty() || !suite.chars().all(is_word) {
            bail!("`{suite}` is not a Debian suite: {form}");
        }
        if numbers(series).len() != 2 || !series.chars().all(|c| c.is_ascii_digit() || c == '.') {
            bail!("`{series}` is not a kernel series: {form}");
        }
        let (architecture, flavour, ..) =
            FLAVOURS.into_iter().find(|(.., name, _)| *name == flavour).with_context(|| {
                let known = FLAVOURS.map(|(.., name, _)| name).join(", ");
                format!("`{flavour}` is not a flavour, expected one of {known}")
            })?;
        Ok(Self { suite: suite.to_owned().into(), series: series.to_owned().into(), architecture, flavour })
    }
}

impl fmt::Display for KernelSpec {
    /// The name that `--kernel` takes: `6.12-rt` for a kernel of the list, with its suite for any other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{}-{}", self.series, self.flavour_names().0);
        if KERNELS.contains(self) { f.pad(&name) } else { f.pad(&format!("{}:{name}", self.suite)) }
    }
}

const fn spec(suite: &'static str, series: &'static str, flavour: Flavour) -> KernelSpec {
    spec_for(Architecture::X86_64, suite, series, flavour)
}

const fn spec_for(
    architecture: Architecture,
    suite: &'static str,
    series: &'static str,
    flavour: Flavour,
) -> KernelSpec {
    KernelSpec { suite: Cow::Borrowed(suite), series: Cow::Borrowed(series), architecture, flavour }
}

/// Each kernel is in the list for something that the others do not have. The order is that of the table and
/// has no other meaning.
pub const KERNELS: &[KernelSpec] = &[
    // sched_switch with three arguments, `task_struct.state`, no hist triggers, no osnoise.
    spec("bullseye-security", "5.10", Flavour::Cloud),
    // PREEMPT_RT as patches: a ring buffer whose lock sleeps, and tasks that block on a lock appear as
    // preempted.
    spec("bullseye-security", "5.10", Flavour::Rt),
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
    // Another architecture: no interrupt vectors, a clock of 16 ns, pointers that are signed.
    spec_for(Architecture::Aarch64, "bookworm-security", "6.12", Flavour::Cloud),
    spec_for(Architecture::Aarch64, "bookworm-security", "6.1", Flavour::Rt),
    // Larger pages: ring buffers and maps that are mapped.
    spec_for(Architecture::Aarch64, "bookworm-security", "6.12", Flavour::Pages16k),
];

/// Selects kernels by name: those of the list in its order, then those given with their suite. Without
/// names, returns the whole list.
///
/// # Errors
/// Fails if a name is neither in the list nor `SUITE:SERIES-FLAVOUR`.
pub fn select(names: &[String]) -> anyhow::Result<Vec<KernelSpec>> {
    if names.is_empty() {
        return Ok(KERNELS.to_vec());
    }
    let mut chosen = Vec::new();
    for name in names {
        let spec = match KERNELS.iter().find(|kernel| kernel.to_string() == *name) {
            Some(listed) => listed.clone(),
            None if name.contains(':') => KernelSpec::parse(name)?,
            None => {
                let known: Vec<String> = KERNELS.iter().map(KernelSpec::to_string).collect();
                bail!(
                    "no kernel `{name}` in the list, which has {}; name any other as `SUITE:SERIES-FLAVOUR`",
                    known.join(", ")
                );
            }
        };
        if !chosen.contains(&spec) {
            chosen.push(spec);
        }
    }
    chosen.sort_by_key(|spec| KERNELS.iter().position(|kernel| kernel == spec).unwrap_or(KERNELS.len()));
    Ok(chosen)
}

/// One kernel of each series, the one with the smallest configuration; one of another architecture only if there is no
/// other.
pub fn one_of_each_series(specs: &[KernelSpec]) -> Vec<KernelSpec> {
    let mut chosen: BTreeMap<Vec<u64>, &KernelSpec> = BTreeMap::new();
    for spec in specs {
        let smallest = chosen.entry(spec.age()).or_insert(spec);
        if (spec.architecture, spec.flavour) < (smallest.architecture, smallest.flavour) {
            *smallest = spec;
        }
    }
    chosen.into_values().cloned().collect()
}

/// The newest kernel of a flavour; one of another architecture only if there is no other.
pub fn newest_of(flavour: Flavour, specs: &[KernelSpec]) -> Option<&KernelSpec> {
    let of_flavour = specs.iter().filter(|spec| spec.flavour == flavour);
    of_flavour.max_by_key(|spec| (Reverse(spec.architecture), spec.age()))
}

/// The names of the packages of `spec` among `names`, newest first.
///
/// Debian has changed the scheme: up to 6.18, the kernel is in `linux-image-*`; later, that package
/// contains only links, and the kernel is in `linux-binary-*`.
pub fn packages_of(spec: &KernelSpec, names: &[String]) -> Vec<String> {
    let builds_of = |kind: &str| {
        let prefix = format!("linux-{kind}-{}.", spec.series);
        let suffix = format!("-{}", spec.flavour_names().1);
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
        let mut names: Vec<String> = KERNELS.iter().map(KernelSpec::to_string).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), KERNELS.len());
        let chosen = select(&owned(&["7.2-rt", "5.10-cloud", "7.2-rt"])).unwrap();
        assert_eq!(chosen.iter().map(KernelSpec::to_string).collect::<Vec<_>>(), ["5.10-cloud", "7.2-rt"]);
        assert_eq!(select(&[]).unwrap(), KERNELS);
    }

    #[test]
    fn selection_by_series_does_not_depend_on_the_order_of_the_list() {
        let reversed: Vec<KernelSpec> = KERNELS.iter().rev().cloned().collect();
        let chosen = one_of_each_series(KERNELS);
        assert_eq!(one_of_each_series(&reversed), chosen);
        assert!(chosen.windows(2).all(|pair| pair[0].age() < pair[1].age()), "{chosen:?}");
        assert!(KERNELS.iter().all(|spec| chosen.iter().any(|one| one.series == spec.series)));
        let rt = newest_of(Flavour::Rt, KERNELS).unwrap();
        assert_eq!(newest_of(Flavour::Rt, &reversed), Some(rt));
        assert!(KERNELS.iter().all(|spec| spec.flavour != Flavour::Rt || spec.age() <= rt.age()));
        assert_eq!(newest_of(Flavour::Plain, KERNELS), None);
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_the_known_ones() {
        let error = select(&owned(&["6.2-rt"])).unwrap_err().to_string();
        assert!(
            error.starts_with("no kernel `6.2-rt` in the list, which has 5.10-cloud, 5.10-rt, 6.1-cloud"),
            "{error}"
        );
    }

    #[test]
    fn a_kernel_outside_of_the_list_is_named_by_its_suite() {
        let given = ["7.2-rt", "bookworm:6.1-amd64", "bookworm:6.1-arm64", "trixie-backports:6.18-rt"];
        let chosen = select(&owned(&given)).unwrap();
        let names: Vec<String> = chosen.iter().map(KernelSpec::to_string).collect();
        assert_eq!(names, given);
        let listed = select(&owned(&["trixie-backports:7.2-rt"])).unwrap();
        assert_eq!(listed, select(&owned(&["7.2-rt"])).unwrap());
    }

    #[test]
    fn an_invalid_kernel_name_is_an_error_that_names_the_invalid_part() {
        for (name, part) in [
            ("bookworm:6.1", "`bookworm:6.1` is not a kernel"),
            ("book/worm:6.1-rt", "`book/worm` is not a Debian suite"),
            (":6.1-rt", "`` is not a Debian suite"),
            ("bookworm:6-rt", "`6` is not a kernel series"),
            ("bookworm:6.1-arm", "`arm` is not a flavour, expected one of cloud, amd64, rt, cloud-arm64, arm64, "),
        ] {
            let error = select(&owned(&[name])).unwrap_err().to_string();
            assert!(error.starts_with(part), "{error}");
        }
    }

    #[test]
    fn the_plain_flavour_does_not_match_packages_of_longer_flavours() {
        let names = owned(&[
            "linux-image-6.1.0-48-cloud-amd64",
            "linux-image-6.1.0-48-rt-amd64",
            "linux-image-6.1.0-48-amd64",
            "linux-image-6.1.0-48-amd64-unsigned",
        ]);
        let found = packages_of(&spec("s", "6.1", Flavour::Plain), &names);
        assert_eq!(found, owned(&["linux-image-6.1.0-48-amd64"]));
    }

    #[test]
    fn every_flavour_has_packages_of_its_own() {
        let suffixes = FLAVOURS.map(|(.., suffix)| suffix);
        let names: Vec<String> = suffixes.iter().map(|suffix| format!("linux-image-6.12.117+deb12-{suffix}")).collect();
        for ((architecture, flavour, name, _), package) in FLAVOURS.into_iter().zip(&names) {
            let spec = spec_for(architecture, "s", "6.12", flavour);
            assert_eq!(packages_of(&spec, &names), std::slice::from_ref(package));
            assert_eq!(KernelSpec::parse(&format!("s:6.12-{name}")).unwrap(), spec);
        }
    }

    #[test]
    fn builds_are_sorted_by_number_not_by_letter() {
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
    fn a_series_does_not_match_a_longer_one() {
        let names = owned(&["linux-image-6.12.1+deb12-cloud-amd64", "linux-image-6.1.0-48-cloud-amd64"]);
        let found = packages_of(&spec("s", "6.1", Flavour::Cloud), &names);
        assert_eq!(found, owned(&["linux-image-6.1.0-48-cloud-amd64"]));
    }

    #[test]
    fn the_package_with_the_kernel_is_preferred_to_the_package_of_links() {
        let names = owned(&["linux-image-7.2.12+deb13-rt-amd64", "linux-binary-7.2.12+deb13-rt-amd64"]);
        let found = packages_of(&spec("s", "7.2", Flavour::Rt), &names);
        assert_eq!(found, owned(&["linux-binary-7.2.12+deb13-rt-amd64"]));
    }
}
