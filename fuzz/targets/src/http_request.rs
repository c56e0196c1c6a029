//! Requests to `wakelat serve`.

use std::{
    convert::Infallible,
    future::Future as _,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header,
    rt::{Read, ReadBufCursor, Write},
    server::conn::http1,
    service::service_fn,
};
use wakelat_core::service::{
    recent::MAX_LAST_NS,
    request::{MAX_HEADERS, MAX_REQUEST_BYTES, ServiceRequest},
};

/// Reads any bytes as a connection of a client with the parser and the limits of the service, which may not panic,
/// answer more than one request, or accept a parameter beyond its limit. Returns the number of requests that the service
/// would answer.
pub fn check(bytes: &[u8]) -> usize {
    let (mut accepted, mut answered) = (0, 0);
    let mut sent = Vec::new();
    let respond = |request: Request<Incoming>| {
        let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
        let uri = request.uri();
        let parsed = ServiceRequest::parse(request.method().as_str(), uri.path(), uri.query().unwrap_or(""), accept);
        answered += 1;
        let mut response = Response::new(Full::new(Bytes::new()));
        match parsed {
            Ok(parsed) => {
                if let ServiceRequest::Why { last_ns, .. } = parsed {
                    assert!((1..=MAX_LAST_NS).contains(&last_ns), "{last_ns}");
                }
                accepted += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                *response.status_mut() = error.status().try_into().expect("a status code");
            }
        }
        std::future::ready(Ok::<_, Infallible>(response))
    };
    // The service is a closure that counts, and hyper calls it for one request at a time.
    let respond = std::cell::RefCell::new(respond);
    let service = service_fn(|request| (respond.borrow_mut())(request));
    let memory = MemoryStream { unread: bytes, sent: &mut sent };
    let connection = http1::Builder::new()
        .max_buf_size(MAX_REQUEST_BYTES)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(memory, service);
    let mut connection = pin!(connection);
    // Nothing here waits for anything: each step reads or answers.
    let ended =
        (0..=bytes.len() + 16).any(|_| connection.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(ended, "the connection does not end");
    assert!(answered <= 1, "{answered} answers in one connection");
    assert!(sent.is_empty() || sent.starts_with(b"HTTP/1."), "{sent:?}");
    accepted
}

/// A connection whose client has sent all that it sends.
struct MemoryStream<'a> {
    unread: &'a [u8],
    sent: &'a mut Vec<u8>,
}

impl Read for MemoryStream<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let (read, rest) = self.unread.split_at(self.unread.len().min(buffer.remaining()));
        buffer.put_slice(read);
        self.unread = rest;
        Poll::Ready(Ok(()))
    }
}

impl Write for MemoryStream<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.sent.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
