//! The interactive screens of `top`, in a terminal of tmux: keys, sizes, suspending, files, and a terminal that is as before
//! in the end.

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use wakelat_tests::{
    once,
    suite::{Case, Skip, TestOutcome},
    tool,
    wakelat::{binary, command},
    workload::until,
};

pub fn cases() -> Vec<Case> {
    once![
        every_key_is_accepted_and_q_restores_the_terminal,
        a_resized_terminal_is_redrawn_in_its_size,
        ctrl_z_gives_the_shell_its_terminal_and_fg_shows_the_screen_again,
        a_signal_restores_the_terminal,
        a_killed_command_ends_top_with_its_exit_code,
        saved_files_are_those_of_a_recording_and_of_a_report,
        a_recording_stays_on_the_screen_until_q,
        output_that_is_not_for_a_terminal_has_no_escape_sequence,
        a_setting_without_events_shows_a_table_and_why,
    ]
}

/// A shell in a terminal of its own.
struct Shell {
    tmux: String,
    socket: String,
    directory: TempDir,
    /// Number of commands so far.
    commands: Cell<u32>,
}

/// What the shell prints before each command.
const PROMPT: &str = "ready:";

impl Shell {
    fn begin(columns: u16, rows: u16) -> Result<Self, Skip> {
        let tmux = tool::find("tmux", "tmux")?;
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("socket").display().to_string();
        let shell = Self { tmux, socket, directory, commands: Cell::new(0) };
        let (columns, rows, place) =
            (columns.to_string(), rows.to_string(), shell.directory.path().display().to_string());
        let bash = format!("env -u NO_COLOR PS1='{PROMPT} ' LC_ALL=C.UTF-8 bash --norc --noprofile");
        shell.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, "-c", &place, &bash]);
        shell.until("the shell is ready", |screen| screen.contains(PROMPT));
        Ok(shell)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.tmux).args(["-S", &self.socket]).args(arguments).output().expect("tmux");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types keys by their names.
    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a command.
    fn run(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press(&["Enter"]);
    }

    /// Starts a command on an empty screen.
    fn begin_command(&self, line: &str) {
        self.commands.set(self.commands.get() + 1);
        self.run(&format!("clear; {line}; echo exit-{}=$?", self.commands.get()));
    }

    /// Starts `wakelat` with these arguments, and returns once its screen is shown.
    fn start(&self, arguments: &str) {
        self.begin_command(&format!("{} {arguments}", binary().display()));
        self.until_screen();
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the terminal shows what `is_shown` accepts, and returns it.
    fn until(&self, what: &str, is_shown: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        until(what, || {
            screen = self.screen();
            is_shown(&screen)
        });
        screen
    }

    /// Whether the alternate screen is shown, the cursor is visible, and the mouse is captured.
    fn state(&self) -> String {
        self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}"]).trim().to_owned()
    }

    /// Waits until the screen of `top` is shown.
    fn until_screen(&self) {
        until("the screen is shown", || self.state() == "1 0 1" && !self.screen().trim().is_empty());
    }

    /// Waits until the command has ended with this code and given the terminal back.
    fn assert_ended(&self, code: u8) -> String {
        let ended = format!("exit-{}={code}\n", self.commands.get());
        let screen = self.until("top has ended", |screen| screen.contains(&ended) && screen.contains(PROMPT));
        assert_eq!(self.state(), "0 1 0", "{screen}");
        screen
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The settings of the terminal as the shell has them.
    fn settings(&self, name: &str) -> String {
        self.run(&format!("stty -a > {name}.part; mv {name}.part {name}"));
        until("stty has run", || self.path(name).exists());
        fs::read_to_string(self.path(name)).expect("a file")
    }

    /// The PID of the only `wakelat` of this shell.
    fn pid(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        fs::read_to_string(children).expect("the shell is running").trim().to_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        _ = Command::new(&self.tmux).args(["-S", &self.socket, "kill-server"]).output();
    }
}

/// Every key with a meaning but `q`, `s` and `h`, and some without one.
const KEYS: &[&str] = &[
    "Down", "Up", "PPage", "NPage", "Home", "End", "Enter", "Escape", "BSpace", "Tab", "BTab", "<", ">", "r", "g", "/",
    "a", "BSpace", "Escape", "Space", "Space", "i", "i", "t", "[", "]", "c", "v", "?", "Escape", "Left", "Right", "x",
    "F5", "C-l", "M-x",
];

