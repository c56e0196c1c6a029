//! Exports the totals to a receiver by OTLP over HTTP, at an interval and at the end.
//!
//! Each export is made with a reading of the kernel's tables, and enters a bounded queue ([`queue`]). A task on the event
//! loop delivers the queue ([`delivery`], [`request`]) and only waits for sockets and timers, so a receiver that is slow or
//! gone delays no reading.

mod delivery;
mod queue;
mod request;

use std::{fs, rc::Rc, time::Duration};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use tokio::{task::spawn_local, time::timeout};
use wakelat_core::service::{
    export_counts::ExportCounts,
    metric_families::MetricsSnapshot,
    otlp::{OtlpExporter, Temporality},
};

use self::{delivery::ExportDelivery, request::Receiver};
use crate::{config::OtlpConfig, status::status};

/// How long the last exports may take after the measurement has ended.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Readings are up to this late or early.
const READING_TOLERANCE_NS: u64 = 500_000_000;

/// The exports of a service.
pub struct OtlpExports {
    exporter: OtlpExporter,
    interval_ns: u64,
    /// The length of the measurement at the last export: ns.
    exported_ns: u64,
    delivery: Rc<ExportDelivery>,
    receiver: Receiver,
}

impl OtlpExports {
    /// Prepares exports; needs files and the network.
    ///
    /// # Errors
    /// If the receiver's name cannot be resolved.
    pub fn open(config: &OtlpConfig) -> Result<Self> {
        let receiver = Receiver::resolve(config)?;
        let delta = config.settings.temporality == Temporality::Delta;
        let delivery = ExportDelivery::new(delta, config.settings.endpoint.to_string());
        Ok(Self {
            exporter: OtlpExporter::new(config.settings.temporality, resource(config)),
            interval_ns: config.settings.interval_ns,
            exported_ns: 0,
            delivery: Rc::new(delivery),
            receiver,
        })
    }

    /// Delivers exports from now on. The caller is inside of the event loop.
    pub fn spawn(&self) {
        let (delivery, receiver) = (Rc::clone(&self.delivery), self.receiver.clone());
        spawn_local(async move { delivery.run(async |export| receiver.send(export).await).await });
    }

    /// Whether an export is due after this measured time.
    pub fn is_due(&self, measured_ns: u64) -> bool {
        is_due(measured_ns, self.exported_ns, self.interval_ns)
    }

    /// Queues an export of these totals.
    pub fn export(&mut self, snapshot: &MetricsSnapshot) {
        self.exported_ns = snapshot.report.duration_ns;
        let export = Bytes::from(self.exporter.export(snapshot));
        let shared = &self.delivery.shared;
        let before = self.counts().dropped;
        if shared.queue.borrow_mut().push(export) > 0 && before == 0 {
            status("the queue of OTLP exports is full: the oldest are dropped (wakelat_otlp_exports_total)");
        }
        shared.added.notify_one();
    }

    /// What became of the exports.
    pub fn counts(&self) -> ExportCounts {
        self.delivery.shared.queue.borrow().counts()
    }

    /// Exports the last totals, and delivers what is left for a few seconds. Call this after the event loop has ended.
    ///
    /// # Errors
    /// If no event loop can be started.
    pub fn finish(mut self, snapshot: Option<&MetricsSnapshot>) -> Result<()> {
        self.delivery.shared.queue.borrow_mut().cut_off(self.delivery.delta);
        if let Some(snapshot) = snapshot.filter(|snapshot| snapshot.report.duration_ns > self.exported_ns) {
            self.export(snapshot);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the event loop for the last OTLP exports")?;
        let deliver = self.delivery.deliver_rest(async |export| self.receiver.send(export).await);
        _ = runtime.block_on(async { timeout(END_TIMEOUT, deliver).await });
        self.delivery.shared.queue.borrow_mut().cut_off(self.delivery.delta);
        let ExportCounts { dropped, rejected, unknown, queued, .. } = self.counts();
        if dropped + rejected + unknown + queued > 0 {
            status(format_args!(
                "OTLP exports not delivered: {queued} still in the queue, {dropped} dropped, {rejected} rejected, \
                 {unknown} unknown"
            ));
        }
        Ok(())
    }
}

/// Whether an export is due after `measured_ns`, if the last one was after `exported_ns`. Exports are due at multiples of
/// the interval, whenever the readings near them are.
fn is_due(measured_ns: u64, exported_ns: u64, interval_ns: u64) -> bool {
    let interval = |ns: u64| ns.saturating_add(READING_TOLERANCE_NS) / interval_ns;
    interval(measured_ns) > interval(exported_ns)
}

/// The attributes of the resource: those of the environment, and wakelat's own.
fn resource(config: &OtlpConfig) -> Vec<(String, String)> {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let own = [
        ("service.name", Some("wakelat".to_owned())),
        ("service.version", Some(env!("CARGO_PKG_VERSION").to_owned())),
        // Random for each read (drivers/char/random.c).
        ("service.instance.id", read("/proc/sys/kernel/random/uuid")),
        ("host.name", read("/proc/sys/kernel/hostname")),
        ("os.type", Some("linux".to_owned())),
    ];
    let own = own.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let mut all: Vec<(String, String)> = own.collect();
    for (key, value) in &config.resource {
        match all.iter_mut().find(|(known, _)| known == key) {
            Some(known) => known.1.clone_from(value),
            None => all.push((key.clone(), value.clone())),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OtlpSettings;

    #[test]
    fn an_export_is_due_once_in_each_interval_with_readings_that_are_late_or_early() {
        const S: u64 = 1_000_000_000;
        for interval_s in [1, 2, 60] {
            let (mut exported_ns, mut exports) = (0, 0);
            for second in 1..=600 {
                let measured_ns =
                    second * S + [0, 400_000_000, 1, S - 400_000_000][second as usize % 4] - S * (second % 4 / 3);
                if is_due(measured_ns, exported_ns, interval_s * S) {
                    (exported_ns, exports) = (measured_ns, exports + 1);
                }
            }
            assert_eq!(exports, 600 / interval_s);
        }
    }

    #[test]
    fn the_environment_replaces_attributes_of_the_resource() {
        let variable = |name: &str| (name == "OTEL_RESOURCE_ATTRIBUTES").then(|| "host.name=a,zone=b".to_owned());
        let endpoint = "http://a:1".parse().unwrap();
        let settings = OtlpSettings { endpoint, interval_ns: 1, temporality: Temporality::Delta };
        let config = OtlpConfig::new(settings, variable).unwrap();
        let all = resource(&config);
        let of = |key: &str| all.iter().filter(|pair| pair.0 == key).map(|pair| pair.1.as_str()).collect::<Vec<_>>();
        assert_eq!((of("host.name"), of("zone"), of("service.name")), (vec!["a"], vec!["b"], vec!["wakelat"]));
        assert_ne!(
            of("service.instance.id"),
            resource(&config)
                .iter()
                .filter(|pair| pair.0 == "service.instance.id")
                .map(|pair| pair.1.as_str())
                .collect::<Vec<_>>()
        );
    }
}
