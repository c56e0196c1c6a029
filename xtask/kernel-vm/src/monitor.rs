//! QEMU's monitor, which shows where the CPUs of a hung guest are.

use std::{
    io::{Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::Command,
    time::Duration,
};

use anyhow::Context;

/// How long the emulator may take for each chunk of its answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What the monitor prints when it waits for a command.
const PROMPT: &[u8] = b"(qemu) ";

/// The end of the socket that this process uses.
pub struct Monitor(UnixStream);

/// The emulator's end of the socket.
pub struct MonitorSocket(OwnedFd);

impl Monitor {
    /// Creates both ends.
    pub fn pair() -> anyhow::Result<(Self, MonitorSocket)> {
        let (ours, theirs) = UnixStream::pair().context("no socket for QEMU's monitor")?;
        ours.set_read_timeout(Some(TIMEOUT)).context("no time limit for QEMU's monitor")?;
        ours.set_write_timeout(Some(TIMEOUT)).context("no time limit for QEMU's monitor")?;
        Ok((Self(ours), MonitorSocket(theirs.into())))
    }

    /// The position of each CPU; empty if the emulator does not answer.
    pub fn processors(&mut self) -> Vec<String> {
        let asked = self.until_prompt().is_some() && self.0.write_all(b"info registers -a\n").is_ok();
        let answer = if asked { self.until_prompt() } else { None };
        answer.map(|text| positions(&text)).unwrap_or_default()
    }

    fn until_prompt(&mut self) -> Option<String> {
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        while !text.ends_with(PROMPT) {
            match self.0.read(&mut piece) {
                Ok(length) if length > 0 => text.extend_from_slice(&piece[..length]),
                _ => return None,
            }
        }
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

impl MonitorSocket {
    /// Gives the socket to `command`: adds QEMU's arguments, and keeps the descriptor open across exec.
    pub fn hand_over(self, command: &mut Command) {
        let fd = self.0.as_raw_fd();
        command.args(["-chardev", &format!("socket,id=monitor,fd={fd}"), "-mon", "chardev=monitor,mode=readline"]);
        let keep_open = move || {
            // The closure owns the descriptor, so that it is open whenever the command is started.
            rustix::io::fcntl_setfd(&self.0, rustix::io::FdFlags::empty()).map_err(std::io::Error::from)
        };
        // SAFETY: between fork and exec only `fcntl` is called, which is async-signal-safe; nothing is allocated.
        unsafe { command.pre_exec(keep_open) };
    }
}

/// Extracts the line with the instruction pointer of each CPU from the monitor's answer: with the flags on x86
/// (`RIP`), with the first registers on arm64 (`PC`).
fn positions(answer: &str) -> Vec<String> {
    let mut positions = Vec::new();
    let mut processor = "";
    for line in answer.lines().map(str::trim) {
        if line.starts_with("CPU#") {
            processor = line;
        } else if line.starts_with("RIP=") || line.starts_with("PC=") {
            positions.push(format!("{processor} {line}"));
        }
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "info registers -a\r\n\r\nCPU#0\r\nRAX=0000000000000001 RBX=0\r\nRSI=2 RDI=3\r\n\
        RIP=ffffffff81a03e4b RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\r\nES =0000 0000000000000000\r\n\
        XMM00=0000\r\n\r\nCPU#1\r\nRAX=5 RBX=6\r\nRIP=ffffffff81a03e4c RFL=00000246 HLT=0\r\n(qemu) ";

    #[test]
    fn each_cpu_has_a_position() {
        assert_eq!(
            positions(ANSWER),
            [
                "CPU#0 RIP=ffffffff81a03e4b RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1",
                "CPU#1 RIP=ffffffff81a03e4c RFL=00000246 HLT=0",
            ]
        );
    }

    #[test]
    fn a_cpu_of_an_arm_guest_has_a_position() {
        let answer = "CPU#0\r\n PC=ffffa0b5c1d2e3f4 X00=0000000000000000 X01=1\r\nX02=2 X03=3\r\n(qemu) ";
        assert_eq!(positions(answer), ["CPU#0 PC=ffffa0b5c1d2e3f4 X00=0000000000000000 X01=1"]);
    }

    #[test]
    fn an_emulator_that_answers_is_read_up_to_its_prompt() {
        let (mut monitor, MonitorSocket(theirs)) = Monitor::pair().unwrap();
        let mut theirs = UnixStream::from(theirs);
        theirs.write_all(b"QEMU 7.2 monitor\r\n(qemu) ").unwrap();
        let emulator = std::thread::spawn(move || {
            let mut question = [0; 18];
            theirs.read_exact(&mut question).unwrap();
            theirs.write_all(ANSWER.as_bytes()).unwrap();
            question
        });
        assert_eq!(monitor.processors().len(), 2);
        assert_eq!(&emulator.join().unwrap(), b"info registers -a\n");
    }

    #[test]
    fn an_emulator_that_is_gone_has_no_processors() {
        let (mut monitor, socket) = Monitor::pair().unwrap();
        drop(socket);
        assert_eq!(monitor.processors(), Vec::<String>::new());
    }
}
