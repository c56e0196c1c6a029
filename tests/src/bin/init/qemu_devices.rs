//! What a guest has of QEMU: a console for its results, an exit code, and the serial console.

use std::{fs::File, io};

#[cfg(target_arch = "x86_64")]
mod ports;
#[cfg(target_arch = "x86_64")]
use ports as devices;

#[cfg(target_arch = "aarch64")]
mod semihosting;
#[cfg(target_arch = "aarch64")]
use semihosting as devices;

pub use devices::{end, print_from};

/// Brings the loopback interface up.
pub fn raise_loopback() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: `ifreq` is plain numbers and bytes, for which all zeros is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the request is an `ifreq` with a name and flags, as SIOCSIFFLAGS expects, and outlives the call.
    match unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&socket), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The serial console, for a shell.
pub fn terminal() -> io::Result<File> {
    File::options().read(true).write(true).open(devices::CONSOLE)
}
