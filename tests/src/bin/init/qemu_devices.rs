//! The two devices through which a guest communicates with QEMU.

use std::{arch::asm, convert::Infallible, fs::File, io, io::Read, thread};

/// QEMU's `-debugcon`: each byte written is one byte of output.
const DEBUG_CONSOLE: u16 = 0xe9;

/// QEMU's `isa-debug-exit`: writing code `c` ends QEMU with `(c << 1) | 1`.
const EXIT: u16 = 0xf4;
const SUCCESS: u8 = 0x10;
const FAILURE: u8 = 0x11;

/// Copies everything from `pipe` to the debug console.
pub fn print_from(mut pipe: impl Read) -> io::Result<()> {
    allow(DEBUG_CONSOLE)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = pipe.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        // SAFETY: `allow` has granted this thread the port, `rsi` and `rcx` stay within the bytes just read, the
        // instruction only reads them, and the direction flag is clear as the ABI demands.
        unsafe {
            asm!(
                "rep outsb",
                in("dx") DEBUG_CONSOLE,
                inout("rsi") buffer.as_ptr() => _,
                inout("rcx") length => _,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
}

/// Powers the machine off with an exit code for QEMU.
pub fn end(succeeded: bool) -> io::Result<Infallible> {
    allow(EXIT)?;
    let code = if succeeded { SUCCESS } else { FAILURE };
    // SAFETY: `allow` has granted this thread the port.
    unsafe { asm!("out dx, al", in("dx") EXIT, in("al") code, options(nostack, nomem, preserves_flags)) }
    loop {
        // QEMU ends at its own pace.
        thread::park();
    }
}

/// Lets the calling thread write `port`. Its children do not need it, and a thread with port
/// permissions pays for them at each switch.
fn allow(port: u16) -> io::Result<()> {
    // SAFETY: changes only this thread's permission.
    match unsafe { libc::ioperm(port.into(), 1, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Brings the loopback interface up.
pub fn raise_loopback() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: `ifreq` is plain numbers and bytes, for which all zeros is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *to = from.cast_signed();
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
    File::options().read(true).write(true).open("/dev/ttyS0")
}
