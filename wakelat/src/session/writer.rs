//! Writes the output in a thread of its own: a slow reader of the output does not keep wakelat from reading
//! the ring buffer.

use std::{
    io::{self, Write},
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};

use super::{
    output::{Output, StdoutPipe, WriteResult},
    terminal,
};
use crate::config::Priority;
use wakelat_kernel::thread_priority;

/// Size from which pending bytes are sent to the thread, even if more are about to follow.
const CHUNK: usize = 1 << 18;

/// Bytes that may be queued for the thread. Reports and the end of a recording are queued even beyond this.
const CAPACITY: usize = 1 << 25;

/// A queue of output. Writing to it neither blocks nor fails.
pub struct OutputWriter {
    pending: Vec<u8>,
    /// Work for the thread; `None` once there is no more.
    work: Option<Sender<Work>>,
    /// The output is a regular file.
    is_file: bool,
    /// The output is a terminal on which a view draws.
    has_screen: bool,
    /// Bytes that were sent to the thread and are not written yet.
    unwritten: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Result<WriteResult>>>,
    pipe: StdoutPipe,
    name: String,
}

/// What the thread does next.
enum Work {
    /// Writes this.
    Text(Vec<u8>),
    /// Takes the terminal, for a view that draws on all of it.
    EnterScreen,
    /// Gives it back.
    LeaveScreen,
    /// Sets the thread's own priority: the sandbox lets a thread set no other one.
    SetPriority(Priority),
    /// Reports that everything before is done.
    Report(SyncSender<()>),
}

impl OutputWriter {
    /// Starts the thread, with `priority` if there is one.
    ///
    /// # Errors
    /// If the kernel refuses to create the thread.
    pub fn start(output: Output, priority: Option<Priority>) -> Result<Self> {
        let (pipe, name, is_file) = (output.pipe(), output.name().to_owned(), output.is_file());
        let unwritten = Arc::new(AtomicUsize::new(0));
        let (work, received) = channel();
        let left = Arc::clone(&unwritten);
        let run = move || {
            if let Some(priority) = priority {
                // Without the priority, the output may be slow, which is detected and reported.
                _ = thread_priority::set_own_priority(priority);
            }
            write_all(output, &received, &left)
        };
        let thread = thread::Builder::new().name("wakelat-output".to_owned()).spawn(run);
        let thread = Some(thread.context("cannot start the output thread")?);
        let work = Some(work);
        Ok(Self { pending: Vec::new(), work, is_file, has_screen: false, unwritten, thread, pipe, name })
    }

    /// Sets the thread's priority, if there is one and the kernel allows it.
    pub fn set_priority(&self, priority: Option<Priority>) {
        if let (Some(priority), Some(work)) = (priority, &self.work) {
            // A thread that has ended has nothing left to write.
            _ = work.send(Work::SetPriority(priority));
        }
    }

    /// Whether the output is blocked: only what cannot be left out may still be queued.
    pub fn is_full(&self) -> bool {
        self.unwritten.load(Relaxed) + self.pending.len() >= CAPACITY
    }

    /// Whether everything is written.
    pub fn is_idle(&self) -> bool {
        self.unwritten.load(Relaxed) == 0 && self.pending.is_empty()
    }

    /// Takes the terminal ([`terminal::enter`]) after everything before is written, and waits for it.
    pub fn enter_screen(&mut self) {
        self.has_screen = true;
        self.send_and_wait(Work::EnterScreen);
    }

    /// Gives the terminal back ([`terminal::leave`]) after everything before is written, and waits for it.
    pub fn leave_screen(&mut self) {
        self.has_screen = false;
        self.send_and_wait(Work::LeaveScreen);
    }

    /// Waits until everything is written, if the output is a regular file, which has no reader to wait for.
    pub fn wait_for_file(&mut self) {
        if self.is_file {
            self.wait();
        }
    }

    fn send_and_wait(&mut self, work: Work) {
        self.send_pending();
        // The channel is closed if the thread has failed, which the thread's result shows.
        _ = self.work.as_ref().map(|channel| channel.send(work));
        self.wait();
    }

    /// Waits until the thread has done everything that it was sent.
    fn wait(&self) {
        let (done, wait) = sync_channel(1);
        _ = self.work.as_ref().map(|channel| channel.send(Work::Report(done)));
        _ = wait.recv();
    }

