//! The answer to each request.

use bytes::Bytes;
use hyper::{Request, StatusCode, header};

use super::{readings::ReadingRequests, totals::SharedTotals};
use wakelat_core::service::request::{JSON, RequestError, ServiceRequest};

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
}

impl Routes {
    /// Answers from `totals`, and requests a reading if they are old.
    pub fn new(totals: SharedTotals, readings: ReadingRequests) -> Self {
        Self { totals, readings }
    }

    /// The answer to a request, whose body does not matter.
    pub async fn answer<B>(&self, request: &Request<B>) -> Answer {
        let requested = parse(request);
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

fn parse<B>(request: &Request<B>) -> Result<ServiceRequest, RequestError> {
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let uri = request.uri();
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
        routes.answer_from_totals(parse(&request))
    }

    fn status(routes: &Routes, method: Method, path: &str, accept: &str) -> u16 {
        answer(routes, method, path, accept).status.as_u16()
    }

    #[test]
    fn each_path_has_its_answer() {
        let totals = SharedTotals::new(ServeSettings::default());
        let routes = Routes::new(totals.clone(), ReadingRequests::default());
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
}
