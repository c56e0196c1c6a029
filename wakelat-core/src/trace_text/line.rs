//! Parses a line: that of ftrace or of `perf script`.

use wakelat_common::filter::MAX_CPUS;

use super::{
    event::{self, TracedEvent},
    origin::TextKind,
};
use crate::{
    trace_line::{LineHead, lost, number, seconds, word},
    wait::Comm,
};

/// The thread of a head of `perf script` that has -1 instead: perf did not know which thread was on the CPU.
pub(super) const UNKNOWN_TID: u32 = u32::MAX;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceLine {
    /// Nothing that has a meaning here: an empty line, a comment, the function of a stack.
    Nothing,
    /// An event.
    Event(TextKind, LineHead, TracedEvent),
    /// Events of this CPU were lost before the next line of it; their number, if known.
    Lost(u32, Option<u64>),
    /// The buffer of this CPU begins here: older events of it were overwritten.
    BufferStarted(u32),
    /// An event whose text is not as expected, given here.
    Broken(&'static str),
    /// Neither an event nor any other line of a trace.
    Foreign,
}

/// Parses a line.
pub(super) fn read(line: &[u8]) -> TraceLine {
    let trimmed = line.trim_ascii();
    if trimmed.is_empty() || is_description(trimmed) {
        return TraceLine::Nothing;
    }
    if let Some(rest) = trimmed.strip_prefix(b"##### CPU ") {
        return match number(rest) {
            Some((cpu, b" buffer started ####")) => known_cpu(cpu).map_or(TraceLine::Foreign, TraceLine::BufferStarted),
            _ => TraceLine::Nothing,
        };
    }
    if trimmed.starts_with(b"#") {
        return TraceLine::Nothing;
    }
    if let Some((cpu, events)) = lost(trimmed) {
        return known_cpu(cpu.into()).map_or(TraceLine::Foreign, |cpu| TraceLine::Lost(cpu, events));
    }
    let (kind, head, name, text) = if let Some((head, body)) = perf_head(line) {
        let Some((name, text)) = perf_named(body) else { return TraceLine::Foreign };
        (TextKind::PerfScript, head, name, text)
    } else if let Some((head, body)) = LineHead::read(line) {
        // Only events of tracepoints have a name.
        let (name, text) = named(body).unwrap_or_default();
        (TextKind::Ftrace, head, name, text)
    } else if is_stack(line) {
        return TraceLine::Nothing;
    } else {
        return TraceLine::Foreign;
    };
    if known_cpu(head.cpu.into()).is_none() {
        return TraceLine::Foreign;
    }
    match event::read(name, text) {
        Ok(event) => TraceLine::Event(kind, head, event),
        Err(expected) => TraceLine::Broken(expected),
    }
}

/// The number of a CPU, if there can be such a CPU.
fn known_cpu(cpu: u64) -> Option<u32> {
    u32::try_from(cpu).ok().filter(|cpu| (*cpu as usize) < MAX_CPUS)
}

/// Splits `NAME: TEXT`.
fn named(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, text) = word(body)?;
    Some((name.strip_suffix(b":")?, text.trim_ascii()))
}

/// Splits `SYSTEM:NAME: TEXT`, which a period may precede.
fn perf_named(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut name, mut text) = word(body)?;
    if name.iter().all(u8::is_ascii_digit) {
        (name, text) = word(text.trim_ascii_start())?;
    }
    if name.starts_with(b"PERF_RECORD_") {
        return Some((name, text.trim_ascii()));
    }
    let name = name.strip_suffix(b":")?;
    let name = name.rsplit(|byte| *byte == b':').next()?;
    Some((name, text.trim_ascii()))
}

/// Parses the head of a line of `perf script`, `NAME TID [CPU] TIMESTAMP:` or `NAME PID/TID [CPU] TIMESTAMP:`. Returns it
/// with the rest of the line.
///
/// A name has at most 15 bytes, too few for a whole head with a space before it, so the first position at which a head can
/// be parsed is the right one.
fn perf_head(line: &[u8]) -> Option<(LineHead, &[u8])> {
    let brackets = line.iter().enumerate().filter(|(_, byte)| **byte == b'[').map(|(at, _)| at);
    brackets.take(16).find_map(|bracket| {
        let before = line[..bracket].strip_suffix(b" ")?.trim_ascii();
        let space = before.iter().rposition(|byte| *byte == b' ')?;
        let (pid, tid) = ids(&before[space + 1..])?;
        let (cpu, rest) = number(&line[bracket + 1..])?;
        let (at_ns, rest) = seconds(rest.strip_prefix(b"] ")?.trim_ascii_start())?;
        let rest = rest.strip_prefix(b":")?;
        let comm = Comm::new(before[..space].trim_ascii());
        Some((LineHead { at_ns, cpu: u32::try_from(cpu).ok()?, tid, pid, comm }, rest.trim_ascii()))
    })
}

/// Parses `TID` or `PID/TID` as the process, if known, and the thread.
fn ids(word: &[u8]) -> Option<(Option<u32>, u32)> {
    if word == b"-1" || word == b"-1/-1" {
        return Some((None, UNKNOWN_TID));
    }
    let (first, rest) = number(word)?;
    let first = u32::try_from(first).ok()?;
    match rest.strip_prefix(b"/") {
        None => rest.is_empty().then_some((None, first)),
        Some(tid) => {
            let (tid, rest) = number(tid)?;
            rest.is_empty().then_some((Some(first), u32::try_from(tid).ok()?))
        }
    }
}

