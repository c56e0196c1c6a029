//! One request to the receiver, bounded in time and size.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode, header};
use tokio::{net::TcpStream, time::timeout};
use wakelat_core::service::otlp::PartialSuccess;

use super::{super::http_client, queue::Attempt};
use crate::config::OtlpConfig;

/// How long sending an export and receiving the answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest answer that is read: bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// The receiver: its addresses, and what each request has.
#[derive(Clone, Debug)]
pub struct Receiver {
    addresses: Vec<SocketAddr>,
    path: String,
    headers: header::HeaderMap,
}

impl Receiver {
    /// Looks up the addresses of the host.
    ///
    /// # Errors
    /// If the host has no address.
    pub fn resolve(config: &OtlpConfig) -> Result<Self> {
        let endpoint = &config.settings.endpoint;
        let host = endpoint.host.as_str();
        let addresses = http_client::resolve(host, endpoint.port, "--otlp")?;
        let mut headers = header::HeaderMap::new();
        let authority = header::HeaderValue::try_from(endpoint.authority())
            .with_context(|| format!("`{host}` is not a host name (`--otlp`)"))?;
        headers.insert(header::HOST, authority);
        headers.insert(header::USER_AGENT, http_client::USER_AGENT);
        // These may be replaced, but not the type and the length of the body.
        headers.extend(config.headers.iter().cloned());
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/x-protobuf"));
        headers.remove(header::CONTENT_LENGTH);
        headers.remove(header::TRANSFER_ENCODING);
        Ok(Self { addresses, path: endpoint.path.clone(), headers })
    }

    /// Sends an export over a connection of its own.
    pub async fn send(&self, export: Bytes) -> Attempt {
        let stream = match http_client::connect(&self.addresses).await {
            Ok(stream) => stream,
            Err(error) => return Attempt::Later { why: format!("cannot connect: {error}"), after: None },
        };
        // From here on the export may arrive.
        match timeout(ANSWER_TIMEOUT, self.answer(stream, export)).await {
            Ok(Ok(attempt)) => attempt,
            Ok(Err(error)) => Attempt::Unanswered(format!("no answer: {error:#}")),
            Err(_) => Attempt::Unanswered(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())),
        }
    }

    async fn answer(&self, stream: TcpStream, export: Bytes) -> Result<Attempt> {
        let mut request = Request::post(self.path.as_str()).body(Full::new(export))?;
        *request.headers_mut() = self.headers.clone();
        let response = http_client::exchange(stream, request, MAX_ANSWER).await?;
        // The status decides, also without a body.
        let (head, body) = response.into_parts();
        Ok(outcome(&Response::from_parts(head, ()), &body.unwrap_or_default(), SystemTime::now()))
    }
}

/// What an answer means, by the OTLP specification ("OTLP/HTTP Response").
fn outcome<B>(head: &Response<B>, body: &[u8], now: SystemTime) -> Attempt {
    let code = head.status();
    if code.is_success() {
        return Attempt::Accepted(PartialSuccess::decode(body));
    }
    let why = format!("answered {code}");
    match code {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => {
            let after =
                head.headers().get(header::RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?, now));
            Attempt::Later { why, after }
        }
        _ => Attempt::Rejected(why),
    }
}

/// The pause of a header `Retry-After`: seconds, or a date.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let date = || Some(httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default());
    value.trim().parse().ok().map(Duration::from_secs).or_else(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, retry_after: &str) -> Attempt {
        let response = Response::builder().status(code).header(header::RETRY_AFTER, retry_after).body(()).unwrap();
        outcome(&response, b"", SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn four_codes_ask_for_another_attempt() {
        for code in [429, 502, 503, 504] {
            assert!(matches!(of(code, "soon"), Attempt::Later { after: None, .. }), "{code}");
        }
        for code in [301, 400, 401, 404, 413, 500, 501] {
            assert!(matches!(of(code, "5"), Attempt::Rejected(_)), "{code}");
        }
        assert_eq!([200, 202].map(|code| of(code, "5")), [Attempt::Accepted(None), Attempt::Accepted(None)]);
    }

    #[test]
    fn a_pause_is_seconds_or_a_date() {
        let pause = |value| match of(503, value) {
            Attempt::Later { after, .. } => after.map(|pause| pause.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!(pause("120"), Some(120));
        assert_eq!(pause("Thu, 01 Jan 1970 00:00:10 GMT"), Some(10));
        assert_eq!((pause("-1"), pause("")), (None, None));
    }
}
