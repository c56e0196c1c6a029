//! Connections, bounded in number, size and time, so that no client can exhaust the service.

use std::{
    cell::RefCell,
    collections::VecDeque,
    convert::Infallible,
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::sync_channel,
    },
    thread,
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response,
    body::{Bytes, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Builder,
    task::{AbortHandle, LocalSet, spawn_local, yield_now},
    time::{sleep, timeout},
};

use super::{
    listener::{RegisteredSocket, ServiceSocket},
    routes::Routes,
    unread_answers::{self, SentBody},
};
use crate::session::clock::thread_cpu_ns;
use wakelat_core::service::request::{MAX_HEADERS, MAX_REQUEST_BYTES};

/// Maximum number of connections. Another one ends the oldest: clients that connect and send nothing cannot lock out
/// a scraper, whose connection takes milliseconds.
const MAX_CONNECTIONS: usize = 64;

/// How long a client may take to send a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may last, with the time that the client takes to read the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait after the kernel has refused a connection, as without a free descriptor.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Answers requests by `routes` in a thread of its own, until the process ends: clients that ask without pause do not delay
/// the readings of the kernel's tables. `cpu_ns` is set to the CPU time of the thread whenever it has nothing to do.
///
/// # Errors
/// If the kernel refuses the thread, or to register the socket with its event loop.
pub fn spawn(listener: ServiceSocket, routes: Routes, cpu_ns: Arc<AtomicU64>) -> io::Result<()> {
    let (started, result) = sync_channel(1);
    let work = move || {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .on_thread_park(move || cpu_ns.store(thread_cpu_ns(), Relaxed))
            .build();
        let listening = runtime.and_then(|runtime| {
            let socket = {
                let _inside = runtime.enter();
                listener.socket.register()?
            };
            Ok((runtime, socket))
        });
        match listening {
            Ok((runtime, socket)) => {
                _ = started.send(Ok(()));
                LocalSet::new().block_on(&runtime, accept_all(socket, routes));
            }
            Err(error) => _ = started.send(Err(error)),
        }
    };
    thread::Builder::new().name("wakelat-http".to_owned()).spawn(work)?;
    result.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that answers requests has ended")))
}

async fn accept_all(socket: RegisteredSocket, routes: Routes) {
    let mut open = OpenConnections::default();
    loop {
        match &socket {
            RegisteredSocket::Tcp(socket) => open.accept(socket.accept().await, &routes).await,
            RegisteredSocket::Unix(socket) => open.accept(socket.accept().await, &routes).await,
        }
    }
}

/// The connections that may be open, oldest first.
#[derive(Clone, Default)]
struct OpenConnections(Rc<RefCell<VecDeque<OpenConnection>>>);

struct OpenConnection {
    task: AbortHandle,
    body: SentBody,
}

impl OpenConnections {
    /// Answers the request of a connection in a task of its own.
    async fn accept<S, A>(&mut self, accepted: io::Result<(S, A)>, routes: &Routes)
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                log::info!("cannot accept a connection: {error}");
                sleep(PAUSE_AFTER_ERROR).await;
                return;
            }
        };
        if let Some(oldest) = self.one_too_many() {
            oldest.task.abort();
            // Its socket is closed when the event loop next runs it, which is before this task.
            yield_now().await;
        }
        let body = SentBody::default();
        let task = spawn_local(answer_one(stream, routes.clone(), self.clone(), body.clone())).abort_handle();
        self.0.borrow_mut().push_back(OpenConnection { task, body });
    }

    /// Takes the oldest connection, if there is no room for another one.
    fn one_too_many(&self) -> Option<OpenConnection> {
        let mut open = self.0.borrow_mut();
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= MAX_CONNECTIONS { open.pop_front() } else { None }
    }

    /// Ends the oldest connections whose clients have not read their answers, if `newest` needs their memory.
    fn make_room(&self, newest: &SentBody) {
        let mut open = self.0.borrow_mut();
        open.retain(|connection| !connection.task.is_finished());
        let bodies: Vec<SentBody> = open.iter().map(|connection| connection.body.clone()).collect();
        let mut ends = unread_answers::without_room(&bodies, newest, unread_answers::MAX_BYTES).into_iter();
        open.retain(|connection| {
            let ends = ends.next() == Some(true);
            if ends {
                connection.task.abort();
            }
            !ends
        });
    }
}

/// Answers one request, and closes the connection.
async fn answer_one<S>(stream: S, routes: Routes, open: OpenConnections, body: SentBody)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let routes = Rc::new(routes);
    let respond = service_fn(move |request: Request<Incoming>| {
        let (routes, open, body) = (Rc::clone(&routes), open.clone(), body.clone());
        async move { Ok::<_, Infallible>(response(&routes, &request, &open, &body).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(MAX_REQUEST_BYTES)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), respond);
    match timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => log::debug!("connection failed: {error}"),
        Err(_) => log::debug!("connection took too long"),
    }
}

async fn response(
    routes: &Routes,
    request: &Request<Incoming>,
    open: &OpenConnections,
    sent: &SentBody,
) -> Response<Full<Bytes>> {
    let answer = routes.answer(request).await;
    let length = answer.body.len();
    let is_head = request.method() == Method::HEAD;
    let body = if is_head { Bytes::new() } else { answer.body };
    sent.set(&body);
    open.make_room(sent);
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(answer.content_type));
    headers.insert(header::CONTENT_LENGTH, length.into());
    if let Some(methods) = answer.allow {
        headers.insert(header::ALLOW, header::HeaderValue::from_static(methods));
    }
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}