/// Whether the line is the function of a stack: ` => FUNCTION` of ftrace, or an address and a function of perf.
fn is_stack(line: &[u8]) -> bool {
    let trimmed = line.trim_ascii();
    let is_address = |word: &[u8]| word.len() > 2 && word.iter().all(u8::is_ascii_hexdigit);
    trimmed.starts_with(b"=> ")
        || line.first().is_some_and(u8::is_ascii_whitespace)
            && word(trimmed).is_some_and(|(first, rest)| is_address(first) && !rest.is_empty())
}

/// Whether trace-cmd describes its file with this line.
fn is_description(line: &[u8]) -> bool {
    [&b"cpus="[..], b"version = "].iter().any(|start| line.starts_with(start))
        || line.starts_with(b"CPU ") && line.ends_with(b" is empty")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_text::event::WokenTask;

    const WOKEN: &str = "comm=nginx pid=7 prio=120 target_cpu=001";

    fn head(line: &str) -> (TextKind, LineHead) {
        match read(line.as_bytes()) {
            TraceLine::Event(kind, head, TracedEvent::Waking(WokenTask { tid: 7, target_cpu: 1, .. })) => (kind, head),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn of(comm: &str, tid: u32, pid: Option<u32>, at_ns: u64) -> LineHead {
        LineHead { at_ns, cpu: 3, tid, pid, comm: Comm::new(comm.as_bytes()) }
    }

    #[test]
    fn every_form_of_a_head_is_read() {
        let us = 54_029_328_000;
        let cases = [
            ("            perf-42      [003] d..2.    54.029328: sched_waking: ", of("perf", 42, None, us)),
            ("            perf-42    (     40) [003] d..2.    54.029328: sched_waking: ", of("perf", 42, Some(40), us)),
            ("          <idle>-0     (-------) [003] d..2.    54.029328: sched_waking: ", of("<idle>", 0, None, us)),
            ("           <...>-42    [003]    54.029328: sched_waking: ", of("<...>", 42, None, us)),
            ("            perf-42    [003]    54.029328123: sched_waking:         ", of("perf", 42, None, us + 123)),
        ];
        for (line, expected) in cases {
            assert_eq!(head(&format!("{line}{WOKEN}")), (TextKind::Ftrace, expected), "{line}");
        }
        let cases = [
            ("            perf    42 [003]    54.029328:       sched:sched_waking: ", of("perf", 42, None, us)),
            ("perf 42 [003]    54.029328: sched:sched_waking: ", of("perf", 42, None, us)),
            ("perf    40/42    [003]    54.029328123:  sched:sched_waking: ", of("perf", 42, Some(40), us + 123)),
            (":-1    -1 [003]    54.029328: sched:sched_waking: ", of(":-1", UNKNOWN_TID, None, us)),
            ("perf    42 [003]    54.029328:    1  sched:sched_waking: ", of("perf", 42, None, us)),
        ];
        for (line, expected) in cases {
            assert_eq!(head(&format!("{line}{WOKEN}")), (TextKind::PerfScript, expected), "{line}");
        }
    }

    #[test]
    fn a_name_may_contain_anything() {
        for comm in
            ["Web Content", "memfd:sealed-91", "a [1] b", "x 7 [001]", "[000] 1.5:", "a-1 [000]", "kworker/u9:0-x"]
        {
            let expected = of(comm, 42, None, 1_000_001_000);
            let line = format!("{comm:>16}    42 [003]     1.000001: sched:sched_waking: {WOKEN}");
            assert_eq!(head(&line), (TextKind::PerfScript, expected), "{line}");
            let line = format!("{comm:>16}-42    [003] d..2.     1.000001: sched_waking: {WOKEN}");
            assert_eq!(head(&line), (TextKind::Ftrace, expected), "{line}");
        }
    }

    #[test]
    fn losses_are_read() {
        let lost = |line: &str| read(line.as_bytes());
        assert_eq!(lost("CPU:3 [LOST 12 EVENTS]"), TraceLine::Lost(3, Some(12)));
        assert_eq!(lost("CPU:3 [LOST EVENTS]"), TraceLine::Lost(3, None));
        assert_eq!(lost("CPU:7 [204600 EVENTS DROPPED]"), TraceLine::Lost(7, Some(204_600)));
        assert_eq!(lost("CPU:7 [EVENTS DROPPED]"), TraceLine::Lost(7, None));
        assert_eq!(lost("##### CPU 1 buffer started ####"), TraceLine::BufferStarted(1));
        let line = "            perf 12584 [003]  1338.681725: PERF_RECORD_LOST lost 8";
        let TraceLine::Event(TextKind::PerfScript, head, TracedEvent::Lost(8)) = lost(line) else { panic!("{line}") };
        assert_eq!((head.cpu, head.tid), (3, 12_584));
    }

    #[test]
    fn lines_around_events_mean_nothing() {
        for line in [
            "",
            "# tracer: nop",
            "#                              | / _--=> preempt-depth",
            "cpus=2",
            "CPU 1 is empty",
            " => schedule",
            "\tffffffff821f8b58 __schedule+0x618 ([kernel.kallsyms])",
        ] {
            assert_eq!(read(line.as_bytes()), TraceLine::Nothing, "{line}");
        }
    }

    #[test]
    fn other_lines_are_foreign_and_truncated_ones_are_broken() {
        for line in ["hello", "feed the cat", "{\"a\": [1] }", "x 1 [9999999] 1.000001: sched:sched_waking: x"] {
            assert_eq!(read(line.as_bytes()), TraceLine::Foreign, "{line}");
        }
        let line = "perf 42 [003] 54.029328: sched:sched_waking: comm=nginx pid=";
        assert!(matches!(read(line.as_bytes()), TraceLine::Broken(_)));
    }
}
