//! The socket that the service listens on.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::{
        fs::FileTypeExt as _,
        net::{UnixListener, UnixStream},
    },
    path::Path,
};

use anyhow::{Context as _, Result, bail};

use crate::config::ListenAddress;

/// A socket that listens, and its address.
pub struct ServiceSocket {
    /// The socket, which does not block.
    pub socket: SocketKind,
    /// The address, with the port that the kernel chose if 0 was given.
    pub address: String,
}

/// The kinds of sockets.
pub enum SocketKind {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket. Its file stays when the process ends, which may not remove files any more; the next process
    /// replaces it.
    Unix(UnixListener),
}

/// A socket that an event loop waits for.
pub enum RegisteredSocket {
    /// A TCP port.
    Tcp(tokio::net::TcpListener),
    /// A Unix socket.
    Unix(tokio::net::UnixListener),
}

impl SocketKind {
    /// Registers the socket with the event loop that the caller is inside of.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn register(self) -> io::Result<RegisteredSocket> {
        Ok(match self {
            Self::Tcp(socket) => RegisteredSocket::Tcp(tokio::net::TcpListener::from_std(socket)?),
            Self::Unix(socket) => RegisteredSocket::Unix(tokio::net::UnixListener::from_std(socket)?),
        })
    }
}

impl ServiceSocket {
    /// Listens at `address`. A Unix socket that no process listens on any more is replaced.
    ///
    /// # Errors
    /// If another process listens there, or the kernel refuses.
    pub fn bind(address: &ListenAddress) -> Result<Self> {
        Self::bound(address).with_context(|| format!("cannot listen on `{address}`"))
    }

    fn bound(address: &ListenAddress) -> Result<Self> {
        Ok(match address {
            ListenAddress::Tcp(address) => {
                let socket = TcpListener::bind(address)?;
                socket.set_nonblocking(true)?;
                let address = socket.local_addr()?.to_string();
                Self { socket: SocketKind::Tcp(socket), address }
            }
            ListenAddress::Unix(path) => {
                remove_stale(path)?;
                let socket = UnixListener::bind(path)?;
                socket.set_nonblocking(true)?;
                Self { socket: SocketKind::Unix(socket), address: address.to_string() }
            }
        })
    }
}

/// Removes the socket of a process that was killed. Leaves everything else.
fn remove_stale(path: &Path) -> Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        bail!("the file exists and is not a socket");
    }
    match UnixStream::connect(path) {
        Ok(_) => bail!("another process listens on it"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(fs::remove_file(path)?),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_no_process_listens_on_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let address = ListenAddress::Unix(path.clone());
        let first = ServiceSocket::bind(&address).unwrap();
        assert!(format!("{:#}", ServiceSocket::bind(&address).err().unwrap()).contains("another process listens"));
        drop(first);
        assert!(path.exists());
        drop(ServiceSocket::bind(&address).unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "data").unwrap();
        assert!(ServiceSocket::bind(&address).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }
}
