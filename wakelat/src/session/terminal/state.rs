//! The state of the terminal while a view draws on all of it: its screen, its modes, and what is held back of standard
//! error. Whatever ends the run, [`leave`] or [`leave_at_once`] restores it.

use std::{
    io::{self, Write},
    panic,
    sync::{
        Mutex, Once, OnceLock,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr},
};

use crate::status;

/// The alternate screen, without a cursor; the mouse reports buttons and its wheel, in decimal numbers (xterm: control
/// sequences `DECSET` 1049, 25, 1000, 1006).
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h\x1b[2J";

/// Undoes [`ENTER`], and ends colours.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?1006l\x1b[?1000l\x1b[?25h\x1b[?1049l";

/// Whether the terminal is in use.
static IS_UP: AtomicBool = AtomicBool::new(false);

/// The modes of the terminal before the run.
static SAVED_MODES: OnceLock<Termios> = OnceLock::new();

/// Enters and leaves come from several threads.
static CHANGING: Mutex<()> = Mutex::new(());

/// Takes the terminal: its modes, its screen, and standard error. Does nothing more to a screen that is in use.
pub fn enter(out: &mut dyn Write) -> io::Result<()> {
    let _changing = CHANGING.lock();
    leave_before_panics();
    let stdin = io::stdin();
    let saved = SAVED_MODES.get_or_init(|| tcgetattr(&stdin).unwrap_or_else(|_| unreachable!("it is a terminal")));
    tcsetattr(&stdin, OptionalActions::Now, &modes(saved.clone()))?;
    if IS_UP.swap(true, SeqCst) {
        return Ok(());
    }
    status::hold();
    out.write_all(ENTER)?;
    out.flush()
}

/// Gives the terminal back. Does nothing if it is not in use.
pub fn leave(out: &mut dyn Write) -> io::Result<()> {
    let _changing = CHANGING.lock();
    if !IS_UP.swap(false, SeqCst) {
        return Ok(());
    }
    let written = out.write_all(LEAVE).and_then(|()| out.flush());
    restore_modes();
    status::release();
    written
}

/// Gives the terminal back without waiting for it: before the process ends by a signal or a panic. Does nothing if it is
/// not in use. Async-signal-safe.
pub fn leave_at_once() {
    if !IS_UP.swap(false, SeqCst) {
        return;
    }
    let stdout = rustix::stdio::stdout();
    let mut room = [PollFd::new(&stdout, PollFlags::OUT)];
    // A terminal that accepts nothing must not keep the process from ending.
    if poll(&mut room, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1) {
        _ = rustix::io::write(stdout, LEAVE);
    }
    restore_modes();
}

fn restore_modes() {
    if let Some(saved) = SAVED_MODES.get() {
        _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, saved);
    }
}

/// Keys arrive one by one, and reads do not block. Ctrl-C and Ctrl-Z still send their signals to the whole job.
fn modes(mut modes: Termios) -> Termios {
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
    // Enter is not Ctrl-J, and Ctrl-S stops nothing.
    modes.input_modes.remove(InputModes::ICRNL | InputModes::IXON);
    // The key that dumps the process is disabled, because it would leave the terminal like this.
    for code in [SpecialCodeIndex::VMIN, SpecialCodeIndex::VTIME, SpecialCodeIndex::VQUIT] {
        modes.special_codes[code] = 0;
    }
    modes
}

/// Before the message of a panic is printed, the terminal is given back: on the screen of the view it would be lost.
fn leave_before_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            leave_at_once();
            status::release();
            print(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::Read as _,
        process::{Command, Stdio},
    };

    use rustix::{
        pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
        stdio::{dup2_stdin, dup2_stdout},
    };

    use super::*;

    /// What the test binary does in a process of its own, with a terminal as standard input and output.
    const IN_A_PROCESS: &str = "WAKELAT_TEST_OF_A_PANIC";

    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        if std::env::var_os(IN_A_PROCESS).is_some() {
            panic_on_a_terminal();
        }
        let own = std::env::current_exe().unwrap();
        let name = "session::terminal::state::tests::a_panic_restores_the_terminal_before_its_message";
        let ended = Command::new(own)
            .args(["--exact", name, "--nocapture"])
            .env(IN_A_PROCESS, "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(7), "{text}");
        let (before, after) = text.split_once("the message of the panic").expect("a message");
        assert!(before.contains("at the panic: left, modes restored"), "{text}");
        assert!(before.contains("wakelat: held back"), "{text}");
        assert!(after.contains("at the end: nothing more is written"), "{text}");
    }

    /// Reports on standard error. Ends the process.
    fn panic_on_a_terminal() -> ! {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        dup2_stdin(&theirs).unwrap();
        dup2_stdout(&theirs).unwrap();
        let lines = |terminal: &File| tcgetattr(terminal).unwrap().local_modes;
        let (before, reader) = (lines(&theirs), File::from(ours));
        let written = || {
            let mut bytes = [0; 256];
            let read = (&reader).read(&mut bytes).unwrap();
            bytes[..read].to_vec()
        };
        let print = panic::take_hook();
        let (terminal, at_panic) = (theirs.try_clone().unwrap(), reader.try_clone().unwrap());
        panic::set_hook(Box::new(move |panic| {
            let mut bytes = [0; 256];
            let read = (&at_panic).read(&mut bytes).unwrap();
            let is_left = bytes[..read] == *LEAVE && lines(&terminal) == before;
            eprintln!("at the panic: {}", if is_left { "left, modes restored" } else { "not left" });
            print(panic);
        }));
        enter(&mut &theirs).unwrap();
        assert_eq!(written(), ENTER);
        assert_ne!(lines(&theirs), before);
        status::status("held back");
        _ = panic::catch_unwind(|| panic!("the message of the panic"));
        let mut more = Vec::new();
        leave(&mut more).unwrap();
        eprintln!("at the end: {}", if more.is_empty() { "nothing more is written" } else { "left twice" });
        std::process::exit(7)
    }
}
