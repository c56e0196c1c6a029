//! A real Prometheus that scrapes the service, and requests over TCP as its scraper makes them.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{self, Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use serde_json::Value;

use crate::{skip::Skip, workload::until};

/// Longer than the service lets any connection live.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request to a port of this machine. Returns the body of a successful answer.
pub fn get(port: u16, path: &str, accept: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    // With 1.0, no answer comes in chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).is_some_and(|status| status == "200").then(|| body.to_owned())
}

/// A port that no process listens on and that no other call returns. It is none that the kernel gives to a connection
/// (`net.ipv4.ip_local_port_range` begins at 32768): tests that run concurrently make many. Nothing listens on it to find that
/// out: a process that another thread starts at that moment would keep the port until it executes its program.
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const PORTS: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Another run of the tests begins elsewhere.
    let begin = process::id() % u32::from(PORTS);
    let mut ports = (0..PORTS).map(|_| {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        FIRST + ((begin + step) % u32::from(PORTS)) as u16
    });
    ports.find(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()).expect("a port")
}

/// Which histograms Prometheus requests and stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrometheusHistograms {
    /// One series for each bucket.
    Classic,
    /// One series with all buckets.
    Native,
}

/// A Prometheus that scrapes a port each second, and is killed when dropped.
pub struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    /// Starts it with a database in `directory`, as the job `wakelat`. Returns when it answers queries.
    pub fn start(directory: &Path, target: u16, histograms: PrometheusHistograms) -> Result<Self, Skip> {
        fs::create_dir_all(directory).expect("a directory");
        let config = directory.join("prometheus.yml");
        let scrape = format!(
            "scrape_configs:\n- job_name: wakelat\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  static_configs:\n  - targets: ['127.0.0.1:{target}']\n"
        );
        fs::write(&config, scrape).expect("a file");
        let port = free_port();
        let features = match histograms {
            PrometheusHistograms::Classic => "exemplar-storage",
            PrometheusHistograms::Native => "native-histograms,exemplar-storage",
        };
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg(format!("--enable-feature={features}"))
            .arg("--log.level=error")
            .stdin(Stdio::null())
            .spawn()
            .map_err(|_| Skip::because("needs Prometheus (Debian package prometheus)"))?;
        let prometheus = Self { child, port };
        until("Prometheus is ready", || get(prometheus.port, "/-/ready", "*/*").is_some());
        Ok(prometheus)
    }

    /// The data of the answer to a request of the API with these parameters; `None` without a successful answer.
    pub fn request(&self, path: &str, parameters: &[(&str, &str)]) -> Option<Value> {
        let encoded = |value: &str| value.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let query: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let answer = get(self.port, &format!("/api/v1/{path}?{}", query.join("&")), "*/*")?;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        Some(answer["data"].clone())
    }

    /// The series that an instant query results in; `None` without a successful answer.
    pub fn series(&self, expression: &str) -> Option<Vec<Value>> {
        self.request("query", &[("query", expression)])?["result"].as_array().cloned()
    }

    /// The series that an instant query results in at `time`, in Unix time.
    ///
    /// # Panics
    /// If the query fails.
    pub fn series_at(&self, expression: &str, time: &str) -> Vec<Value> {
        let answer = self.request("query", &[("query", expression), ("time", time)]);
        let series = answer.as_ref().and_then(|answer| answer["result"].as_array());
        series.unwrap_or_else(|| panic!("{expression}: {answer:?}")).clone()
    }

    /// The result of an instant query that selects one series; `None` if there is none.
    ///
    /// # Panics
    /// If the query selects several.
    pub fn query(&self, expression: &str) -> Option<Value> {
        let series = self.series(expression)?;
        assert!(series.len() < 2, "{expression} selects several series: {series:?}");
        series.into_iter().next()
    }

    /// The number that a query results in.
    ///
    /// # Panics
    /// If there is none.
    pub fn number(&self, expression: &str) -> f64 {
        let value = self.query(expression);
        value.as_ref().and_then(number_of).unwrap_or_else(|| panic!("{expression}: {value:?}"))
    }
}

/// The number of a series in the result of an instant query.
pub fn number_of(series: &Value) -> Option<f64> {
    series["value"][1].as_str()?.parse().ok()
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
