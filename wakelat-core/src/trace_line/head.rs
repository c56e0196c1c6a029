//! Parses the head of a line, which precedes the event: `TASK-PID (TGID) [CPU] FLAGS TIMESTAMP:`.
//!
//! The columns are those of `lat_print_generic` and `trace_print_context` (kernel/trace/trace_output.c).
//! The number of flags varies by kernel (4 to 7). The `(TGID)` is present only with the option
//! `record-tgid`.

use crate::wait::Comm;

/// The head of a line: when and where, and the task that was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineHead {
    /// When: ns of the trace's clock.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// Thread on that CPU; 0 is idle.
    pub tid: u32,
    /// Its process, if the line has it.
    pub pid: Option<u32>,
    /// Its name.
    pub comm: Comm,
}

impl LineHead {
    /// Parses the head of a line. Returns it with the rest of the line.
    ///
    /// A name may contain any byte. It has at most 15 bytes, too few for a whole head, so the first
    /// position at which a head can be parsed is the right one.
    pub(crate) fn read(line: &[u8]) -> Option<(Self, &[u8])> {
        let dashes = line.iter().enumerate().filter(|(_, byte)| **byte == b'-').map(|(at, _)| at);
        dashes.take(16).find_map(|dash| {
            let (tid, rest) = number(&line[dash + 1..])?;
            let (pid, rest) = split_tgid(rest.trim_ascii_start());
            let (cpu, rest) = number(rest.strip_prefix(b"[")?)?;
            let rest = rest.strip_prefix(b"]")?.trim_ascii_start();
            let (first, after) = word(rest)?;
            let (stamp, rest) = match timestamp(first) {
                // Without the option `irq-info`, there are no flags.
                Some(stamp) => (stamp, after),
                None => {
                    let (second, after) = word(after.trim_ascii_start())?;
                    (timestamp(second)?, after)
                }
            };
            let comm = Comm::new(line[..dash].trim_ascii_start());
            let [tid, cpu] = [tid, cpu].map(u32::try_from);
            Some((Self { at_ns: stamp, cpu: cpu.ok()?, tid: tid.ok()?, pid, comm }, rest.trim_ascii()))
        })
    }
}

/// Splits off `(TGID)` or `(-------)`, if present.
fn split_tgid(text: &[u8]) -> (Option<u32>, &[u8]) {
    let Some(inside) = text.strip_prefix(b"(") else { return (None, text) };
    let Some(end) = inside.iter().position(|byte| *byte == b')') else { return (None, text) };
    let tgid = number(inside[..end].trim_ascii()).and_then(|(tgid, _)| u32::try_from(tgid).ok());
    (tgid, inside[end + 1..].trim_ascii_start())
}

/// Splits off the first word.
pub(crate) fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Parses the digits at the beginning. Returns the number and the rest.
pub(crate) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// Parses a time stamp, such as `548.771078:`, to ns.
fn timestamp(word: &[u8]) -> Option<u64> {
    match seconds(word)? {
        (ns, [b':']) => Some(ns),
        _ => None,
    }
}

/// Parses seconds with a fraction of six or nine digits to ns. Returns them and the rest.
pub(crate) fn seconds(text: &[u8]) -> Option<(u64, &[u8])> {
    let (seconds, rest) = number(text)?;
    let rest = rest.strip_prefix(b".")?;
    let (fraction, after) = number(rest)?;
    let digits = rest.len() - after.len();
    let fraction = match digits {
        6 => fraction * 1_000,
        9 => fraction,
        _ => return None,
    };
    Some((seconds.checked_mul(1_000_000_000)?.checked_add(fraction)?, after))
}

/// Parses `CPU:3 [LOST 12 EVENTS]` or `CPU:3 [LOST EVENTS]` (`trace_print_lost_events`, `print_trace_line`), and
/// `CPU:3 [12 EVENTS DROPPED]` or `CPU:3 [EVENTS DROPPED]` of trace-cmd.
pub(crate) fn lost(line: &[u8]) -> Option<(u32, Option<u64>)> {
    let (cpu, rest) = number(line.strip_prefix(b"CPU:")?)?;
    let inside = rest.strip_prefix(b" [")?.strip_suffix(b"]")?;
    let inside = inside.strip_prefix(b"LOST ").or_else(|| inside.strip_suffix(b" DROPPED"))?;
    let events = match inside {
        b"EVENTS" => None,
        _ => Some(number(inside).filter(|(_, rest)| *rest == b" EVENTS")?.0),
    };
    Some((u32::try_from(cpu).ok()?, events))
}

/// Parses the number of overwritten events from `# entries-in-buffer/entries-written: 12/34   #P:8`.
pub(crate) fn overwritten(line: &[u8]) -> Option<u64> {
    let (in_buffer, rest) = number(line.strip_prefix(b"# entries-in-buffer/entries-written: ")?)?;
    let (written, _) = number(rest.strip_prefix(b"/")?)?;
    Some(written.saturating_sub(in_buffer))
}
