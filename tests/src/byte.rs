//! Transfers one byte through a pipe with a system call that a function of this binary makes itself.
//! That function is then the innermost frame of the user stack, whatever the C library does.

use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Writes a byte to a pipe.
#[inline(never)]
pub fn put_byte(pipe: BorrowedFd) {
    transfer(libc::SYS_write, pipe);
}

/// Reads a byte from a pipe, and blocks while the pipe is empty.
#[inline(never)]
pub fn take_byte(pipe: BorrowedFd) {
    transfer(libc::SYS_read, pipe);
}

#[inline(always)]
fn transfer(number: libc::c_long, pipe: BorrowedFd) {
    let interrupted = -isize::try_from(libc::EINTR).expect("a small number");
    let mut byte = 1u8;
    loop {
        match call(number, pipe.as_raw_fd(), &mut byte) {
            1 => return,
            again if again == interrupted => {}
            other => panic!("a pipe gave {other}"),
        }
    }
}

/// `read` or `write` of one byte. Returns the number of bytes, or the negated errno, as the kernel does.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn call(number: libc::c_long, fd: libc::c_int, byte: &mut u8) -> isize {
    let result;
    // SAFETY: the kernel reads or writes only `byte`, which outlives the call, and clobbers only the
    // registers named.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") isize::try_from(fd).expect("a small number"),
            in("rsi") byte,
            in("rdx") 1,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    result
}

/// `read` or `write` of one byte. Returns the number of bytes, or the negated errno, as the kernel does.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn call(number: libc::c_long, fd: libc::c_int, byte: &mut u8) -> isize {
    let result;
    // SAFETY: the kernel reads or writes only `byte`, which outlives the call, and clobbers only the result.
    unsafe {
        std::arch::asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") isize::try_from(fd).expect("a small number") => result,
            in("x1") byte,
            in("x2") 1usize,
            options(nostack)
        );
    }
    result
}

/// `read` or `write` of one byte through the C library, whose function is then the innermost frame.
/// Returns the number of bytes, or the negated errno.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn call(number: libc::c_long, fd: libc::c_int, byte: &mut u8) -> isize {
    // SAFETY: the kernel reads or writes only `byte`, which outlives the call.
    let result = unsafe { libc::syscall(number, fd, byte, 1) };
    if result < 0 { -std::io::Error::last_os_error().raw_os_error().unwrap_or(0) as isize } else { result as isize }
}
