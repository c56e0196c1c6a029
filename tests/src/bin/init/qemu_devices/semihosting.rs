//! The calls through which an arm64 guest communicates with QEMU: semihosting, version 2.0 (Arm IHI 0090). QEMU
//! executes a call as part of the instruction, without the guest's kernel.

use std::{arch::asm, convert::Infallible, io, io::Read, thread};

/// The serial console.
pub const CONSOLE: &str = "/dev/ttyAMA0";

// The numbers of the calls.
const SYS_OPEN: u32 = 0x01;
const SYS_WRITE: u32 = 0x05;
const SYS_EXIT: u32 = 0x18;

/// The name of QEMU's console for `SYS_OPEN`, and the mode `w`.
const TERMINAL: &[u8] = b":tt\0";
const FOR_WRITING: usize = 4;

/// The reason for `SYS_EXIT` that goes with an exit code.
const ADP_STOPPED_APPLICATION_EXIT: usize = 0x20026;

/// The exit codes, which are those of an x86 machine.
const SUCCESS: usize = 33;
const FAILURE: usize = 35;

/// Copies everything from `pipe` to QEMU's console.
pub fn print_from(mut pipe: impl Read) -> io::Result<()> {
    // SAFETY: the name has the length that the call gets.
    let handle = unsafe { call(SYS_OPEN, &[TERMINAL.as_ptr().addr(), FOR_WRITING, TERMINAL.len() - 1]) };
    let handle = usize::try_from(handle).map_err(|_| io::Error::other("QEMU has no console for the results"))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = pipe.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        // SAFETY: the call only reads the bytes that have just been written, so that their pages are present.
        match unsafe { call(SYS_WRITE, &[handle, buffer.as_ptr().addr(), length]) } {
            0 => {}
            left => return Err(io::Error::other(format!("QEMU did not print {left} of {length} bytes"))),
        }
    }
}

/// Ends QEMU with an exit code for the result.
pub fn end(succeeded: bool) -> io::Result<Infallible> {
    let code = if succeeded { SUCCESS } else { FAILURE };
    // SAFETY: the call accesses no other memory than its parameters.
    unsafe { call(SYS_EXIT, &[ADP_STOPPED_APPLICATION_EXIT, code]) };
    loop {
        // QEMU ends at its own pace.
        thread::park();
    }
}

/// Makes a semihosting call with a block of parameters, and returns its result.
///
/// # Safety
/// The memory that the parameters refer to must be as `operation` demands. Under an emulator without semihosting, the
/// instruction is undefined, and ends the process.
unsafe fn call(operation: u32, parameters: &[usize]) -> isize {
    let result;
    // SAFETY: the call clobbers only its result; its parameters outlive it.
    unsafe {
        asm!(
            "hlt #0xf000",
            inlateout("x0") operation as usize => result,
            in("x1") parameters.as_ptr(),
            options(nostack)
        );
    }
    result
}