fn every_key_is_accepted_and_q_restores_the_terminal() -> TestOutcome {
    let shell = Shell::begin(120, 40)?;
    let before = shell.settings("before");
    shell.start("top -q");
    shell.until("there is a table", |screen| screen.contains("total wait") && screen.contains("all ("));
    for key in KEYS {
        shell.press(&[key]);
        until("the key has been read", || shell.state() == "1 0 1");
    }
    // A click and a turn of the wheel, as a terminal reports them.
    shell.tmux(&["send-keys", "-l", "\u{1b}[<0;3;3M\u{1b}[<0;3;3m\u{1b}[<65;3;3M"]);
    shell.press(&["Escape"]);
    shell.press(&["q"]);
    let screen = shell.assert_ended(0);
    assert!(screen.contains("window: ") && screen.contains("overhead: "), "{screen}");
    assert_eq!(shell.settings("after"), before);
    Ok(())
}

fn a_resized_terminal_is_redrawn_in_its_size() -> TestOutcome {
    let shell = Shell::begin(120, 40)?;
    shell.start("top -q --interval 1h");
    for (columns, rows) in [(80, 24), (40, 12), (150, 50)] {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        shell.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
        // An hour's interval: only the new size draws. The title is in the first row, the keys are in the last.
        let last = rows.parse::<usize>().expect("a number") - 1;
        shell.until("the screen is drawn in the new size", |screen| {
            let row = |at: usize| screen.lines().nth(at).unwrap_or_default();
            row(0).starts_with("wakelat top") && row(last).starts_with("Enter open")
        });
        assert_eq!(shell.state(), "1 0 1");
    }
    shell.press(&["q"]);
    shell.assert_ended(0);
    Ok(())
}

fn ctrl_z_gives_the_shell_its_terminal_and_fg_shows_the_screen_again() -> TestOutcome {
    let shell = Shell::begin(100, 30)?;
    let before = shell.settings("before");
    shell.run(&format!("clear; {} top -q", binary().display()));
    shell.until_screen();
    for round in 1..=2 {
        shell.press(&["C-z"]);
        shell.until("the shell is back", |screen| screen.contains("Stopped"));
        assert_eq!(shell.state(), "0 1 0");
        assert_eq!(shell.settings(&format!("stopped-{round}")), before);
        shell.run("clear; fg");
        shell.until_screen();
    }
    shell.press(&["q"]);
    shell.until("top has ended", |screen| screen.contains("overhead: ") && screen.trim_end().ends_with(PROMPT));
    assert_eq!(shell.state(), "0 1 0");
    assert_eq!(shell.settings("after"), before);
    Ok(())
}

fn a_signal_restores_the_terminal() -> TestOutcome {
    let shell = Shell::begin(100, 30)?;
    let before = shell.settings("before");
    for signal in ["TERM", "HUP", "INT"] {
        shell.start("top -q");
        let killed = Command::new("kill").args([&format!("-{signal}"), &shell.pid()]).status().expect("kill");
        assert!(killed.success());
        shell.assert_ended(0);
        assert_eq!(shell.settings(&format!("after-{signal}")), before);
    }
    shell.start("top -q");
    shell.press(&["C-c"]);
    // The shell ends its list of commands, too.
    shell.until("top has ended", |screen| screen.contains("overhead: ") && screen.contains(PROMPT));
    assert_eq!(shell.state(), "0 1 0");
    assert_eq!(shell.settings("after"), before);
    Ok(())
}

fn a_killed_command_ends_top_with_its_exit_code() -> TestOutcome {
    let shell = Shell::begin(100, 30)?;
    let before = shell.settings("before");
    let end = shell.path("end");
    let waits = format!("until [ -e {0} ]; do sleep 0.1; done; echo hidden; kill -9 $$", end.display());
    shell.start(&format!("top -q -- sh -c '{waits}'"));
    fs::write(&end, "").expect("a file");
    let screen = shell.assert_ended(137);
    assert!(!screen.contains("hidden"), "{screen}");
    assert_eq!(shell.settings("after"), before);
    Ok(())
}

