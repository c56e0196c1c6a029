//! The two devices of an x86 machine through which a guest communicates with QEMU.

use std::{arch::asm, convert::Infallible, io, io::Read, thread};

/// The serial console.
pub const CONSOLE: &str = "/dev/ttyS0";

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

/// Ends QEMU with an exit code for the result.
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
