//! A command whose failure is a trigger.

use std::{
    io,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use crate::status::status;

/// The command starts once in this time.
const PERIOD: Duration = Duration::from_secs(1);

/// A command that runs again and again, never twice at once.
pub struct RepeatedCheck {
    command: String,
    /// Starts it, once there is something to start.
    starter: Option<Starter>,
    /// The thread was asked to start it, and has not yet.
    is_starting: bool,
    running: Option<Child>,
    /// When its start was requested last.
    started: Option<Instant>,
    /// It could not be started. The warning is printed once.
    is_broken: bool,
}

/// A thread that starts the command: on a busy machine, a fork and an exec can take longer than the reader of the
/// events may be away.
struct Starter {
    /// Asks for one start. The thread ends when this is dropped.
    requests: Sender<()>,
    /// What came of each request.
    started: Receiver<io::Result<Child>>,
}

impl Starter {
    /// A thread that calls `start` at each request.
    fn new(start: impl Fn() -> io::Result<Child> + Send + 'static) -> io::Result<Self> {
        let (requests, requested) = channel();
        let (results, started) = channel();
        let work = move || {
            for () in requested {
                // The receiver exists as long as this thread.
                _ = results.send(start());
            }
        };
        thread::Builder::new().name("wakelat-check".to_owned()).spawn(work)?;
        Ok(Self { requests, started })
    }
}

impl RepeatedCheck {
    /// Runs `command` with `sh -c`.
    pub fn new(command: &str) -> Self {
        Self {
            command: command.to_owned(),
            starter: None,
            is_starting: false,
            running: None,
            started: None,
            is_broken: false,
        }
    }

    /// How the command has failed since the last call, if it has. Requests its next start if it has ended and is due
    /// `now`. Waits neither for its start nor for its end. The first call starts a thread.
    pub fn failure(&mut self, now: Instant) -> Option<String> {
        self.take_started();
        if self.is_starting {
            return None;
        }
        let ended = match self.running.as_mut().map(Child::try_wait) {
            Some(Ok(None)) => return None,
            Some(Ok(Some(status))) => (!status.success()).then(|| format!("`{}`: {status}", self.command)),
            Some(Err(_)) | None => None,
        };
        self.running = None;
        if self.started.is_none_or(|started| now.saturating_duration_since(started) >= PERIOD) {
            self.started = Some(now);
            self.request_start();
        }
        ended
    }

    /// Asks the thread to start the command.
    fn request_start(&mut self) {
        if self.starter.is_none() {
            let command = self.command.clone();
            let starter = Starter::new(move || shell(&command));
            self.starter = self.or_warn(starter);
        }
        self.is_starting = self.starter.as_ref().is_some_and(|starter| starter.requests.send(()).is_ok());
    }

    /// Takes the command from the thread, if that has started it.
    fn take_started(&mut self) {
        let Some(started) = self.starter.as_ref().and_then(|starter| starter.started.try_recv().ok()) else { return };
        self.is_starting = false;
        self.running = self.or_warn(started);
    }

    fn or_warn<T>(&mut self, result: io::Result<T>) -> Option<T> {
        if let Err(error) = &result
            && !std::mem::replace(&mut self.is_broken, true)
        {
            status(format_args!("warning: cannot run the command of `--check`: {error}"));
        }
        result.ok()
    }
}

/// Starts `command` with `sh -c`.
fn shell(command: &str) -> io::Result<Child> {
    Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}

/// Ends a command, which may have ended by itself.
fn end(mut command: Child) {
    _ = command.kill();
    _ = command.wait();
}

impl Drop for RepeatedCheck {
    fn drop(&mut self) {
        self.running.take().into_iter().for_each(end);
        if let Some(Starter { requests, started }) = self.starter.take() {
            // The thread ends; first it passes on what it is starting.
            drop(requests);
            started.into_iter().flatten().for_each(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The running command, once the thread has started it.
    fn running(check: &mut RepeatedCheck) -> &mut Child {
        while check.running.is_none() {
            assert!(check.is_starting, "nothing is started");
            thread::yield_now();
            check.take_started();
        }
        check.running.as_mut().expect("it runs")
    }

    #[test]
    fn each_failure_is_reported_and_the_command_starts_once_a_second() {
        for (command, expected) in [("true", None), ("exit 3", Some("`exit 3`: exit status: 3".to_owned()))] {
            let mut check = RepeatedCheck::new(command);
            let mut now = Instant::now();
            assert_eq!(check.failure(now), None, "it has not run yet");
            for _ in 0..2 {
                running(&mut check).wait().expect("a child");
                now += PERIOD / 2;
                assert_eq!(check.failure(now), expected);
                assert!(check.running.is_none() && !check.is_starting, "not yet due");
                now += PERIOD / 2;
                assert_eq!(check.failure(now), None);
            }
        }
    }

    #[test]
    fn a_slow_start_keeps_no_caller_waiting_and_is_the_only_one() {
        let (go, wait) = channel::<()>();
        let start = move || wait.recv().map_err(io::Error::other).and_then(|()| shell("exit 3"));
        let mut check = RepeatedCheck::new("exit 3");
        check.starter = Some(Starter::new(start).expect("a thread"));
        let mut now = Instant::now();
        for _ in 0..3 {
            assert_eq!(check.failure(now), None);
            assert!(check.is_starting && check.running.is_none());
            now += PERIOD;
        }
        go.send(()).expect("the thread waits");
        running(&mut check).wait().expect("a child");
        // It is due, and there is no second request that has waited for it.
        assert_eq!(check.failure(now), Some("`exit 3`: exit status: 3".to_owned()));
        go.send(()).expect("the thread waits");
        running(&mut check).wait().expect("a child");
        assert_eq!(check.failure(now), Some("`exit 3`: exit status: 3".to_owned()));
        assert!(check.running.is_none() && !check.is_starting, "not yet due");
    }

    #[test]
    fn a_command_that_is_being_started_is_ended_with_the_check() {
        let ((begun, begins), (sender, pids)) = (channel(), channel());
        let start = move || {
            _ = begun.send(());
            let child = shell("exec sleep 1000")?;
            _ = sender.send(child.id());
            Ok(child)
        };
        let mut check = RepeatedCheck::new("sleep");
        check.starter = Some(Starter::new(start).expect("a thread"));
        assert_eq!(check.failure(Instant::now()), None);
        // A start takes far longer than the few instructions until the drop.
        begins.recv().expect("it is being started");
        drop(check);
        let pid = pids.recv().expect("it was started");
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "it is ended, and no zombie");
    }
}
