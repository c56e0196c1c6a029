//! Requests to a real server, with and without TLS.

use std::{
    io::{Seek as _, Write as _},
    sync::{Mutex, PoisonError},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
};
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;
use wakelat_core::{
    aggregate::container_id::Container,
    service::node_pods::testing::{POD_LIST, UID, path},
};

use super::*;

/// What a server answers to every request.
#[derive(Clone, Default)]
struct TestAnswer {
    status: &'static str,
    body: Vec<u8>,
    /// Sent in place of a body's own length.
    length: Option<usize>,
    delay: Duration,
}

impl TestAnswer {
    fn with(status: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }
}

/// A kubelet that keeps the requests that it receives.
struct TestKubelet {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TestKubelet {
    /// Answers every request with `answer`, over TLS if there is a certificate.
    async fn start(answer: TestAnswer, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let kept = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let request = match &tls {
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => respond(stream, &answer).await,
                        Err(error) => format!("no TLS: {error}"),
                    },
                    None => respond(stream, &answer).await,
                };
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            }
        });
        Self { port, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads the head of a request, answers it, and returns it.
async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &TestAnswer) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    sleep(answer.delay).await;
    let length = answer.length.unwrap_or(answer.body.len());
    let response = format!("HTTP/1.1 {}\r\nContent-Length: {length}\r\n\r\n", answer.status);
    // The client may have closed the connection.
    _ = stream.write_all(response.as_bytes()).await;
    _ = stream.write_all(&answer.body).await;
    _ = stream.shutdown().await;
    String::from_utf8(head).unwrap()
}

/// A CA, and a certificate that it has signed for `name`.
struct TestCertificates {
    ca: NamedTempFile,
    acceptor: TlsAcceptor,
}

