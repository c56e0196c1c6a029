//! The formats in which clients can request metrics.

use super::{
    metric_families::MetricsSnapshot,
    metrics_protobuf,
    metrics_text::{self, TextFormat},
};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// The text format OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus.
    Prometheus,
    /// Protobuf messages of Prometheus, each after its length, with native histograms.
    Protobuf,
}

impl MetricsFormat {
    /// The media types without their parameters, in the order of preference.
    pub const MEDIA_TYPES: [&str; 3] =
        ["application/openmetrics-text", "text/plain", "application/vnd.google.protobuf"];

    /// The formats, in the order of [`Self::MEDIA_TYPES`].
    pub const ALL: [Self; 3] = [Self::OpenMetrics, Self::Prometheus, Self::Protobuf];

    /// The value of the header `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// Renders all metrics.
    pub fn render(self, snapshot: &MetricsSnapshot) -> Vec<u8> {
        match self {
            Self::OpenMetrics => metrics_text::render(snapshot, TextFormat::OpenMetrics).into(),
            Self::Prometheus => metrics_text::render(snapshot, TextFormat::Prometheus).into(),
            Self::Protobuf => metrics_protobuf::render(snapshot),
        }
    }
}
