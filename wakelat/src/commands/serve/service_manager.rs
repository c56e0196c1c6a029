//! Tells systemd, or another service manager with its protocol, about the state of the service (`sd_notify(3)`). The
//! crates for it open a socket for each message, which the service may not do any more.

use std::{
    env, io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    process,
};

use anyhow::{Context as _, Result};

use crate::session::clock::monotonic_ns;

/// The service manager that started this process, if it waits for messages.
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// Whether it restarts the service when messages fail to arrive.
    has_watchdog: bool,
}

/// The state of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// The programs measure, and requests are answered.
    Ready,
    /// The kernel's tables have been read.
    Alive,
    /// The configuration file is being read again; [`ServiceState::Ready`] follows.
    Reloading,
    /// The service ends.
    Stopping,
}

impl ServiceManager {
    /// Connects to the socket that `$NOTIFY_SOCKET` names.
    ///
    /// # Errors
    /// If there is no such socket.
    pub fn connect() -> Result<Self> {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(Self { socket: None, has_watchdog: false });
        };
        let connect = || -> io::Result<UnixDatagram> {
            let address = match name.as_bytes().strip_prefix(b"@") {
                Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
                None => SocketAddr::from_pathname(&name)?,
            };
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            // A manager that does not read must not stop the service.
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = connect().with_context(|| format!("cannot connect to NOTIFY_SOCKET `{}`", name.display()))?;
        Ok(Self { socket: Some(socket), has_watchdog: has_watchdog() })
    }

    /// Sends a state. A failure is logged.
    pub fn notify(&self, state: ServiceState) {
        let Some(socket) = &self.socket else { return };
        if state == ServiceState::Alive && !self.has_watchdog {
            return;
        }
        if let Err(error) = socket.send(message(state, monotonic_ns() / 1_000).as_bytes()) {
            log::info!("cannot notify the service manager: {error}");
        }
    }
}

/// Whether the manager watches this process.
fn has_watchdog() -> bool {
    let is_ours = env::var("WATCHDOG_PID").map_or(true, |pid| pid.parse() == Ok(process::id()));
    is_ours && env::var_os("WATCHDOG_USEC").is_some()
}

/// The message for a state at `now_us` of CLOCK_MONOTONIC.
fn message(state: ServiceState, now_us: u64) -> String {
    match state {
        ServiceState::Ready => "READY=1\nSTATUS=measuring".to_owned(),
        ServiceState::Alive => "WATCHDOG=1".to_owned(),
        ServiceState::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={now_us}"),
        ServiceState::Stopping => "STOPPING=1".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_protocol() {
        assert!(message(ServiceState::Ready, 5).starts_with("READY=1\n"));
        assert_eq!(message(ServiceState::Alive, 5), "WATCHDOG=1");
        assert_eq!(message(ServiceState::Reloading, 5), "RELOADING=1\nMONOTONIC_USEC=5");
        assert_eq!(message(ServiceState::Stopping, 5), "STOPPING=1");
    }
}