/// What `wakelat` prints with these arguments.
fn shown(arguments: &[&str]) -> String {
    let output = command(arguments).output().expect("wakelat");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Asserts that only the owner may read a file, and that it is a page.
fn assert_page(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(fs::metadata(path).expect("a file").permissions().mode() & 0o777, 0o600);
    let html = fs::read_to_string(path).expect("a page");
    assert!(html.starts_with("<!doctype html>") && html.contains("</html>"), "{}", &html[..html.len().min(200)]);
}

fn saved_files_are_those_of_a_recording_and_of_a_report() -> TestOutcome {
    let shell = Shell::begin(100, 30)?;
    fs::write(shell.path("wakelat-top-1.wakelat"), "another file").expect("a file");
    shell.start("top -q");
    shell.press(&["s"]);
    shell.until("the recording is written", |screen| screen.contains("wrote `wakelat-top-2.wakelat`"));
    shell.press(&["h"]);
    shell.until("the page is written", |screen| screen.contains("wrote `wakelat-top-1.html`"));
    shell.press(&["q"]);
    let screen = shell.assert_ended(0);
    assert!(
        screen.contains("wrote `wakelat-top-2.wakelat`") && screen.contains("wrote `wakelat-top-1.html`"),
        "{screen}"
    );
    assert_eq!(fs::read_to_string(shell.path("wakelat-top-1.wakelat")).expect("a file"), "another file");
    let recording = shell.path("wakelat-top-2.wakelat").display().to_string();
    let document: serde_json::Value =
        serde_json::from_str(&shown(&["why", "-q", "--json", "--strict", "-i", &recording])).expect("a document");
    assert!(document["coverage"]["measured"].as_u64().expect("a count") > 0, "{document}");
    assert_page(&shell.path("wakelat-top-1.html"));
    Ok(())
}

fn a_recording_stays_on_the_screen_until_q() -> TestOutcome {
    let shell = Shell::begin(100, 30)?;
    let before = shell.settings("before");
    shell.start("demo top -q");
    shell.until("there is a table", |screen| screen.contains("demo recording") && screen.contains("postgres/1958"));
    shell.press(&["s"]);
    shell.until("the message is shown", |screen| screen.contains("this is a recording already"));
    // Until everything has been read, there is no page. Then each key writes another one.
    until("the page is written", || {
        shell.press(&["h"]);
        shell.screen().contains("wrote `wakelat-top-")
    });
    assert_page(&shell.path("wakelat-top-1.html"));
    assert_eq!(shell.state(), "1 0 1");
    shell.press(&["q"]);
    let screen = shell.assert_ended(0);
    assert!(screen.contains("window: "), "{screen}");
    assert_eq!(shell.settings("after"), before);
    Ok(())
}

fn output_that_is_not_for_a_terminal_has_no_escape_sequence() -> TestOutcome {
    let shell = Shell::begin(100, 30)?;
    let wakelat = binary().display().to_string();
    for (name, line) in [
        ("piped", format!("{wakelat} demo top | cat > NAME")),
        ("redirected", format!("{wakelat} demo top > NAME")),
        ("json", format!("{wakelat} demo top --json > NAME")),
        ("measured", format!("{wakelat} top -d 1s > NAME")),
    ] {
        shell.run(&format!("{}.part; mv {name}.part {name}", line.replace("NAME", name)));
        until("the output is written", || shell.path(name).exists());
        let text = fs::read_to_string(shell.path(name)).expect("a file");
        assert!(!text.contains('\u{1b}') && !text.is_empty(), "{name}: {text:?}");
    }
    let piped = fs::read_to_string(shell.path("piped")).expect("a file");
    assert!(piped.starts_with("task") && piped == shown(&["demo", "top"]), "{piped}");
    for flags in ["--batch", "--csv"] {
        shell.begin_command(&format!("{wakelat} demo top -q -n 3 {flags}"));
        shell.assert_ended(0);
    }
    shell.begin_command(&format!("TERM=dumb {wakelat} demo top -q -n 3"));
    shell.assert_ended(0);
    Ok(())
}

fn a_setting_without_events_shows_a_table_and_why() -> TestOutcome {
    let shell = Shell::begin(120, 50)?;
    for (flags, why) in [
        ("--mode aggregate", "`--mode aggregate` sends no events"),
        ("--max-overhead 5%", "a sample of the tasks"),
        ("--sort p99", "`--sort` applies only to the table"),
        ("--attach raw", "only typed tracepoints have every event"),
        ("--attach classic", "only typed tracepoints have every event"),
    ] {
        shell.begin_command(&format!("{} top -d 300ms {flags} 2> notes", binary().display()));
        let screen = shell.assert_ended(0);
        assert!(screen.contains("overhead: "), "{screen}");
        let notes = fs::read_to_string(shell.path("notes")).expect("a file");
        assert!(notes.contains("a table instead of interactive screens: ") && notes.contains(why), "{notes}");
    }
    Ok(())
}
