//! Describes the machine that the figures were measured on, without identifying it.

use std::fs;
use std::process::Command;

use serde::Serialize;

use super::affinity::CpuList;
use super::instrument::DEBIAN_PACKAGES;

/// The machine and what runs on it.
#[derive(Clone, Debug, Serialize)]
pub struct MachineInfo {
    /// The CPU model, as the CPU reports it.
    pub processor: String,
    /// The number of CPUs that this process may use.
    pub cpus: usize,
    /// Whether it runs under a hypervisor.
    pub virtual_machine: bool,
    /// The kernel's release.
    pub kernel: String,
    /// The kernel's preemption model, as in its version line.
    pub preemption: Option<String>,
    /// Debian packages of the other tools, and their versions.
    pub packages: Vec<(String, String)>,
    /// wakelat's version.
    pub wakelat: String,
}

/// Inspects the machine; runs a short command.
pub fn detect(allowed: &CpuList) -> MachineInfo {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let version = read("/proc/sys/kernel/version");
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status} ${Package} ${Version}\n"])
        .args(DEBIAN_PACKAGES)
        .output();
    let packages = output.map(|output| output.stdout).unwrap_or_default();
    MachineInfo {
        processor: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
        cpus: allowed.0.len(),
        virtual_machine: field(&cpuinfo, "flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        preemption: version.split_whitespace().find(|word| word.starts_with("PREEMPT")).map(str::to_owned),
        packages: installed(&String::from_utf8_lossy(&packages)),
        wakelat: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// Parses lines of status, package and version.
fn installed(lines: &str) -> Vec<(String, String)> {
    let package = |line: &str| {
        let (package, version) = line.strip_prefix("installed ")?.split_once(' ')?;
        Some((package.to_owned(), version.to_owned()))
    };
    lines.lines().filter_map(package).collect()
}

impl std::fmt::Display for MachineInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, cpus, kernel, wakelat, .. } = self;
        let kind = if self.virtual_machine { "virtual machine" } else { "machine" };
        let preemption = self.preemption.as_ref().map(|model| format!(" ({model})")).unwrap_or_default();
        write!(f, "{kind} with {cpus} CPUs ({processor}), Linux {kernel}{preemption}, wakelat {wakelat}")?;
        self.packages.iter().try_for_each(|(package, version)| write!(f, ", {package} {version}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described_in_one_line() {
        let machine = MachineInfo {
            processor: "A CPU".into(),
            cpus: 2,
            virtual_machine: true,
            kernel: "6.1.0".into(),
            preemption: Some("PREEMPT_DYNAMIC".into()),
            packages: installed("installed bpftrace 0.17.0-1\nnot-installed trace-cmd \n"),
            wakelat: "0.1.0".into(),
        };
        let line =
            "virtual machine with 2 CPUs (A CPU), Linux 6.1.0 (PREEMPT_DYNAMIC), wakelat 0.1.0, bpftrace 0.17.0-1";
        assert_eq!(machine.to_string(), line);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        assert_eq!(field("model\t\t: 143\nmodel name\t: Xeon\n", "model name"), Some("Xeon"));
        assert_eq!(field("", "flags"), None);
    }
}
