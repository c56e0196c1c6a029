//! The answer to each request.

use bytes::Bytes;
use hyper::{Method, Request, StatusCode, header};

use super::{query, totals::SharedTotals};
use wakelat_core::service::{accept::preferred, metrics_format::MetricsFormat};

/// How old the last reading may be until the service is not healthy: seconds. A reading is made each second.
const MAX_AGE_S: f64 = 10.0;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
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
    /// The body.
    pub body: Bytes,
}

impl Answer {
    fn ok(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, content_type, body: body.into() }
    }

    fn failed(status: StatusCode, why: &str) -> Self {
        Self { status, content_type: TEXT, body: format!("{why}\n").into() }
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
pub struct Routes(SharedTotals);

impl Routes {
    /// Answers from `totals`.
    pub fn new(totals: SharedTotals) -> Self {
        Self(totals)
    }

    /// The answer to a request, whose body does not matter.
    pub fn answer<B>(&self, request: &Request<B>) -> Answer {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return Answer::failed(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported");
        }
        let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
        let mut totals = self.0.lock();
        match request.uri().path() {
            "/metrics" => match preferred(accept, &MetricsFormat::MEDIA_TYPES) {
                Some(at) => {
                    let format = MetricsFormat::ALL[at];
                    Answer::once_measured(format.content_type(), totals.metrics(format))
                }
                None => Answer::failed(
                    StatusCode::NOT_ACCEPTABLE,
                    "only OpenMetrics, the text format 0.0.4 and protobuf are available",
                ),
            },
            "/healthz" => match totals.age_s() {
                Some(age_s) if age_s > MAX_AGE_S => {
                    let why = format!("the kernel's tables were last read {age_s:.0} s ago");
                    Answer::failed(StatusCode::SERVICE_UNAVAILABLE, &why)
                }
                age_s => Answer::once_measured(TEXT, age_s.map(|_| Bytes::from_static(b"ok\n"))),
            },
            "/report.json" => Answer::once_measured(JSON, totals.document()),
            "/why" => match query::parse(request.uri().query().unwrap_or("")) {
                Ok(query) => {
                    let prefers_json = || preferred(accept, &["text/plain", JSON]) == Some(1);
                    let as_json = query.as_json.unwrap_or_else(prefers_json);
                    let content_type = if as_json { JSON } else { TEXT };
                    Answer::once_measured(content_type, totals.recent(query.last_ns, as_json))
                }
                Err(why) => Answer::failed(StatusCode::BAD_REQUEST, &why),
            },
            "/" => Answer::ok(HTML, PAGE),
            _ => Answer::failed(StatusCode::NOT_FOUND, "expected /metrics, /why, /report.json, /healthz or /"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServeSettings;
    use wakelat_core::report::Report;

    fn status(routes: &Routes, method: Method, path: &str, accept: &str) -> u16 {
        let request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept).body(()).unwrap();
        routes.answer(&request).status.as_u16()
    }

    #[test]
    fn each_path_has_its_answer() {
        let totals = SharedTotals::new(ServeSettings::default());
        let routes = Routes::new(totals.clone());
        let get = |path: &str| status(&routes, Method::GET, path, "");
        let paths = ["/metrics", "/healthz", "/report.json", "/why"];
        assert_eq!(paths.map(get), [503; 4]);
        totals.lock().covered(&Report::default(), |_| true);
        assert_eq!(paths.map(get), [200; 4]);
        assert_eq!(["/", "/why?last=5s&format=json", "/why?last=2h", "/metrics/"].map(get), [200, 200, 400, 404]);
        assert_eq!(status(&routes, Method::POST, "/metrics", ""), 405);
        assert_eq!(status(&routes, Method::HEAD, "/metrics", ""), 200);
        assert_eq!(status(&routes, Method::GET, "/metrics", "image/png"), 406);
    }
}
