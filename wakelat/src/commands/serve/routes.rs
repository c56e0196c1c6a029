//! The answer to each request.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Request, StatusCode, header};

use super::{readings::ReadingRequests, totals::SharedTotals};
use wakelat_core::service::{
    host::AcceptedHosts,
    request::{JSON, RequestError, ServiceRequest},
};

/// How old the last reading may be until the service is not healthy: seconds. A reading is made every five seconds.
const MAX_AGE_S: f64 = 15.0;

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

/// The start page.
const PAGE: &str = include_str!("page.html");

/// An answer before it becomes a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// The header `Allow`, with [`StatusCode::METHOD_NOT_ALLOWED`].
    pub allow: Option<&'static str>,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    fn ok(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, content_type, allow: None, body: body.into() }
    }

    fn failed(status: StatusCode, why: &str) -> Self {
        Self { status, content_type: TEXT, allow: None, body: format!("{why}\n").into() }
    }

    /// The answer with this body, if there is one yet.
    fn once_measured(content_type: &'static str, body: Option<Bytes>) -> Self {
        let early =
            || Self::failed(StatusCode::SERVICE_UNAVAILABLE, "nothing has been measured yet; try again in a second");
        body.map_or_else(early, |body| Self::ok(content_type, body))
    }
}

/// Answers requests from the totals.
#[derive(Clone)]
pub struct Routes {
    totals: SharedTotals,
    readings: ReadingRequests,
    hosts: Arc<AcceptedHosts>,
}

impl Routes {
    /// Answers requests for `hosts` from `totals`, and requests a reading if they are old.
    pub fn new(totals: SharedTotals, readings: ReadingRequests, hosts: AcceptedHosts) -> Self {
        Self { totals, readings, hosts: Arc::new(hosts) }
    }

    /// The answer to a request, whose body does not matter.
    pub async fn answer<B>(&self, request: &Request<B>) -> Answer {
        let requested = parse(request, &self.hosts);
        if requested.as_ref().is_ok_and(ServiceRequest::needs_new_totals) {
            self.readings.renew(&self.totals).await;
        }
        self.answer_from_totals(requested)
    }

    fn answer_from_totals(&self, requested: Result<ServiceRequest, RequestError>) -> Answer {
        let mut totals = self.totals.lock();
        match requested {
            Ok(ServiceRequest::Metrics(format)) => Answer::once_measured(format.content_type(), totals.metrics(format)),
            Ok(ServiceRequest::Health) => match totals.age_s() {
                Some(age_s) if age_s > MAX_AGE_S => {
                    let why = format!("the kernel's tables were last read {age_s:.0} s ago");
                    Answer::failed(StatusCode::SERVICE_UNAVAILABLE, &why)
                }
                age_s => Answer::once_measured(TEXT, age_s.map(|_| Bytes::from_static(b"ok\n"))),
            },
            Ok(ServiceRequest::Report) => Answer::once_measured(JSON, totals.document()),
            Ok(ServiceRequest::Why { last_ns, as_json }) => {
                let content_type = if as_json { JSON } else { TEXT };
                Answer::once_measured(content_type, totals.recent(last_ns, as_json))
            }
            Ok(ServiceRequest::StartPage) => Answer::ok(HTML, PAGE),
            Err(error) => {
                let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
                Answer { allow: error.allowed_methods(), ..Answer::failed(status, &error.to_string()) }
            }
        }
    }
}

fn parse<B>(request: &Request<B>, hosts: &AcceptedHosts) -> Result<ServiceRequest, RequestError> {
    let (headers, uri) = (request.headers(), request.uri());
    let mut named = headers.get_all(header::HOST).iter().map(|value| value.to_str().ok());
    // HTTP/1.0 may have none. A request to a proxy has the host in its target.
    let is_accepted =
        named.all(|host| hosts.accepts(host)) && uri.authority().is_none_or(|host| hosts.accepts(Some(host.as_str())));
    if !is_accepted {
        return Err(RequestError::Host);
    }
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    ServiceRequest::parse(request.method().as_str(), uri.path(), uri.query().unwrap_or(""), accept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServeSettings;
    use hyper::Method;
    use wakelat_core::report::Report;

    fn answer(routes: &Routes, method: Method, path: &str, accept: &str) -> Answer {
        let request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept).body(()).unwrap();
        routes.answer_from_totals(parse(&request, &routes.hosts))
    }

    fn status(routes: &Routes, method: Method, path: &str, accept: &str) -> u16 {
        answer(routes, method, path, accept).status.as_u16()
    }

    #[test]
    fn each_path_has_its_answer() {
        let totals = SharedTotals::new(ServeSettings::default());
        let routes = Routes::new(totals.clone(), ReadingRequests::default(), AcceptedHosts::Any);
        let get = |path: &str| status(&routes, Method::GET, path, "");
        let paths = ["/metrics", "/healthz", "/report.json", "/why"];
        assert_eq!(paths.map(get), [503; 4]);
        totals.lock().covered(&Report::default(), |_| true);
        assert_eq!(paths.map(get), [200; 4]);
        assert_eq!(["/", "/why?last=5s&format=json", "/why?last=2h", "/metrics/"].map(get), [200, 200, 400, 404]);
        assert_eq!(status(&routes, Method::POST, "/metrics", ""), 405);
        assert_eq!(status(&routes, Method::HEAD, "/metrics", ""), 200);
        assert_eq!(status(&routes, Method::GET, "/metrics", "image/png"), 406);
        assert_eq!(answer(&routes, Method::POST, "/metrics", "").allow, Some("GET, HEAD"));
        assert_eq!(
            answer(&routes, Method::GET, "/metrics", "").content_type,
            "text/plain; version=0.0.4; charset=utf-8"
        );
    }
    #[test]
    fn a_request_for_another_host_is_refused_before_anything_else() {
        let totals = SharedTotals::new(ServeSettings::default());
        totals.lock().covered(&Report::default(), |_| true);
        let status = |hosts: AcceptedHosts, uri: &str, values: &[&[u8]]| {
            let routes = Routes::new(totals.clone(), ReadingRequests::default(), hosts);
            let mut request = Request::builder().uri(uri);
            for value in values {
                request = request.header(header::HOST, *value);
            }
            let requested = parse(&request.body(()).unwrap(), &routes.hosts);
            routes.answer_from_totals(requested).status.as_u16()
        };
        let local = || AcceptedHosts::Named(vec!["metrics".to_owned()]);
        let accepted: [&[&[u8]]; 4] = [&[], &[b"localhost:9779"], &[b"127.0.0.1"], &[b"metrics:80"]];
        assert_eq!(accepted.map(|values| status(local(), "/metrics", values)), [200; 4]);
        let refused: [&[&[u8]]; 4] = [&[b"evil.example"], &[b"localhost", b"evil.example"], &[b"\xff"], &[b""]];
        assert_eq!(refused.map(|values| status(local(), "/metrics", values)), [403; 4]);
        assert_eq!(refused.map(|values| status(local(), "/nothing", values)), [403; 4]);
        assert_eq!(refused.map(|values| status(AcceptedHosts::Any, "/metrics", values)), [200; 4]);
        assert_eq!(status(local(), "http://evil.example/metrics", &[b"localhost"]), 403);
        assert_eq!(status(local(), "http://localhost:9779/metrics", &[b"localhost"]), 200);
    }
}