impl TestCertificates {
    fn of(name: &str) -> Self {
        let mut parameters = CertificateParams::new(vec![]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let mut ca = NamedTempFile::new().unwrap();
        ca.write_all(issuer.pem().as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let versions = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let versions = versions.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = versions.with_single_cert(vec![leaf.der().clone()], key).unwrap();
        Self { ca, acceptor: Arc::new(config).into() }
    }
}

fn plain(port: u16) -> Kubelet {
    let url = format!("http://localhost:{port}").parse().unwrap();
    Kubelet::open(&KubeletSettings::new(url, None, None, false).unwrap()).unwrap()
}

/// `ca`: `None` to accept any certificate.
fn encrypted(port: u16, ca: Option<&Path>, token: &Path) -> Kubelet {
    let url = format!("https://127.0.0.1:{port}").parse().unwrap();
    let (ca, token, insecure) = (ca.map(Path::to_owned), Some(token.to_owned()), ca.is_none());
    Kubelet::open(&KubeletSettings::new(url, ca, token, insecure).unwrap()).unwrap()
}

fn token(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn pod_name(pods: &NodePods) -> String {
    pods.names(&Container::of(&path(UID, 'a')).unwrap()).unwrap().pod
}

/// The failure of a request that is answered with `answer`.
async fn failure(answer: TestAnswer) -> (KubeletResult, String) {
    let server = TestKubelet::start(answer, None).await;
    let KubeletFailure { result, why } = plain(server.port).pods().await.unwrap_err();
    (result, why)
}

#[tokio::test]
async fn plain_http_has_no_token() {
    let server = TestKubelet::start(TestAnswer::with("200 OK", POD_LIST), None).await;
    assert_eq!(pod_name(&plain(server.port).pods().await.unwrap()), "web-0");
    let [request] = &server.requests()[..] else { panic!("not one request") };
    assert!(request.starts_with("GET /pods HTTP/1.1\r\n"), "{request}");
    assert!(!request.to_lowercase().contains("authorization"), "{request}");
}

#[tokio::test]
async fn each_request_over_tls_has_the_current_token() {
    let certificates = TestCertificates::of("127.0.0.1");
    let answer = TestAnswer::with("200 OK", POD_LIST);
    let server = TestKubelet::start(answer, Some(certificates.acceptor.clone())).await;
    let mut token = token("first\n");
    let kubelet = encrypted(server.port, Some(certificates.ca.path()), token.path());
    assert_eq!(pod_name(&kubelet.pods().await.unwrap()), "web-0");
    token.as_file().set_len(0).unwrap();
    token.rewind().unwrap();
    token.write_all(b"second").unwrap();
    kubelet.pods().await.unwrap();
    let requests = server.requests();
    for (request, expected) in requests.iter().zip(["Bearer first\r\n", "Bearer second\r\n"]) {
        assert!(request.contains(expected), "{request}");
    }
    // Without one, there is no request.
    drop(token);
    let failure = kubelet.pods().await.unwrap_err();
    assert_eq!(failure.result, KubeletResult::Failed);
    assert!(failure.why.contains("cannot read the token"), "{failure:?}");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_certificate_of_another_authority_or_host_gets_no_token() {
    let (other, of_host) = (TestCertificates::of("127.0.0.1"), TestCertificates::of("other.example"));
    let token = token("secret");
    for (server, ca) in [(&other.acceptor, of_host.ca.path()), (&of_host.acceptor, of_host.ca.path())] {
        let server = TestKubelet::start(TestAnswer::with("200 OK", POD_LIST), Some(server.clone())).await;
        let failure = encrypted(server.port, Some(ca), token.path()).pods().await.unwrap_err();
        assert_eq!(failure.result, KubeletResult::Failed);
        assert!(failure.why.contains("no TLS connection") && failure.why.contains("--kubelet-ca"), "{failure:?}");
        assert!(!server.requests().iter().any(|request| request.contains("secret")), "{:?}", server.requests());
        // Only the explicit setting accepts it.
        assert!(encrypted(server.port, None, token.path()).pods().await.is_ok());
    }
}

#[tokio::test]
async fn an_error_is_refused_with_its_remedy() {
    for (status, remedy) in
        [("401 Unauthorized", "--kubelet-token"), ("403 Forbidden", "nodes/pods"), ("500 Internal Server Error", "500")]
    {
        let (result, why) = failure(TestAnswer::with(status, "secret")).await;
        assert!(result == KubeletResult::Refused && why.contains(remedy) && !why.contains("secret"), "{why}");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_too_long_or_no_list_is_a_failure() {
    let cut_off = TestAnswer { length: Some(1 << 20), ..TestAnswer::with("200 OK", POD_LIST) };
    let too_long = TestAnswer::with("200 OK", vec![b' '; MAX_ANSWER + 1]);
    for (answer, result, part) in [
        (cut_off, KubeletResult::Failed, "cut off"),
        (TestAnswer::with("200 OK", "<html>"), KubeletResult::Invalid, "not accepted"),
        (TestAnswer::with("HTTP", ""), KubeletResult::Failed, "no answer: "),
    ] {
        let (found, why) = failure(answer).await;
        assert!(found == result && why.contains(part), "{found:?}: {why}");
    }
    let server = TestKubelet::start(too_long, None).await;
    let too_long = plain(server.port).pods().await.unwrap_err();
    assert_eq!((too_long.result, too_long.why.as_str()), (KubeletResult::Invalid, "the answer is longer than 32 MiB"));
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let failure = plain(gone).pods().await.unwrap_err();
    assert!(failure.result == KubeletResult::Failed && failure.why.contains("cannot connect"), "{failure:?}");
}

#[tokio::test]
async fn a_slow_answer_is_not_waited_for() {
    let slow = TestAnswer { delay: Duration::from_secs(600), ..TestAnswer::with("200 OK", POD_LIST) };
    let server = TestKubelet::start(slow, None).await;
    let kubelet = Kubelet { timeout: Duration::from_secs(1), ..plain(server.port) };
    let KubeletFailure { result, why } = kubelet.pods().await.unwrap_err();
    assert_eq!((result, why.as_str()), (KubeletResult::Failed, "no answer within 1 s"));
}

#[test]
fn a_file_without_certificates_is_an_error_at_the_start() {
    let url = "https://127.0.0.1".parse().unwrap();
    let ca = token("no certificate");
    let settings = KubeletSettings::new(url, Some(ca.path().to_owned()), None, false).unwrap();
    let error = Kubelet::open(&settings).err().unwrap();
    assert!(format!("{error:#}").contains("--kubelet-ca"), "{error:#}");
}
