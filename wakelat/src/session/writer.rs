//! The output, written by a thread of its own: a slow reader of the output does not keep wakelat from reading the ring buffer.

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

use super::{
    output::{Output, StdoutPipe, WriteResult},
    scheduling,
};
use crate::config::Priority;

/// Bytes from which on they are sent to the thread, although more are about to come.
const CHUNK: usize = 1 << 18;

/// Bytes that may wait for the thread. Reports and what ends a recording come on top of it.
const CAPACITY: usize = 1 << 25;

/// A queue of what is to be written. Writing to it neither blocks nor fails.
pub struct OutputWriter {
    /// The thread's number.
    tid: u32,
    pending: Vec<u8>,
    /// Chunks for the thread; none once there are no more to come.
    chunks: Option<Sender<Vec<u8>>>,
    /// Bytes that were sent and are not written yet.
    unwritten: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Result<WriteResult>>>,
    pipe: StdoutPipe,
    name: String,
}

impl OutputWriter {
    /// Starts the thread, with a priority where one is given.
    ///
    /// # Errors
    /// Where the kernel refuses another thread.
    pub fn start(output: Output, priority: Option<Priority>) -> Result<Self> {
        let (pipe, name) = (output.pipe(), output.name().to_owned());
        let unwritten = Arc::new(AtomicUsize::new(0));
        let (chunks, received) = channel();
        let left = Arc::clone(&unwritten);
        let (started, tid) = sync_channel(1);
        let work = move || {
            _ = started.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
            if let Some(priority) = priority {
                // Without it the output may be slow, which is found and reported.
                _ = scheduling::set_own_priority(priority);
            }
            write_all(output, &received, &left)
        };
        let thread = thread::Builder::new().name("wakelat-output".to_owned()).spawn(work);
        let thread = Some(thread.context("cannot start the thread that writes the output")?);
        let tid = tid.recv().context("the thread that writes the output has ended")?;
        Ok(Self { tid, pending: Vec::new(), chunks: Some(chunks), unwritten, thread, pipe, name })
    }

    /// Has the thread run with this priority from now on, if there is one and the kernel allows it.
    pub fn set_priority(&self, priority: Option<Priority>) {
        if let Some(priority) = priority {
            // A thread that has ended has nothing left to write.
            _ = scheduling::set_priority(self.tid, priority);
        }
    }

    /// Whether the output is blocked: nothing more is to be queued that can be left out.
    pub fn is_full(&self) -> bool {
        self.unwritten.load(Relaxed) + self.pending.len() >= CAPACITY
    }

    /// Queues what `write` writes.
    ///
    /// # Errors
    /// Those of `write`, and where earlier output could not be written, as on a full disk. A reader that has gone is no error.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<WriteResult> {
        match write(self) {
            Ok(()) => self.send(),
            Err(error) => self.classify_error(error),
        }
    }

    /// Hands to the thread what is queued.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn send(&mut self) -> Result<WriteResult> {
        self.send_pending();
        match self.thread.take_if(|thread| thread.is_finished()) {
            Some(thread) => join(thread),
            None if self.thread.is_none() => Ok(WriteResult::NoReader),
            None => Ok(WriteResult::All),
        }
    }

    /// What an error of a view means for the run.
    ///
    /// # Errors
    /// Where it means that the output cannot be written; a reader that has gone is no error.
    pub fn classify_error(&self, error: io::Error) -> Result<WriteResult> {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Ok(WriteResult::NoReader);
        }
        Err(error).with_context(|| format!("cannot write to {}", self.name))
    }

    /// Whether the reader of a pipe has gone: there may be nothing to write for a long time.
    pub fn reader_is_gone(&self) -> bool {
        self.pipe.reader_is_gone()
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn finish(mut self) -> Result<WriteResult> {
        // Also where there is nothing: a file from an earlier run is emptied.
        self.send_pending();
        self.chunks = None;
        self.thread.take().map_or(Ok(WriteResult::NoReader), join)
    }

    fn send_pending(&mut self) {
        let chunk = std::mem::take(&mut self.pending);
        self.unwritten.fetch_add(chunk.len(), Relaxed);
        // The thread takes no more where it has failed, which its result shows.
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
    /// A run that fails writes what it had to show until then.
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
    fn a_reader_that_takes_nothing_does_not_block_the_queue() {
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
        // What comes at the end is written, however full the queue is.
        writer.write(|out| out.write_all(b"end")).unwrap();
        assert_eq!(writer.finish().unwrap(), WriteResult::All);
        assert_eq!(reading.join().unwrap(), queued + 3);
    }

    #[test]
    fn a_reader_that_has_gone_is_found_and_is_no_error() {
        let (reader, mut writer) = pipe();
        drop(reader);
        while writer.write(|out| out.write_all(b"line\n")).unwrap() == WriteResult::All {}
        assert_eq!(writer.send().unwrap(), WriteResult::NoReader);
        assert_eq!(writer.finish().unwrap(), WriteResult::NoReader);
    }

    #[test]
    fn a_disk_that_is_full_is_an_error_with_the_name_of_the_output() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut writer = OutputWriter::start(Output::to(Box::new(full), "`/dev/full`"), None).unwrap();
        // The thread may have failed before there is anything else to write.
        let written = writer.write(|out| out.write_all(b"line\n"));
        let error = format!("{:#}", written.and_then(|_| writer.finish()).unwrap_err());
        assert!(error.starts_with("cannot write to `/dev/full`: "), "{error}");
    }
}
