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
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::session::clock::monotonic_ns;

/// The service manager that started this process, if it waits for messages.
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// It restarts the service when messages fail to arrive for this long.
    watchdog: Option<Duration>,
}

/// The state of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// The kernel's tables have been read, and requests are answered.
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
            return Ok(Self { socket: None, watchdog: None });
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
        let variable = |name: &str| env::var(name).ok();
        Ok(Self { socket: Some(socket), watchdog: watchdog(variable, process::id()) })
    }

    /// How often [`ServiceState::Alive`] should be sent, if at all: in half of the time after which the manager
    /// restarts the service (`sd_watchdog_enabled(3)`).
    pub fn alive_interval(&self) -> Option<Duration> {
        self.watchdog.map(|timeout| timeout / 2)
    }

    /// Sends a state. A failure is logged.
    pub fn notify(&self, state: ServiceState) {
        let Some(socket) = &self.socket else { return };
        if state == ServiceState::Alive && self.watchdog.is_none() {
            return;
        }
        if let Err(error) = socket.send(message(state, monotonic_ns() / 1_000).as_bytes()) {
            log::info!("cannot notify the service manager: {error}");
        }
    }
}

/// After how long without a message the manager restarts the process with this PID; `None` if it does not watch it.
/// `variable`: the value of an environment variable.
fn watchdog(variable: impl Fn(&str) -> Option<String>, own_pid: u32) -> Option<Duration> {
    let is_ours = variable("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(own_pid));
    let timeout_us: u64 = variable("WATCHDOG_USEC").filter(|_| is_ours)?.parse().ok()?;
    (timeout_us > 0).then(|| Duration::from_micros(timeout_us))
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
    fn the_watchdog_is_that_of_this_process() {
        let timeout = |pid: Option<&str>, timeout_us: Option<&str>| {
            let variable = |name: &str| (if name == "WATCHDOG_PID" { pid } else { timeout_us }).map(str::to_owned);
            watchdog(variable, 7)
        };
        let three_seconds = Some(Duration::from_secs(3));
        assert_eq!(
            [None, Some("7"), Some("8")].map(|pid| timeout(pid, Some("3000000"))),
            [three_seconds, three_seconds, None]
        );
        assert_eq!([None, Some("0"), Some("x")].map(|timeout_us| timeout(None, timeout_us)), [None; 3]);
    }

    #[test]
    fn signs_of_life_are_sent_in_half_of_the_timeout() {
        let of = |watchdog| ServiceManager { socket: None, watchdog }.alive_interval();
        assert_eq!(of(Some(Duration::from_secs(3))), Some(Duration::from_millis(1_500)));
        assert_eq!(of(None), None);
    }

    #[test]
    fn messages_are_those_of_the_protocol() {
        assert!(message(ServiceState::Ready, 5).starts_with("READY=1\n"));
        assert_eq!(message(ServiceState::Alive, 5), "WATCHDOG=1");
        assert_eq!(message(ServiceState::Reloading, 5), "RELOADING=1\nMONOTONIC_USEC=5");
        assert_eq!(message(ServiceState::Stopping, 5), "STOPPING=1");
    }
}
