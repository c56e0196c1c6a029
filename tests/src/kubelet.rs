//! A kubelet that answers over TLS with the list of pods that a test chooses.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
};
use serde_json::Value;

/// The token that it expects.
pub const TOKEN: &str = "test-token";

/// A kubelet. It refuses requests without its token.
pub struct TestKubelet {
    address: SocketAddr,
    directory: tempfile::TempDir,
    pods: Arc<Mutex<Value>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TestKubelet {
    /// Begins to answer with a list of no pods.
    ///
    /// # Panics
    /// If there is no port, or no directory for the certificates.
    pub fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let config = Arc::new(certificates(directory.path()));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let pods = Arc::new(Mutex::new(Value::Array(vec![])));
        let ends = Arc::<AtomicBool>::default();
        let (answered, ending) = (Arc::clone(&pods), Arc::clone(&ends));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if ending.load(Ordering::Relaxed) {
                    return;
                }
                let items = answered.lock().expect("no panic").clone();
                // A service that ends may close its connection at any time.
                _ = answer(stream.expect("a connection"), &config, &items);
            }
        });
        let kubelet = Self { address, directory, pods, ends, thread: Some(thread) };
        kubelet.write_token(TOKEN);
        kubelet
    }

    /// Answers with these pods from now on.
    ///
    /// # Panics
    /// If the thread that answers has panicked.
    pub fn set_pods(&self, pods: Value) {
        *self.pods.lock().expect("no panic") = pods;
    }

    /// Replaces the token that the service sends.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn write_token(&self, token: &str) {
        std::fs::write(self.file("token"), token).expect("a file");
    }

    /// The arguments with which `wakelat serve` asks this kubelet.
    pub fn arguments(&self) -> Vec<String> {
        let file = |name: &str| self.file(name).display().to_string();
        let (url, ca, token) = (format!("https://{}", self.address), file("ca.crt"), file("token"));
        ["--kubelet", &url, "--kubelet-ca", &ca, "--kubelet-token", &token].map(str::to_owned).into()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for TestKubelet {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        _ = TcpStream::connect(self.address);
        _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Writes a CA to `directory`, and returns TLS with a certificate that it has signed.
fn certificates(directory: &Path) -> ServerConfig {
    let mut parameters = CertificateParams::new(vec![]).expect("no names");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let [ca_key, key] = [(); 2].map(|()| KeyPair::generate().expect("a key"));
    let issuer = CertifiedIssuer::self_signed(parameters, ca_key).expect("a CA");
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
    let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
    std::fs::write(directory.join("ca.crt"), issuer.pem()).expect("a file");
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("a key in PEM");
    let versions = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let versions = versions.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    versions.with_single_cert(vec![leaf.der().clone()], key).expect("a key of the certificate")
}

fn answer(stream: TcpStream, config: &Arc<ServerConfig>, pods: &Value) -> io::Result<()> {
    let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line)? > 2 {
        head.push_str(&line);
        line.clear();
    }
    let is_allowed = head.starts_with("GET /pods ") && head.contains(&format!("Bearer {TOKEN}\r\n"));
    let status = if is_allowed { "200 OK" } else { "401 Unauthorized" };
    let body = serde_json::json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}).to_string();
    let body = if is_allowed { body.as_str() } else { "Unauthorized" };
    write!(reader.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    reader.get_mut().flush()
}
