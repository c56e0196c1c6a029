//! The socket that the service listens on.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::{
        fs::FileTypeExt as _,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use crate::config::ListenAddress;

/// A socket that listens. A Unix socket is removed when it is dropped.
pub enum ServiceSocket {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener, SocketFile),
}

/// The file of a Unix socket, removed when dropped.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

impl ServiceSocket {
    /// Listens at `address`. A Unix socket that no process listens on any more is replaced.
    ///
    /// # Errors
    /// If another process listens there, or the kernel refuses.
    pub fn bind(address: &ListenAddress) -> Result<Self> {
        let failed = || format!("cannot listen on `{address}`");
        let listener = match address {
            ListenAddress::Tcp(address) => Self::Tcp(TcpListener::bind(address).with_context(failed)?),
            ListenAddress::Unix(path) => {
                remove_stale(path).with_context(failed)?;
                let socket = UnixListener::bind(path).with_context(failed)?;
                Self::Unix(socket, SocketFile(path.clone()))
            }
        };
        listener.set_nonblocking().with_context(failed)?;
        Ok(listener)
    }

    /// The address, with the port that the kernel chose if 0 was given.
    pub fn address(&self) -> String {
        match self {
            Self::Tcp(socket) => socket.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string()),
            Self::Unix(_, file) => format!("unix:{}", file.0.display()),
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_nonblocking(true),
            Self::Unix(socket, _) => socket.set_nonblocking(true),
        }
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
    fn a_socket_is_removed_and_only_a_stale_one_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let address = ListenAddress::Unix(path.clone());
        let first = ServiceSocket::bind(&address).unwrap();
        assert!(format!("{:#}", ServiceSocket::bind(&address).err().unwrap()).contains("another process listens"));
        drop(first);
        assert!(!path.exists());
        // A process that is killed leaves its socket.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(ServiceSocket::bind(&address).unwrap());
        fs::write(&path, "data").unwrap();
        assert!(ServiceSocket::bind(&address).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }
}
