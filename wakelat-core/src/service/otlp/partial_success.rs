//! The answer of a receiver.

use prost::Message as _;

use super::messages::ExportMetricsServiceResponse;

/// A response that accepts only a part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSuccess {
    /// The number of points that the receiver has refused.
    pub rejected_points: u64,
    /// The receiver's reason, or its warning if it has refused nothing.
    pub message: String,
}

impl PartialSuccess {
    /// From the body of a response; `None` if it accepts everything, or is no message of OTLP.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let partial = ExportMetricsServiceResponse::decode(body).ok()?.partial_success?;
        let rejected_points = u64::try_from(partial.rejected_data_points).unwrap_or(0);
        let is_full = rejected_points == 0 && partial.error_message.is_empty();
        (!is_full).then_some(Self { rejected_points, message: partial.error_message })
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::{
        ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
    };

    use super::*;

    #[test]
    fn a_response_can_accept_a_part() {
        let decode = |rejected_data_points, error_message: &str| {
            let error_message = error_message.to_owned();
            let partial_success = Some(ExportMetricsPartialSuccess { rejected_data_points, error_message });
            PartialSuccess::decode(&ExportMetricsServiceResponse { partial_success }.encode_to_vec())
        };
        assert_eq!(decode(3, "no"), Some(PartialSuccess { rejected_points: 3, message: "no".to_owned() }));
        assert_eq!(decode(0, ""), None);
        assert_eq!((PartialSuccess::decode(b""), PartialSuccess::decode(b"<html>")), (None, None));
    }
}
