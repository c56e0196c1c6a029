//! One request to the kubelet, bounded in time and size.

use std::{
    fs::File,
    io::{self, Read as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{Full, LengthLimitError};
use hyper::{Request, Response, StatusCode, header};
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use wakelat_core::service::{node_pods::NodePods, pod_labels::KubeletResult};

use super::{super::http_client, trust};
use crate::config::KubeletSettings;

/// How long a request may take, from the connection to the end of the answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The longest answer: bytes. A list has some 10 KiB for each pod.
const MAX_ANSWER: usize = 32 << 20;

/// The longest token: bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// The kubelet of a node.
pub struct Kubelet {
    addresses: Vec<SocketAddr>,
    path: String,
    headers: header::HeaderMap,
    tls: Option<KubeletTls>,
    timeout: Duration,
}

/// What a request over TLS needs.
struct KubeletTls {
    connector: TlsConnector,
    name: ServerName<'static>,
    token: PathBuf,
}

/// Why a request has no list of pods.
#[derive(Debug)]
pub struct KubeletFailure {
    /// The kind of failure.
    pub result: KubeletResult,
    /// The reason, for a message.
    pub why: String,
}

impl KubeletFailure {
    fn failed(why: impl Into<String>) -> Self {
        Self { result: KubeletResult::Failed, why: why.into() }
    }
}

impl Kubelet {
    /// Looks up the address of the kubelet, and reads the certificates that may have signed the kubelet's.
    ///
    /// # Errors
    /// If the host has no address, or there are no such certificates.
    pub fn open(settings: &KubeletSettings) -> Result<Self> {
        let url = &settings.url;
        let addresses = http_client::resolve(&url.host, url.port, "--kubelet")?;
        let mut headers = header::HeaderMap::new();
        let not_a_host = || format!("`{}` is not a host name (`--kubelet`)", url.host);
        headers.insert(header::HOST, header::HeaderValue::try_from(url.authority()).with_context(not_a_host)?);
        headers.insert(header::USER_AGENT, http_client::USER_AGENT);
        headers.insert(header::ACCEPT, header::HeaderValue::from_static("application/json"));
        let tls = || -> Result<KubeletTls> {
            let config = if settings.insecure { trust::any_certificate()? } else { trust::signed_by(settings.ca())? };
            let name = ServerName::try_from(url.host.clone()).with_context(not_a_host)?;
            Ok(KubeletTls { connector: Arc::new(config).into(), name, token: settings.token().to_owned() })
        };
        let tls = url.is_https.then(tls).transpose()?;
        Ok(Self { addresses, path: url.path.clone(), headers, tls, timeout: TIMEOUT })
    }

    /// Requests the pods of the node.
    ///
    /// # Errors
    /// Why there is no list.
    pub async fn pods(&self) -> Result<NodePods, KubeletFailure> {
        let late = |_| KubeletFailure::failed(format!("no answer within {} s", self.timeout.as_secs()));
        let response = timeout(self.timeout, self.response()).await.map_err(late)??;
        check(&response)?;
        let invalid = |why| KubeletFailure { result: KubeletResult::Invalid, why };
        let body = response.into_body().map_err(|error| match error.is::<LengthLimitError>() {
            true => invalid(format!("the answer is longer than {} MiB", MAX_ANSWER >> 20)),
            false => KubeletFailure::failed(format!("the answer is cut off: {error}")),
        })?;
        NodePods::parse(&body).map_err(|error| invalid(format!("the answer is not accepted: {error}")))
    }

    async fn response(&self) -> Result<Response<Result<Bytes, http_client::BodyError>>, KubeletFailure> {
        let no_answer =
            |error: hyper::Error| KubeletFailure::failed(format!("no answer: {:#}", anyhow::Error::from(error)));
        let no_connection = |error: io::Error| KubeletFailure::failed(format!("cannot connect: {error}"));
        let mut request = Request::new(Full::default());
        *request.uri_mut() = self.path.parse().map_err(|_| KubeletFailure::failed("the path is not valid"))?;
        *request.headers_mut() = self.headers.clone();
        let Some(KubeletTls { connector, name, token }) = &self.tls else {
            let stream = http_client::connect(&self.addresses).await.map_err(no_connection)?;
            return http_client::exchange(stream, request, MAX_ANSWER).await.map_err(no_answer);
        };
        let no_token = |error| KubeletFailure::failed(format!("cannot read the token `{}`: {error}", token.display()));
        request.headers_mut().insert(header::AUTHORIZATION, bearer(token).map_err(no_token)?);
        let stream = http_client::connect(&self.addresses).await.map_err(no_connection)?;
        let stream = connector.connect(name.clone(), stream).await.map_err(|error| {
            let is_certificate = error.to_string().contains("certificate");
            let remedy = if is_certificate { " (`--kubelet-ca`)" } else { "" };
            KubeletFailure::failed(format!("no TLS connection: {error}{remedy}"))
        })?;
        http_client::exchange(stream, request, MAX_ANSWER).await.map_err(no_answer)
    }
}

/// The value of the header `Authorization` with the token in a file.
fn bearer(token: &Path) -> io::Result<header::HeaderValue> {
    let mut text = String::new();
    File::open(token)?.take(MAX_TOKEN).read_to_string(&mut text)?;
    let value = header::HeaderValue::try_from(format!("Bearer {}", text.trim()));
    let mut value = value.map_err(|_| io::Error::other("it has characters that a token cannot have"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Accepts the status 200.
fn check<B>(response: &Response<B>) -> Result<(), KubeletFailure> {
    let status = response.status();
    let remedy = match status {
        StatusCode::OK => return Ok(()),
        StatusCode::UNAUTHORIZED => ": it does not accept the token (`--kubelet-token`)",
        StatusCode::FORBIDDEN => ": the service account needs `get` for `nodes/pods`, or for `nodes/proxy`",
        _ => "",
    };
    Err(KubeletFailure { result: KubeletResult::Refused, why: format!("answered {status}{remedy}") })
}

#[cfg(test)]
mod tests;