    /// Ends the thread, which gives the terminal back if a view draws on it.
    fn end(&mut self) -> Option<Result<WriteResult>> {
        self.send_pending();
        if self.has_screen {
            self.leave_screen();
        }
        self.work = None;
        let written = self.thread.take().map(JoinHandle::join);
        // If the thread could not write to the terminal.
        terminal::leave_at_once();
        written.map(|written| written.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Queues what `write` writes.
    ///
    /// # Errors
    /// If `write` fails, or earlier output could not be written, for example to a full disk. A reader that
    /// has gone is not an error.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<WriteResult> {
        match write(self) {
            Ok(()) => self.send(),
            Err(error) => self.classify_error(error),
        }
    }

    /// Sends the pending bytes to the thread, which it wakes only if there are some.
    ///
    /// # Errors
    /// If earlier output could not be written. A reader that has gone is not an error.
    pub fn send(&mut self) -> Result<WriteResult> {
        if !self.pending.is_empty() {
            self.send_pending();
        }
        match self.thread.take_if(|thread| thread.is_finished()) {
            Some(thread) => join(thread),
            None if self.thread.is_none() => Ok(WriteResult::NoReader),
            None => Ok(WriteResult::All),
        }
    }

    /// Converts an error of a view to the result of a write.
    ///
    /// # Errors
    /// If the output cannot be written. A reader that has gone is not an error.
    pub fn classify_error(&self, error: io::Error) -> Result<WriteResult> {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Ok(WriteResult::NoReader);
        }
        Err(error).with_context(|| format!("cannot write to {}", self.name))
    }

    /// Whether the reader of a pipe has gone, which no write shows while there is nothing to write.
    pub fn reader_is_gone(&self) -> bool {
        self.pipe.reader_is_gone()
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// If the output could not be written. A reader that has gone is not an error.
    pub fn finish(mut self) -> Result<WriteResult> {
        // Also if nothing is pending, so that a file from an earlier run is truncated.
        self.end().unwrap_or(Ok(WriteResult::NoReader))
    }

    fn send_pending(&mut self) {
        let chunk = std::mem::take(&mut self.pending);
        self.unwritten.fetch_add(chunk.len(), Relaxed);
        // The channel is closed if the thread has failed, which the thread's result shows.
        _ = self.work.as_ref().map(|channel| channel.send(Work::Text(chunk)));
    }
}

impl Write for OutputWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= CHUNK {
            self.send_pending();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OutputWriter {
    /// Writes what a failed run has queued so far.
    fn drop(&mut self) {
        // After a panic, the terminal is given back, and nothing more may be drawn on it.
        if self.thread.is_some() && !(self.has_screen && thread::panicking()) {
            _ = self.end();
        }
    }
}

fn write_all(mut output: Output, work: &Receiver<Work>, unwritten: &AtomicUsize) -> Result<WriteResult> {
    for work in work {
        let chunk = match work {
            Work::Text(chunk) => chunk,
            Work::EnterScreen => {
                output.write(terminal::enter)?;
                continue;
            }
            Work::LeaveScreen => {
                output.write(terminal::leave)?;
                continue;
            }
            Work::SetPriority(priority) => {
                _ = thread_priority::set_own_priority(priority);
                continue;
            }
            Work::Report(done) => {
                _ = done.send(());
                continue;
            }
        };
        let written = output.write(|out| out.write_all(&chunk))?;
        if written == WriteResult::NoReader {
            return Ok(written);
        }
        unwritten.fetch_sub(chunk.len(), Relaxed);
    }
    Ok(WriteResult::All)
}

fn join(thread: JoinHandle<Result<WriteResult>>) -> Result<WriteResult> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn pipe() -> (io::PipeReader, OutputWriter) {
        let (reader, writer) = io::pipe().unwrap();
        (reader, OutputWriter::start(Output::to(Box::new(writer), "a pipe"), None).unwrap())
    }

    #[test]
    fn a_blocked_reader_does_not_block_the_queue() {
        let (mut reader, mut writer) = pipe();
        let line = [b'x'; 4_096];
        let mut queued = 0;
        while !writer.is_full() {
            assert_eq!(writer.write(|out| out.write_all(&line)).unwrap(), WriteResult::All);
            queued += line.len();
        }
        assert!((CAPACITY..CAPACITY + (1 << 21)).contains(&queued), "{queued}");
        let reading = thread::spawn(move || {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            read.len()
        });
        // The end of the output is written, however full the queue is.
        writer.write(|out| out.write_all(b"end")).unwrap();
        assert_eq!(writer.finish().unwrap(), WriteResult::All);
        assert_eq!(reading.join().unwrap(), queued + 3);
    }

    #[test]
    fn a_reader_that_has_gone_is_detected_and_not_an_error() {
        let (reader, mut writer) = pipe();
        drop(reader);
        while writer.write(|out| out.write_all(b"line\n")).unwrap() == WriteResult::All {}
        assert_eq!(writer.send().unwrap(), WriteResult::NoReader);
        assert_eq!(writer.finish().unwrap(), WriteResult::NoReader);
    }

    #[test]
    fn the_error_of_a_full_disk_names_the_output() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut writer = OutputWriter::start(Output::to(Box::new(full), "`/dev/full`"), None).unwrap();
        // The thread may fail before or after the next write.
        let written = writer.write(|out| out.write_all(b"line\n"));
        let error = format!("{:#}", written.and_then(|_| writer.finish()).unwrap_err());
        assert!(error.starts_with("cannot write to `/dev/full`: "), "{error}");
    }
}
