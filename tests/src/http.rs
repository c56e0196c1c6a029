//! Requests to `wakelat serve` over its Unix socket, as a client that knows only HTTP/1.1 makes them.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// Longer than the service lets any connection live.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A response.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body.
    pub body: String,
}

/// Opens a connection.
///
/// # Panics
/// If the service does not listen.
pub fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap_or_else(|error| panic!("{}: {error}", socket.display()));
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    stream.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
    stream
}

/// Reads until the service closes the connection. `None` if it closes it without a response.
///
/// # Panics
/// If the response is not HTTP, or the service neither answers nor closes.
pub fn response(mut stream: UnixStream) -> Option<HttpResponse> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => panic!("no end of the response: {error}"),
        _ => {}
    }
    if bytes.is_empty() {
        return None;
    }
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no end of the headers: {text}"));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status code: {head}"));
    Some(HttpResponse { status, head: head.to_owned(), body: body.to_owned() })
}

/// Sends `request`, and returns the response.
///
/// # Panics
/// If there is none.
pub fn send(socket: &Path, request: &str) -> HttpResponse {
    let mut stream = connect(socket);
    // The service may close the connection before it has read a request that is too long.
    _ = stream.write_all(request.as_bytes());
    response(stream).unwrap_or_else(|| panic!("no response to {request:?}"))
}

/// The response to `GET path` with this `Accept` header.
pub fn get(socket: &Path, path: &str, accept: &str) -> HttpResponse {
    send(socket, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n"))
}

/// The samples of an exposition: from name and labels to value.
#[derive(Clone, Debug)]
pub struct MetricSamples(pub BTreeMap<String, f64>);

impl MetricSamples {
    /// Requests the metrics.
    ///
    /// # Panics
    /// If a line is not a sample.
    pub fn scrape(socket: &Path) -> Self {
        let response = get(socket, "/metrics", "*/*");
        assert_eq!(response.status, 200, "{response:?}");
        Self::parse(&response.body)
    }

    /// The samples of an exposition in either text format.
    ///
    /// # Panics
    /// If a line is not a sample.
    pub fn parse(exposition: &str) -> Self {
        let samples = exposition.lines().filter(|line| !line.starts_with('#')).map(|line| {
            // An exemplar may follow.
            let sample = line.split(" # ").next().unwrap_or(line);
            let (name, value) = sample.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|error| panic!("{error}: {line}")))
        });
        Self(samples.collect())
    }

    /// The sample with this name and these labels; 0 if there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }

    /// The sum of all samples whose name and labels begin with `beginning` and contain `part`.
    pub fn sum(&self, beginning: &str, part: &str) -> f64 {
        self.0
            .iter()
            .filter(|(name, _)| name.starts_with(beginning) && name.contains(part))
            .map(|(_, value)| value)
            .sum()
    }
}
