//! `serve`: measures continuously, and answers requests for metrics and causes over HTTP.
//!
//! Every few seconds, the event loop of the run reads the kernel's tables and adds their contents to the totals
//! ([`totals`]). A second thread answers requests from the totals ([`connections`]); if these are older than a second, it
//! requests a reading first ([`readings`]). Requests change nothing else, and a client that asks without pause causes a
//! reading a second; an answer is rendered once between two readings, except for `/why` of many different times. The CPU
//! time of that thread is not limited: otherwise, such a client could end measuring.

mod captures;
mod connections;
mod http_client;
mod kubelet;
mod listener;
mod otlp;
mod readings;
mod routes;
mod service_manager;
mod totals;
mod unread_answers;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use signal_hook::consts::SIGHUP;
use tokio::{signal::unix::SignalKind, sync::Notify};

use self::{
    captures::Captures,
    kubelet::KubeletRequests,
    listener::ServiceSocket,
    otlp::OtlpExports,
    readings::{ReadingRequests, ReadingSchedule},
    routes::Routes,
    service_manager::{ServiceManager, ServiceState},
    totals::SharedTotals,
};
use super::measurement::prepare;
use crate::{
    collect::{Collector, heap},
    config::{CaptureProcessConfig, ServeConfig, ServeFile, ServeSettings},
    session::{self, StopReason, View, ignored_signal::is_ignored, output::Output},
    status::status,
};
use wakelat_core::{
    aggregate::key::Names,
    cgroup_path,
    report::Report,
    service::{host::AcceptedHosts, series::MAX_PAIRS},
    why::counted::{
        CauseGroups, CauseTotals,
        summary::{CountedSummary, GroupNames, SummaryLimits},
    },
};

/// Of a reading with more pairs of cgroups than the tables have room for, only those with the most time are kept.
const LIMITS: SummaryLimits = SummaryLimits { groups: usize::MAX, pairs: MAX_PAIRS };

/// How often free memory is returned to the kernel.
const TRIM_INTERVAL: Duration = Duration::from_secs(60);

/// Measures until a signal ends the service.
///
/// # Errors
/// If it cannot listen at its address, and errors of [`session::run`].
pub fn serve(config: &ServeConfig) -> Result<StopReason> {
    if config.check {
        let settings = config.settings.to_toml()?;
        Output::open(None)?.write(|out| out.write_all(settings.as_bytes()))?;
        return Ok(StopReason::Done);
    }
    heap::return_large_blocks();
    if config.file.is_some() && !is_ignored(SignalKind::hangup()) {
        // Until the session catches it, SIGHUP would end the service. Nothing reads the flag: the settings are new.
        signal_hook::flag::register(SIGHUP, Arc::default()).context("cannot catch SIGHUP")?;
    }
    let manager = ServiceManager::connect()?;
    let listen = &config.settings.listen;
    let listener = ServiceSocket::bind(listen)?;
    let otlp = config.otlp.as_ref().map(OtlpExports::open).transpose()?;
    let kubelet = config.settings.kubelet.as_ref().map(KubeletRequests::open).transpose()?;
    let environment = prepare(&config.measurement)?;
    if listen.is_remote() {
        status(format_args!(
            "warning: other machines can reach `{}`, without encryption or a password; a reverse proxy can add both",
            listen
        ));
    }
    let capture_process = config.settings.capture.clone().map(|settings| CaptureProcessConfig {
        settings,
        record_arguments: config.record_arguments.clone(),
        keep_privileges: config.measurement.keep_privileges,
    });
    // Before this process drops its privileges.
    let captures = capture_process.as_ref().map(Captures::start).transpose()?;
    let totals = SharedTotals::new(config.settings.clone());
    if otlp.is_some() {
        totals.lock().await_exports();
    }
    let mut view = ServiceView {
        listener: Some(listener),
        hosts: config.settings.accepted_hosts(),
        cgroup_mount: environment.cgroup_mount.clone(),
        totals,
        answering_ns: Arc::default(),
        // The conditions of captures are judged by the waits of each second. Each reading is a sign of life.
        schedule: ReadingSchedule::new(captures.is_some(), manager.alive_interval()),
        requests: ReadingRequests::default(),
        file: config.file.clone(),
        manager,
        is_ready: false,
        otlp_port: config.otlp.as_ref().map(|otlp| otlp.settings.endpoint.port),
        otlp,
        kubelet,
        captures,
        trimmed_at: Instant::now(),
        unreported: Vec::new(),
    };
    let stopped = session::run(&config.measurement, &environment, &mut view);
    if let Some(captures) = view.captures.take() {
        view.totals.lock().set_captures(captures.finish());
    }
    let exported = view.otlp.take().map_or(Ok(()), |otlp| otlp.finish(view.totals.lock().snapshot().as_ref()));
    // Why the measurement has failed matters more.
    stopped.and_then(|stopped| exported.map(|()| stopped))
}

