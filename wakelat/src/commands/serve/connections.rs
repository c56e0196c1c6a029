//! Connections, bounded in number, size and time, so that no client can exhaust the service.

use std::{collections::VecDeque, convert::Infallible, io, rc::Rc, time::Duration};

use http_body_util::Full;
use hyper::{Method, Request, Response, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    task::{AbortHandle, spawn_local, yield_now},
    time::{sleep, timeout},
};

use super::{
    listener::{ServiceSocket, SocketKind},
    routes::Routes,
};

/// Maximum number of connections. Another one ends the oldest: clients that connect and send nothing cannot lock out
/// a scraper, whose connection takes milliseconds.
const MAX_CONNECTIONS: usize = 64;

/// How long a client may take to send a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may last, with the time that the client takes to read the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest request: bytes.
const MAX_REQUEST: usize = 16 * 1024;

/// The most headers of a request.
const MAX_HEADERS: usize = 64;

/// How long to wait after the kernel has refused a connection, as without a free descriptor.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Answers requests by `routes` until the event loop ends. The caller is inside of it.
///
/// # Errors
/// If the socket cannot be registered with the event loop.
pub fn spawn(listener: ServiceSocket, routes: Routes) -> io::Result<()> {
    match listener.socket {
        SocketKind::Tcp(socket) => {
            let socket = TcpListener::from_std(socket)?;
            spawn_local(async move {
                let mut open = OpenConnections::default();
                loop {
                    let accepted = socket.accept().await.map(|(stream, _)| stream);
                    open.accept(accepted, &routes).await;
                }
            });
        }
        SocketKind::Unix(socket) => {
            let socket = UnixListener::from_std(socket)?;
            spawn_local(async move {
                let mut open = OpenConnections::default();
                loop {
                    let accepted = socket.accept().await.map(|(stream, _)| stream);
                    open.accept(accepted, &routes).await;
                }
            });
        }
    }
    Ok(())
}

/// The connections that may be open, oldest first.
#[derive(Default)]
struct OpenConnections(VecDeque<AbortHandle>);

impl OpenConnections {
    /// Answers the request of a connection in a task of its own.
    async fn accept<S>(&mut self, accepted: io::Result<S>, routes: &Routes)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                log::info!("cannot accept a connection: {error}");
                sleep(PAUSE_AFTER_ERROR).await;
                return;
            }
        };
        self.0.retain(|task| !task.is_finished());
        if self.0.len() >= MAX_CONNECTIONS
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
            // Its socket is closed when the event loop next runs it, which is before this task.
            yield_now().await;
        }
        self.0.push_back(spawn_local(answer_one(stream, routes.clone())).abort_handle());
    }
}

/// Answers one request, and closes the connection.
async fn answer_one<S: AsyncRead + AsyncWrite + Unpin>(stream: S, routes: Routes) {
    let routes = Rc::new(routes);
    let respond = service_fn(move |request: Request<Incoming>| {
        let routes = Rc::clone(&routes);
        async move { Ok::<_, Infallible>(response(&routes, &request)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(MAX_REQUEST)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), respond);
    match timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => log::debug!("connection failed: {error}"),
        Err(_) => log::debug!("connection took too long"),
    }
}

fn response(routes: &Routes, request: &Request<Incoming>) -> Response<Full<hyper::body::Bytes>> {
    let answer = routes.answer(request);
    let length = answer.body.len();
    let is_head = request.method() == Method::HEAD;
    let mut response = Response::new(Full::new(if is_head { hyper::body::Bytes::new() } else { answer.body }));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(answer.content_type));
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}
