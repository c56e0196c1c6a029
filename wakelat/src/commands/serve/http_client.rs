//! Connections to HTTP servers: name resolution at the start, and one request for each connection.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, Response, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};

/// How long connecting to one address may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The header `User-Agent`.
pub const USER_AGENT: header::HeaderValue =
    header::HeaderValue::from_static(concat!("wakelat/", env!("CARGO_PKG_VERSION")));

/// Why a body has not been read: its connection failed, or it is too long.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Looks up the addresses of a host, which are kept from then on: resolvers need files and sockets that the process may not
/// open later. `flag` names the host in an error.
///
/// # Errors
/// If the host has no address.
pub fn resolve(host: &str, port: u16, flag: &str) -> Result<Vec<SocketAddr>> {
    let failed = || format!("cannot resolve `{host}` (`{flag}`)");
    let addresses: Vec<_> = (host, port).to_socket_addrs().with_context(failed)?.collect();
    if addresses.is_empty() {
        bail!(failed());
    }
    Ok(addresses)
}

/// Connects to the first address that accepts it.
///
/// # Errors
/// The error of the last address, if none accepts it.
pub async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// Sends a request over a connection, and returns the response with its body, if that has arrived and is at most
/// `max_body` bytes long.
///
/// # Errors
/// If there is no response.
pub async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    max_body: usize,
) -> hyper::Result<Response<Result<Bytes, BodyError>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, max_body).collect().await.map(|body| body.to_bytes());
        Ok(Response::from_parts(head, body))
    };
    tokio::pin!(connection, exchange);
    tokio::select! {
        biased;
        response = &mut exchange => response,
        // The connection can end, also with an error, when the response has arrived; the exchange then has it.
        ended = &mut connection => exchange.await.map_err(|error| ended.err().unwrap_or(error)),
    }
}

/// Text of a server without control characters, and not too long for a line.
pub fn printable(text: &str) -> String {
    text.chars().take(200).map(|each| if each.is_control() { ' ' } else { each }).collect()
}
