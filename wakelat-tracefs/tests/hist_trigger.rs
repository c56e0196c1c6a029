//! Output that real kernels printed for real hist triggers, parsed and printed again.

use std::path::PathBuf;

use wakelat_tracefs::hist_trigger::kernel_text::kernel_text;
use wakelat_tracefs::hist_trigger::parse::{Completeness, HistErrorKind, HistogramReader, parse};
use wakelat_tracefs::hist_trigger::{EntryKey, EntryValue, HistogramTotals, SavedField, TriggerHistogram};

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hist").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn fixtures(ending: &str) -> Vec<String> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hist");
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(ending))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

fn histograms(name: &str) -> Vec<TriggerHistogram> {
    parse(&fixture(name)[..], Completeness::Whole).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The kernel's separator between the histograms of one event.
const BETWEEN: &str = "\n\n";

#[test]
fn every_output_of_a_real_kernel_is_read_and_written_back_byte_for_byte() {
    for name in fixtures(".hist") {
        let original = String::from_utf8(fixture(&name)).unwrap();
        let texts: Vec<String> = histograms(&name).iter().map(kernel_text).collect();
        assert_eq!(texts.join(BETWEEN), original.trim_start_matches('\n'), "{name}");
    }
}

#[test]
fn a_thread_may_be_called_anything() {
    let histogram = &histograms("6.12-sched_switch.hist")[0];
    let names: Vec<&str> = histogram
        .entries
        .iter()
        .map(|entry| match &entry.keys[0] {
            EntryKey::Text(text) => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    for name in ["a } b, c: 1", "a\nb", "x [   12]", "}{: ~ 2^3"] {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn values_saved_by_onmax_belong_to_their_entry() {
    let histogram = &histograms("7.2-sched_switch-onmax.hist")[0];
    assert!(histogram.entries.iter().all(|entry| entry.track_data.len() == 1));
    let first = &histogram.entries[0].track_data[0];
    assert_eq!((first.handler.as_str(), first.saved.len()), ("max", 3));
    assert!(matches!(&first.saved[0], (name, SavedField::Text(_)) if name == "next_comm"));
    assert!(matches!(&first.saved[1], (name, SavedField::Number(_)) if name == "prev_pid"));
}

#[test]
fn percentages_and_bars_are_values() {
    let histogram = &histograms("6.12-hrtimer_expire_entry.hist")[0];
    assert_eq!(histogram.value_names, ["hitcount", "hitcount.percent", "hitcount.graph"]);
    assert_eq!(
        histogram.entries[0].values,
        [EntryValue::Number(399), EntryValue::Percent(Some(4413)), EntryValue::Bar(15)]
    );
    assert_eq!(histogram.totals, Some(HistogramTotals { hits: 904, entries: 2, dropped: 0 }));
}

/// The transcripts contain the output of `cat` between other lines; each is cut off in the middle of
/// its second histogram.
#[test]
fn every_transcript_is_read_up_to_its_cut() {
    let mut read = 0;
    for name in fixtures(".txt") {
        let text = String::from_utf8(fixture(&name)).unwrap();
        for (index, part) in text.split("# event histogram\n").skip(1).enumerate() {
            let part = format!("# event histogram\n{part}");
            match index {
                0 => {
                    let end = part.find("Dropped: 0\n").unwrap() + "Dropped: 0\n".len();
                    let histograms = parse(&part.as_bytes()[..end], Completeness::Whole).unwrap();
                    let [histogram] = &histograms[..] else { panic!("{name}: {}", histograms.len()) };
                    assert_eq!(
                        Some(histogram.entries.len() as u64),
                        histogram.totals.map(|totals| totals.entries),
                        "{name}"
                    );
                    assert!(matches!(histogram.entries[0].keys[0], EntryKey::Log2(_)), "{name}");
                    read += 1;
                }
                _ => {
                    let cut = part.find("== cat triggers").unwrap();
                    let lines = part[..cut].lines().count() as u64;
                    let error = parse(&part.as_bytes()[..cut], Completeness::Whole).unwrap_err();
                    assert!(error.line == lines, "{name}: {error}");
                    assert!(matches!(error.kind, HistErrorKind::Entry { .. }), "{name}: {error}");
                }
            }
        }
    }
    assert!(read >= 10, "{read}");
}

#[test]
fn an_output_cut_at_any_byte_is_an_error_that_names_the_last_line() {
    let whole = fixture("6.12-timer_start.hist");
    let end = whole.len() - 1;
    for cut in 1..end {
        let error = match parse(&whole[..cut], Completeness::Whole) {
            Err(error) => error,
            // If it is cut after a digit of the last number, it may be whole; if it is cut in its
            // title, it is no histogram.
            Ok(read) => {
                let in_title = cut < "# event histogram".len() && read.is_empty();
                assert!(in_title || whole[cut..].trim_ascii().is_empty(), "{cut}");
                continue;
            }
        };
        let last = whole[..cut].split_inclusive(|byte| *byte == b'\n').count() as u64;
        assert!(error.line == last || error.line + 1 == last, "{cut}: {error}");
    }
}

#[test]
fn an_event_without_hist_triggers_has_no_histogram() {
    assert_eq!(parse(&b""[..], Completeness::Whole).unwrap(), []);
    assert_eq!(parse(&b"\n\n"[..], Completeness::Whole).unwrap(), []);
}

/// A well-known example of hist triggers: it shows the entries and omits the totals.
const KMALLOC: &str = "\
# event histogram
#
# trigger info: hist:keys=common_pid:vals=hitcount,bytes_req:sort=hitcount:size=2048 [active]
#

{ common_pid:        803 } hitcount:          5  bytes_req:        771
{ common_pid:        802 } hitcount:         17  bytes_req:       5931
{ common_pid:        804 } hitcount:         17  bytes_req:       5699
";

#[test]
fn an_excerpt_needs_no_totals_and_the_whole_does() {
    let error = parse(KMALLOC.as_bytes(), Completeness::Whole).unwrap_err();
    assert_eq!((error.line, matches!(error.kind, HistErrorKind::Cut { .. })), (8, true), "{error}");
    let [histogram] = &parse(KMALLOC.as_bytes(), Completeness::Excerpt).unwrap()[..] else { panic!() };
    assert_eq!(histogram.column("bytes_req"), Some(vec![771, 5931, 5699]));
    assert_eq!(histogram.totals, None);
    let twice = parse(format!("{KMALLOC}\n{KMALLOC}").as_bytes(), Completeness::Excerpt).unwrap();
    assert_eq!(twice, [histogram.clone(), histogram.clone()]);
}

#[test]
fn a_missing_entry_is_detected() {
    let text = String::from_utf8(fixture("6.12-sched_process_fork.hist")).unwrap();
    let lost: String = text.lines().filter(|line| !line.contains("143 }")).map(|line| format!("{line}\n")).collect();
    let error = parse(lost.as_bytes(), Completeness::Whole).unwrap_err();
    assert!(matches!(error.kind, HistErrorKind::Count { declared: 7, read: 6 }), "{error}");
}

#[test]
fn lines_outside_histograms_are_skipped_and_counted() {
    let text = String::from_utf8(fixture("6.12-sched_process_fork.hist")).unwrap();
    let read = |input: &str, extent| {
        let mut histograms = HistogramReader::new(input.as_bytes(), extent);
        let all: Vec<_> = histograms.by_ref().collect::<Result<_, _>>().unwrap();
        (all, histograms.skipped().clone())
    };
    let (plain, none) = read(&text, Completeness::Whole);
    assert_eq!((plain.len(), none.lines), (1, 0));
    let serial = text.replace('\n', "\r\n");
    let in_the_middle = text.replacen("\n{ ", "\n[    5.1] a line of the kernel's log\n{ ", 3);
    for (input, skipped, first) in [
        (format!("\u{feff}{text}"), 0, None),
        (format!("root@host:~# {text}"), 0, None),
        (format!("root@host:~# cat hist\n{serial}root@host:~# \n"), 2, Some((1, "root@host:~# cat hist"))),
        (in_the_middle, 3, Some((6, "[    5.1] a line of the kernel's log"))),
    ] {
        let (histograms, found) = read(&input, Completeness::Whole);
        assert_eq!(histograms, plain, "{input}");
        assert_eq!(found.lines, skipped, "{input}");
        assert_eq!(found.first.as_ref().map(|(line, text)| (*line, text.as_str())), first);
    }
}

#[test]
fn binary_data_is_refused_at_its_first_line() {
    let error = parse(&b"\x7fELF\0\0\n# event histogram\n"[..], Completeness::Whole).unwrap_err();
    assert!(error.line == 1 && matches!(error.kind, HistErrorKind::Binary), "{error}");
}
