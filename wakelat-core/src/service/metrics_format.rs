//! The formats in which clients can request metrics.

use super::{
    accept,
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
    /// The media types of [`Self::ALL`] without their parameters.
    const MEDIA_TYPES: [&str; 3] = ["application/openmetrics-text", "text/plain", "application/vnd.google.protobuf"];

    /// The formats, in the order of preference among those that a client names.
    pub const ALL: [Self; 3] = [Self::OpenMetrics, Self::Prometheus, Self::Protobuf];

    /// The format that the `Accept` header prefers; `None` if it accepts none. Prometheus names the formats that it
    /// reads. A client that names neither OpenMetrics nor protobuf gets the text format 0.0.4, also if it accepts only
    /// HTML: a browser shows it, and `promtool check metrics` reads it.
    pub fn preferred(accept: &str) -> Option<Self> {
        let [open_metrics, text, protobuf] = Self::MEDIA_TYPES;
        if !accept::names(accept, &[open_metrics, protobuf])
            && accept::preferred(accept, &[text, "text/html"]).is_some()
        {
            return Some(Self::Prometheus);
        }
        accept::preferred(accept, &Self::MEDIA_TYPES).map(|at| Self::ALL[at])
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_names_no_other_format_gets_the_text_format() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
        let names_text = "text/plain;version=0.0.4;q=0.5, */*;q=0.1";
        for accept in ["", "*/*", "text/*", "text/plain", "text/html", names_text, browser] {
            assert_eq!(MetricsFormat::preferred(accept), Some(MetricsFormat::Prometheus), "{accept}");
        }
        assert_eq!(MetricsFormat::preferred("image/png"), None);
        assert_eq!(MetricsFormat::preferred("text/plain;q=0"), None);
    }

    #[test]
    fn prometheus_gets_the_format_that_it_prefers() {
        let open_metrics = "application/openmetrics-text;version=1.0.0;q=0.6,\
                            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(MetricsFormat::preferred(open_metrics), Some(MetricsFormat::OpenMetrics));
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let native = format!("{protobuf};q=0.7,{open_metrics}");
        assert_eq!(MetricsFormat::preferred(&native), Some(MetricsFormat::Protobuf));
        let text = "text/plain, application/openmetrics-text;q=0.5";
        assert_eq!(MetricsFormat::preferred(text), Some(MetricsFormat::Prometheus));
        let equal = "text/plain, application/openmetrics-text";
        assert_eq!(MetricsFormat::preferred(equal), Some(MetricsFormat::OpenMetrics));
    }
}
