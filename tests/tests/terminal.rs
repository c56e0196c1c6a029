//! `top` on a terminal: a terminal that is restored at the end, and the table of `--batch`; and what a terminal
//! without a cursor gets.

use std::{
    fs::File,
    io::{Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::process::CommandExt,
    },
    process::{Child, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use nix::sys::signal::{Signal, kill};
use wakelat_tests::{
    once,
    suite::{Case, TestOutcome},
    wakelat::command,
};

pub fn cases() -> Vec<Case> {
    once![
        q_ends_top_and_restores_the_terminal,
        a_signal_ends_top_and_restores_the_terminal,
        a_resized_terminal_gets_another_layout,
        a_hangup_ends_top_even_if_its_signal_is_ignored,
        a_terminal_that_cannot_move_its_cursor_gets_no_escape_sequence,
    ]
}

/// Moves to the first column of the first row and clears everything below: the start of a screen.
const HOME: &str = "\x1b[H\x1b[J";

/// Begins every escape sequence.
const ESCAPE: char = '\x1b';

/// Switches to the alternate screen, and back.
const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?1049l";

/// Timeout for a screen; generous, because the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(60);

/// `top` on a terminal of its own.
struct Top {
    child: Child,
    keys: File,
    /// Keeps the terminal open, and gives access to its modes.
    terminal: File,
    shown: Receiver<Vec<u8>>,
    text: String,
    before: (u32, [u8; 32]),
}

impl Top {
    fn begin(columns: u16, rows: u16, arguments: &[&str]) -> Self {
        Self::begin_as(columns, rows, arguments, false)
    }

    /// `ignores_hangups`: as `nohup` begins a command.
    fn begin_as(columns: u16, rows: u16, arguments: &[&str], ignores_hangups: bool) -> Self {
        let line = [&["top", "-q", "--color", "never"], arguments].concat();
        Self::run(winsize(columns, rows), &line, ("xterm", false), ignores_hangups)
    }

    /// Runs wakelat on a terminal of this size. `term`: its name, and whether it also gets standard error.
    fn run(size: libc::winsize, line: &[&str], (term, errors): (&str, bool), ignores_hangups: bool) -> Self {
        let (mut ours, mut theirs) = (0, 0);
        // SAFETY: two descriptors are written, a size is read, and the other pointers may be null.
        let opened = unsafe { libc::openpty(&mut ours, &mut theirs, std::ptr::null_mut(), std::ptr::null(), &size) };
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: both have just been opened, and have no other owner.
        let (keys, terminal) = unsafe { (File::from_raw_fd(ours), File::from_raw_fd(theirs)) };
        let before = modes(&terminal);
        let mut command = command(line);
        let other = || Stdio::from(terminal.try_clone().expect("descriptors are left"));
        command.env("TERM", term).stdin(other()).stdout(other());
        command.stderr(if errors { other() } else { Stdio::null() });
        // SAFETY: system calls between fork and exec, no allocation.
        unsafe {
            command.pre_exec(move || {
                if ignores_hangups {
                    libc::signal(libc::SIGHUP, libc::SIG_IGN);
                }
                let is_ours = libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0;
                if is_ours { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        let child = command.spawn().expect("wakelat can be run");
        let (screen, shown) = channel();
        let mut reader = keys.try_clone().expect("descriptors are left");
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                if screen.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, terminal, shown, text: String::new(), before }
    }

    /// The first screen from now on that is `wanted`.
    fn screen(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // The last screen may be incomplete.
            let screens: Vec<&str> = self.text.split(HOME).skip(1).collect();
            let whole = screens.len().saturating_sub(1);
            if let Some(screen) = screens[..whole].iter().find(|screen| wanted(screen)) {
                return (*screen).to_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let bytes = self.shown.recv_timeout(left).unwrap_or_else(|_| panic!("no such screen: {:?}", self.text));
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    /// Waits until `text` is written.
    fn until(&mut self, text: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.text.contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            let bytes = self.shown.recv_timeout(left).unwrap_or_else(|_| panic!("no `{text}`: {:?}", self.text));
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    fn interrupt(&self) {
        kill(nix::unistd::Pid::from_raw(self.child.id() as i32), Signal::SIGINT).expect("wakelat is running");
    }

    fn press(&mut self, key: u8) {
        self.text.clear();
        self.keys.write_all(&[key]).expect("the terminal is open");
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.text.clear();
        let size = winsize(columns, rows);
        // SAFETY: the descriptor is open, and the size is only read.
        assert_eq!(unsafe { libc::ioctl(self.keys.as_raw_fd(), libc::TIOCSWINSZ, &size) }, 0);
    }

    fn modes(&self) -> (u32, [u8; 32]) {
        modes(&self.terminal)
    }

    fn code(mut self) -> Option<i32> {
        self.child.wait().expect("a child can be waited for").code()
    }
}

/// Local modes and special characters.
fn modes(terminal: &File) -> (u32, [u8; 32]) {
    // SAFETY: plain data, for which zeros are valid.
    let mut modes: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and the modes are written.
    let got = unsafe { libc::tcgetattr(terminal.as_raw_fd(), &mut modes) };
    assert_eq!(got, 0, "{}", std::io::Error::last_os_error());
    (modes.c_lflag, modes.c_cc)
}

fn winsize(columns: u16, rows: u16) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn q_ends_top_and_restores_the_terminal() -> TestOutcome {
    let mut top = Top::begin(80, 24, &["--interval", "200ms"]);
    top.until(ENTERED);
    assert_eq!(top.modes().0 & (libc::ICANON | libc::ECHO), 0, "keys arrive unbuffered");
    top.press(b'q');
    assert_restored(top);
    Ok(())
}

fn a_signal_ends_top_and_restores_the_terminal() -> TestOutcome {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut top = Top::begin(80, 24, &["--interval", "200ms"]);
        top.until(ENTERED);
        kill(nix::unistd::Pid::from_raw(top.child.id() as i32), signal).expect("wakelat is running");
        assert_restored(top);
    }
    Ok(())
}

/// Asserts that `top` ends with 0, has given the terminal back, and has shown its coverage after that.
fn assert_restored(mut top: Top) {
    assert_eq!(top.child.wait().expect("a child can be waited for").code(), Some(0));
    assert_eq!(top.modes(), top.before);
    top.until("overhead: ");
    let (_, after) = top.text.rsplit_once(LEFT).expect("the screen is left");
    assert!(after.contains("window: "), "{after}");
}

fn a_resized_terminal_gets_another_layout() -> TestOutcome {
    let mut top = Top::begin(100, 24, &["--batch", "--interval", "200ms"]);
    top.screen(|screen| screen.starts_with("all since "));
    for (columns, rows) in [(40, 15), (60, 12), (120, 30)] {
        top.resize(columns, rows);
        let fits = |screen: &str| {
            let widest = screen.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
            widest <= usize::from(columns) && screen.lines().count() < usize::from(rows)
        };
        let screen = top.screen(|screen| screen.starts_with("all since ") && fits(screen));
        assert!(screen.lines().nth(1).is_some_and(|titles| titles.starts_with("task")), "{screen}");
    }
    // Keys have no meaning: only a signal ends it.
    top.press(b'q');
    top.screen(|screen| screen.starts_with("all since "));
    top.interrupt();
    assert_eq!(top.code(), Some(0));
    Ok(())
}

fn a_hangup_ends_top_even_if_its_signal_is_ignored() -> TestOutcome {
    /// Hangs up, as the end of a terminal emulator does (include/uapi/asm-generic/ioctls.h).
    const TIOCVHANGUP: libc::Ioctl = 0x5437;
    let mut top = Top::begin_as(100, 30, &["--interval", "1h"], true);
    top.until(ENTERED);
    // SAFETY: the descriptor is open, and the request has no argument.
    assert_eq!(unsafe { libc::ioctl(top.terminal.as_raw_fd(), TIOCVHANGUP) }, 0);
    assert!(top.code().is_some(), "a signal has ended it");
    Ok(())
}

fn a_terminal_that_cannot_move_its_cursor_gets_no_escape_sequence() -> TestOutcome {
    // Long enough for lines that show the progress.
    let hist = ["hist", "-d", "2s"];
    let top = ["top", "--batch", "-q", "-d", "1s", "--interval", "200ms"];
    // All four at the same time.
    let begin = |line: &[&str]| ["dumb", "xterm"].map(|term| Top::run(winsize(100, 24), line, (term, true), false));
    let runs = [&hist[..], &top[..]].map(|line| (line, begin(line)));
    for (line, runs) in runs {
        let [dumb, other] = runs.map(|mut run| {
            assert_eq!(run.child.wait().expect("a child can be waited for").code(), Some(0), "{line:?}");
            run.until("overhead: ");
            run.text
        });
        assert!(!dumb.contains(ESCAPE), "{line:?}: {dumb:?}");
        // The same run shows what a terminal with a cursor gets.
        assert!(other.contains(ESCAPE), "{line:?}: {other:?}");
    }
    Ok(())
}
