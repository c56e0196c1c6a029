//! How the process that becomes a measured command reports that it cannot: it writes the error to a pipe, which the kernel
//! closes if it can.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd, RawFd},
};

use rustix::io::{Errno, FdFlags, fcntl_setfd, write};

/// The end of the pipe for the process that becomes the command.
#[derive(Debug)]
pub struct ExecFailure(OwnedFd);

impl ExecFailure {
    /// Takes over the descriptor that this process has inherited for it ([`super::measured_command`]). The command does not
    /// inherit it.
    ///
    /// # Errors
    /// If there is no such descriptor.
    pub fn inherited(fd: RawFd) -> io::Result<Self> {
        // SAFETY: the parent has opened this descriptor only for this, and nothing else in this process owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
        Ok(Self(fd))
    }

    /// Reports why the command cannot be executed.
    ///
    /// # Errors
    /// If the pipe has no reader.
    pub fn report(&self, error: &io::Error) -> io::Result<()> {
        let errno = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
        write(&self.0, &errno.to_ne_bytes())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, os::fd::IntoRawFd as _};

    use rustix::io::fcntl_getfd;

    use super::*;

    #[test]
    fn an_error_is_reported_and_the_command_inherits_nothing() {
        let (mut reader, writer) = io::pipe().unwrap();
        fcntl_setfd(&writer, FdFlags::empty()).unwrap();
        let failure = ExecFailure::inherited(writer.into_raw_fd()).unwrap();
        assert_eq!(fcntl_getfd(&failure.0).unwrap(), FdFlags::CLOEXEC);
        failure.report(&Errno::NOEXEC.into()).unwrap();
        drop(failure);
        let mut reported = Vec::new();
        reader.read_to_end(&mut reported).unwrap();
        assert_eq!(reported, Errno::NOEXEC.raw_os_error().to_ne_bytes());
    }
}
