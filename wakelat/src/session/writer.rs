//! Writes the output in a thread of its own: a slow reader of the output does not keep wakelat from reading
//! the ring buffer.

use std::{
    io::{self, Write},
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel, sync_channel},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};

use super::output::{Output, StdoutPipe, WriteResult};
use crate::config::Priority;
use wakelat_kernel::thread_priority;

/// Size from which pending bytes are sent to the thread, even if more are about to follow.
const CHUNK: usize = 1 << 18;

/// Bytes that may be queued for the thread. Reports and the end of a recording are queued even beyond this.
const CAPACITY: usize = 1 << 25;

/// A queue of output. Writing to it neither blocks nor fails.
pub struct OutputWriter {
    /// The thread's TID.
    tid: u32,
    pending: Vec<u8>,
    /// Chunks for the thread; `None` once there are no more.
    chunks: Option<Sender<Vec<u8>>>,
    /// Bytes that were sent to the thread and are not written yet.
    unwritten: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Result<WriteResult>>>,
    pipe: StdoutPipe,
    name: String,
}

impl OutputWriter {
    /// Starts the thread, with `priority` if there is one.
    ///
    /// # Errors
    /// If the kernel refuses to create the thread.
    pub fn start(output: Output, priority: Option<Priority>) -> Result<Self> {
        let (pipe, name) = (output.pipe(), output.name().to_owned());
        let unwritten = Arc::new(AtomicUsize::new(0));
        let (chunks, received) = channel();
        let left = Arc::clone(&unwritten);
        let (started, tid) = sync_channel(1);
        let work = move || {
            _ = started.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
            if let Some(priority) = priority {
                // Without the priority, the output may be slow, which is detected and reported.
                _ = thread_priority::set_own_priority(priority);
            }
            write_all(output, &received, &left)
        };
        let thread = thread::Builder::new().name("wakelat-output".to_owned()).spawn(work);
        let thread = Some(thread.context("cannot start the output thread")?);
        let tid = tid.recv().context("the output thread has ended")?;
        Ok(Self { tid, pending: Vec::new(), chunks: Some(chunks), unwritten, thread, pipe, name })
    }

    /// Sets the thread's priority, if there is one and the kernel allows it.
    pub fn set_priority(&self, priority: Option<Priority>) {
        if let Some(priority) = priority {
            // A thread that has ended has nothing left to write.
            _ = thread_priority::set_priority(self.tid, priority);
        }
    }

    /// Whether the output is blocked: only what cannot be left out may still be queued.
    pub fn is_full(&self) -> bool {
        self.unwritten.load(Relaxed) + self.pending.len() >= CAPACITY
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
        self.send_pending();
        self.chunks = None;
        self.thread.take().map_or(Ok(WriteResult::NoReader), join)
    }

    fn send_pending(&mut self) {
        let chunk = std::mem::take(&mut self.pending);
        self.unwritten.fetch_add(chunk.len(), Relaxed);
        // The channel is closed if the thread has failed, which the thread's result shows.
        _ = self.chunks.as_ref().map(|chunks| chunks.send(chunk));
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
        if let Some(thread) = self.thread.take() {
            self.send_pending();
            self.chunks = None;
            _ = thread.join();
        }
    }
}

fn write_all(mut output: Output, chunks: &Receiver<Vec<u8>>, unwritten: &AtomicUsize) -> Result<WriteResult> {
    for chunk in chunks {
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
