//! `serve` as a service manager runs it: it reports its states, and reads its configuration file again on SIGHUP.

use std::{
    fs,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{PermissionsExt as _, symlink},
            net::{SocketAddr, UnixDatagram},
            process::CommandExt as _,
        },
    },
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use nix::sys::{
    resource::{RLIM_INFINITY, Resource, setrlimit},
    signal::Signal,
};
use wakelat_tests::{
    cgroup::Hierarchy,
    http::{MetricSamples, get},
    once,
    suite::{Case, Skip, TestOutcome, concurrent},
    wakelat::{Wakelat, command},
    workload::until,
};

pub fn cases() -> Vec<Case> {
    // One way of attaching: none of this depends on it.
    concurrent(once![
        a_service_manager_is_told_each_state_in_its_order,
        a_reload_changes_labels_and_selection_and_no_counter_decreases,
        a_wrong_file_leaves_the_settings_as_they_are,
        settings_that_need_a_restart_are_named_at_each_reload,
        the_capabilities_of_the_unit_are_enough_for_another_user,
    ])
}

/// Longer than any message takes, on an emulated machine, too.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A service that a manager started with a configuration file.
struct ManagedService {
    wakelat: Wakelat,
    messages: UnixDatagram,
    directory: tempfile::TempDir,
    /// Has the file that the configuration file is a link to.
    linked: tempfile::TempDir,
}

impl ManagedService {
    /// Starts it with `settings` besides its address.
    fn start(settings: &str) -> Self {
        Self::start_by(settings, |_, arguments| command(arguments))
    }

