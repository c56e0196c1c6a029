//! Ctrl-Z.

use std::{io, mem::MaybeUninit, ptr};

/// Suspends this process as SIGTSTP does if it is not caught: also not at all, if no shell could continue it (the process
/// group is orphaned: `get_signal()`, kernel/signal.c). Returns when it has been continued.
///
/// # Errors
/// If the kernel refuses to change the action of the signal.
pub fn suspend() -> io::Result<()> {
    let mut caught = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are a valid `sigaction`: no flags, an empty mask, and the default action (`SIG_DFL` is 0).
    let default: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: both point to a `sigaction` of this function.
    if unsafe { libc::sigaction(libc::SIGTSTP, &raw const default, caught.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call takes a number.
    unsafe { libc::raise(libc::SIGTSTP) };
    // SAFETY: the first call has written the action, and the kernel only reads it.
    if unsafe { libc::sigaction(libc::SIGTSTP, caught.as_ptr(), ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