/// The directories in which a file is looked up: its own, and that of the file that it is a link to.
fn directories_of(file: &Path) -> impl Iterator<Item = PathBuf> {
    let directory_of = |file: &Path| {
        let directory = file.parent()?;
        Some(if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory.to_owned() })
    };
    let linked = file.canonicalize().ok().and_then(|file| directory_of(&file));
    directory_of(file).into_iter().chain(linked)
}

/// Adds the waits since the last reading to the totals.
struct ServiceView {
    /// Until the programs measure.
    listener: Option<ServiceSocket>,
    hosts: AcceptedHosts,
    cgroup_mount: Option<PathBuf>,
    totals: SharedTotals,
    /// CPU time of the thread that answers requests: ns.
    answering_ns: Arc<AtomicU64>,
    schedule: ReadingSchedule,
    requests: ReadingRequests,
    file: Option<ServeFile>,
    manager: ServiceManager,
    /// Whether the manager knows that the service is ready: it is once it has read the tables and is healthy.
    is_ready: bool,
    otlp: Option<OtlpExports>,
    otlp_port: Option<u16>,
    kubelet: Option<KubeletRequests>,
    captures: Option<Captures>,
    /// When the allocator's free memory was last returned.
    trimmed_at: Instant,
    /// Waits that the next report covers. They become part of the totals together with it: an answer in between would
    /// have waits that are not in its coverage.
    unreported: Vec<CountedSummary>,
}

impl View for ServiceView {
    fn shows_causes(&self) -> Option<CauseGroups> {
        Some(CauseGroups::Cgroups)
    }

    fn is_cumulative(&self) -> bool {
        true
    }

    fn is_report_due(&self) -> bool {
        let is_export_due = || {
            let measured_ns = self.totals.lock().measured_until_now_ns();
            self.otlp.as_ref().is_some_and(|otlp| otlp.is_due(measured_ns))
        };
        self.schedule.is_due(Instant::now()) || is_export_due()
    }

    fn report_requests(&self) -> Option<Arc<Notify>> {
        Some(self.requests.wanted())
    }

    fn accepts_connections(&self) -> bool {
        true
    }

    fn unlimited_cpu_ns(&self) -> Option<Arc<AtomicU64>> {
        Some(Arc::clone(&self.answering_ns))
    }

    fn reads_below(&self) -> Vec<PathBuf> {
        // The directory of the configuration file: most editors replace a file by another one.
        let token = self.kubelet.as_ref().and_then(KubeletRequests::reads);
        let files = self.file.as_ref().map(|file| file.path.as_path()).into_iter().chain(token);
        files.flat_map(directories_of).collect()
    }

    fn request_signal(&self) -> Option<SignalKind> {
        self.file.as_ref().map(|_| SignalKind::hangup())
    }