    /// The same by the command that `make` makes of a directory and the arguments.
    fn start_by(settings: &str, make: impl FnOnce(&Path, &[&str]) -> Command) -> Self {
        static SERVICES: AtomicU32 = AtomicU32::new(0);
        let directory = tempfile::tempdir().expect("a temporary directory");
        // A name of this service in the abstract namespace, which needs no file.
        let name = format!("wakelat-tests-{}-{}", std::process::id(), SERVICES.fetch_add(1, Relaxed));
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let messages = UnixDatagram::bind_addr(&address).expect("a free name");
        messages.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let linked = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(linked.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
        let file = directory.path().join("serve.toml");
        let socket = directory.path().join("socket");
        let listen = format!("unix:{}", socket.display());
        fs::write(linked.path().join("settings"), settings).expect("a file");
        symlink(linked.path().join("settings"), &file).expect("a new name");
        let file = file.display().to_string();
        let mut command = make(directory.path(), &["serve", "--config", &file, "--listen", &listen]);
        command.env("NOTIFY_SOCKET", format!("@{name}")).env("WATCHDOG_USEC", "3000000");
        Self { wakelat: Wakelat::measuring(command), messages, directory, linked }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The next message.
    fn message(&self) -> String {
        let mut buffer = [0; 256];
        let length = self.messages.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// The next message that does not only show that the service is alive.
    fn next_state(&self) -> String {
        loop {
            let message = self.message();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }

    /// Discards the signs of life so far: the kernel keeps some 11 messages (`net.unix.max_dgram_qlen`), and the service
    /// drops those without room.
    fn discard_signs_of_life(&self) {
        let mut buffer = [0; 256];
        self.messages.set_nonblocking(true).expect("a socket");
        while let Ok(length) = self.messages.recv(&mut buffer) {
            assert_eq!(&buffer[..length], b"WATCHDOG=1");
        }
        self.messages.set_nonblocking(false).expect("a socket");
    }

    /// Replaces the configuration file as editors do, and sends SIGHUP. Returns when the service is ready again.
    fn reload(&self, settings: &str) {
        let new = self.linked.path().join("new");
        fs::write(&new, settings).expect("a file");
        fs::rename(&new, self.linked.path().join("settings")).expect("a file to replace");
        self.discard_signs_of_life();
        self.wakelat.signal(Signal::SIGHUP);
        let state = self.next_state();
        assert!(state.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{state}");
        assert!(self.next_state().starts_with("READY=1\n"));
    }

    fn metrics(&self) -> MetricSamples {
        until("the service has metrics", || get(&self.socket(), "/healthz", "").status == 200);
        MetricSamples::scrape(&self.socket())
    }

    /// Ends the service. Returns what it wrote to standard error.
    fn end(self) -> String {
        self.discard_signs_of_life();
        self.wakelat.signal(Signal::SIGTERM);
        assert_eq!(self.next_state(), "STOPPING=1");
        let ended = self.wakelat.end();
        assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:#?}");
        ended.stderr
    }
}

fn a_service_manager_is_told_each_state_in_its_order() -> TestOutcome {
    Hierarchy::find()?;
    let service = ManagedService::start("");
    assert_eq!(service.message(), "READY=1\nSTATUS=measuring");
    // Each reading of the kernel's tables is a sign of life.
    (0..2).for_each(|_| assert_eq!(service.message(), "WATCHDOG=1"));
    service.end();
    Ok(())
}

fn a_reload_changes_labels_and_selection_and_no_counter_decreases() -> TestOutcome {
    Hierarchy::find()?;
    let service = ManagedService::start("[labels]\nzone = \"a\"\n");
    assert!(service.next_state().starts_with("READY=1\n"));
    let before = service.metrics();
    service.reload("max-series = 7\n[cgroups]\nexclude = [\"*\"]\n[labels]\nzone = \"b\"\n");
    let after = service.metrics();
    assert_eq!(after.value("wakelat_series_limit{zone=\"b\"}"), 7.0);
    assert_eq!(after.value("wakelat_series{zone=\"b\"}"), 0.0, "no cgroup is selected");
    let mut counters = 0;
    for (name, value) in before.0.iter().filter(|(name, _)| name.contains("_total{") && !name.contains("cgroup=")) {
        let now = after.value(&name.replace("zone=\"a\"", "zone=\"b\""));
        assert!(now >= *value, "{name}: {now} after {value}");
        counters += 1;
    }
    assert!(counters > 10, "{before:?}");
    let sum = |metrics: &MetricSamples, of: &str| metrics.sum("wakelat_switch_ins_total", of);
    assert_eq!(sum(&after, "zone=\"b\""), after.value("wakelat_switch_ins_seen_total{zone=\"b\"}"));
    assert_eq!(sum(&after, "zone=\"a\""), 0.0, "{after:?}");
    service.end();
    Ok(())
}

fn a_wrong_file_leaves_the_settings_as_they_are() -> TestOutcome {
    Hierarchy::find()?;
    let service = ManagedService::start("max-series = 5\n");
    assert!(service.next_state().starts_with("READY=1\n"));
    service.reload("max-series = 0\n");
    assert_eq!(service.metrics().value("wakelat_series_limit"), 5.0);
    let errors = service.end();
    assert!(errors.contains("settings are unchanged: ") && errors.contains("line 1, column 14"), "{errors}");
    Ok(())
}

fn settings_that_need_a_restart_are_named_at_each_reload() -> TestOutcome {
    Hierarchy::find()?;
    let service = ManagedService::start("");
    assert!(service.next_state().starts_with("READY=1\n"));
    let settings = "max-overhead = \"1%\"\n[otlp]\nurl = \"http://127.0.0.1:1\"\n[kubelet]\nurl = \"http://127.0.0.1:1\"\n\
                    [capture]\nconditions = [\"max>1s\"]\ndir = \"captures\"\n";
    (0..2).for_each(|_| service.reload(settings));
    let said = service.end();
    for name in ["max-overhead", "otlp", "kubelet", "capture"] {
        assert_eq!(said.matches(&format!("`{name}` changes only when wakelat is restarted")).count(), 2, "{said}");
    }
    Ok(())
}

/// The unit of the packages.
const UNIT: &str = include_str!("../../packaging/wakelat.service");

/// The value of a setting that the unit has once.
fn setting(name: &str) -> &'static str {
    let mut values = UNIT.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let value = values.next().unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(values.next(), None, "{name}");
    value
}

fn the_capabilities_of_the_unit_are_enough_for_another_user() -> TestOutcome {
    /// A user without any rights: `nobody`.
    const USER: &str = "65534";
    Hierarchy::find()?;
    if !Command::new("setpriv").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Err(Skip::because("needs setpriv (util-linux)"));
    }
    assert_eq!(setting("AmbientCapabilities"), setting("CapabilityBoundingSet"));
    let names = setting("AmbientCapabilities").split(' ').map(|name| name.strip_prefix("CAP_").expect("a capability"));
    let capabilities = names.fold("-all".to_owned(), |all, name| format!("{all},+{}", name.to_lowercase()));
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).expect("own directory");
    let captures = directory.path().join("captures");
    let settings = |rest: &str| {
        let capture = format!("conditions = [\"max>1ns\"]\ndir = \"{}\"\nduration = \"1s\"", captures.display());
        format!("{rest}[capture]\n{capture}\n")
    };
    let service = ManagedService::start_by(&settings(""), |directory, arguments| {
        // The user may write there, and run a copy of the binary.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).expect("own directory");
        let copy = directory.join("wakelat");
        // Not by this process: what it starts for another test meanwhile would have the copy open for writing for a
        // moment, and a file that is open for writing cannot be run.
        let copied = Command::new("cp").arg(wakelat_tests::wakelat::binary()).arg(&copy).status();
        assert!(copied.is_ok_and(|status| status.success()), "no copy");
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--no-new-privs"]);
        for set in ["--inh-caps", "--ambient-caps", "--bounding-set"] {
            command.arg(format!("{set}={capabilities}"));
        }
        command.arg(copy).args(arguments);
        assert_eq!(setting("LimitMEMLOCK"), "infinity");
        let unlimited = || {
            // Needed, and possible for root in a guest, before 5.11.
            _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
            Ok(())
        };
        // SAFETY: one system call between fork and exec, no allocation.
        unsafe { command.pre_exec(unlimited) };
        command
    });
    assert!(service.next_state().starts_with("READY=1\n"));
    until("the service measures", || service.metrics().value("wakelat_switch_ins_seen_total") > 0.0);
    service.reload(&settings("max-series = 7\n"));
    assert_eq!(service.metrics().value("wakelat_series_limit"), 7.0);
    let written = "wakelat_captures_total{condition=\"max>1ns\",result=\"written\"}";
    until("a recording is whole", || service.metrics().value(written) == 1.0);
    let file = fs::metadata(captures.join("capture-1.wakelat")).expect("a file");
    assert!(file.len() > 0 && file.permissions().mode() & 0o077 == 0, "{file:?}");
    service.end();
    Ok(())
}
