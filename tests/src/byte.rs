//! One byte through a pipe, by a system call that a function of this binary makes itself: so that function is the innermost of
//! the user stack meanwhile, whatever the C library.

use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Puts a byte into a pipe.
///
/// # Panics
/// Where nobody can take it out any more.
#[inline(never)]
pub fn put_byte(pipe: BorrowedFd) {
    transfer(libc::SYS_write, pipe);
}

/// Takes a byte out of a pipe, blocking while there is none.
///
/// # Panics
/// Where nobody can put one in any more.
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

/// `read` or `write` of one byte: how many there were, or the error as the kernel has it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn call(number: libc::c_long, fd: libc::c_int, byte: &mut u8) -> isize {
    let result;
    // SAFETY: the kernel reads or writes the one byte, which is ours, and takes the registers named.
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

/// The same by the C library, whose function is then the innermost.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn call(number: libc::c_long, fd: libc::c_int, byte: &mut u8) -> isize {
    // SAFETY: the kernel reads or writes the one byte, which is ours.
    let result = unsafe { libc::syscall(number, fd, byte, 1) };
    if result < 0 { -std::io::Error::last_os_error().raw_os_error().unwrap_or(0) as isize } else { result as isize }
}