    /// Reads the configuration file again.
    fn request(&mut self) {
        let Some(file) = &self.file else { return };
        self.manager.notify(ServiceState::Reloading);
        match file.settings() {
            Ok(settings) => {
                let mut totals = self.totals.lock();
                let ServeSettings { listen, allow_hosts, max_overhead, collect, otlp, kubelet, capture, .. } =
                    totals.settings().clone();
                let fixed = [
                    ("listen", settings.listen != listen),
                    ("allow-hosts", settings.allow_hosts != allow_hosts),
                    ("max-overhead", settings.max_overhead != max_overhead),
                    ("collect", settings.collect != collect),
                    ("otlp", settings.otlp != otlp),
                    ("kubelet", settings.kubelet != kubelet),
                    ("capture", settings.capture != capture),
                ];
                for (name, _) in fixed.iter().filter(|(_, differs)| *differs) {
                    status(format_args!("`{name}` changes only when wakelat is restarted"));
                }
                totals.apply(ServeSettings {
                    listen,
                    allow_hosts,
                    max_overhead,
                    collect,
                    otlp,
                    kubelet,
                    capture,
                    ..settings
                });
                status(format_args!("read `{}` again", file.path.display()));
            }
            Err(error) => status(format_args!("settings are unchanged: {error}")),
        }
        self.manager.notify(ServiceState::Ready);
    }

    fn connects_to(&self) -> Vec<u16> {
        self.otlp_port.into_iter().chain(self.kubelet.as_ref().map(KubeletRequests::port)).collect()
    }

    fn loaded(&mut self, collector: &mut Collector) {
        self.totals.lock().set_not_separated(collector.causes_not_separated());
    }

    /// The programs measure. All privileges but those to read files and to accept connections have been dropped.
    fn begin(&mut self, _: &mut dyn Write) -> io::Result<()> {
        if let Some(listener) = self.listener.take() {
            let address = listener.address.clone();
            connections::spawn(
                listener,
                Routes::new(self.totals.clone(), self.requests.clone(), self.hosts.clone()),
                Arc::clone(&self.answering_ns),
            )?;
            status(format_args!("listening on {address}"));
        }
        if let Some(otlp) = &self.otlp {
            otlp.spawn();
        }
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.spawn(self.totals.clone())?;
        }
        Ok(())
    }

    fn causes(&mut self, causes: CauseTotals, names: &dyn Names) {
        if causes.lacked_room() {
            // On a machine with so many CPUs or pairs of cgroups, the tables are emptied more often.
            self.schedule.set_each_second();
        }
        let groups = GroupNames { by: CauseGroups::Cgroups, names };
        self.unreported.push(causes.into_summary(&groups, LIMITS, &[]));
    }

    fn report(&mut self, report: &Report, _: &mut dyn Write) -> io::Result<()> {
        let exists = |cgroup: &str| {
            self.cgroup_mount.as_ref().is_some_and(|mount| mount.join(cgroup_path::path(cgroup)).is_dir())
        };
        let mut totals = self.totals.lock();
        for summary in self.unreported.drain(..) {
            let summary = totals.add(summary);
            if let Some(captures) = &mut self.captures {
                captures.reading(&summary, |cgroup| totals.has_series(cgroup));
            }
        }
        if let Some(captures) = &mut self.captures {
            captures.step();
            totals.set_captures(captures.counts().clone());
        }
        totals.covered(report, exists);
        if let Some(kubelet) = self.kubelet.as_ref().filter(|_| totals.take_new_unnamed()) {
            kubelet.ask_soon();
        }
        if let Some(otlp) = &mut self.otlp {
            totals.set_exports(otlp.counts());
            if otlp.is_due(report.duration_ns) {
                totals.snapshot().iter().for_each(|snapshot| otlp.export(snapshot));
                totals.exported();
            }
        }
        drop(totals);
        self.schedule.made(Instant::now());
        self.requests.made();
        if self.trimmed_at.elapsed() >= TRIM_INTERVAL {
            heap::trim();
            self.trimmed_at = Instant::now();
        }
        if !std::mem::replace(&mut self.is_ready, true) {
            self.manager.notify(ServiceState::Ready);
        }
        self.manager.notify(ServiceState::Alive);
        Ok(())
    }

    fn ended(&mut self) {
        self.manager.notify(ServiceState::Stopping);
    }
}
