//! Random histograms through the printer and the parser, and real outputs with random damage: for any
//! input, the parser returns histograms or an error that names a line.

use std::io::{BufReader, Read};

use proptest::prelude::*;
use wakelat_tracefs::hist_trigger::kernel_text::kernel_text;
use wakelat_tracefs::hist_trigger::parse::{Completeness, HistErrorKind, HistogramReader, parse};
use wakelat_tracefs::hist_trigger::{
    EntryKey, EntryValue, FieldModifier, HistogramEntry, HistogramTotals, SavedField, TrackData, TriggerField,
    TriggerHistogram, TriggerSpec,
};

/// A field of a key, with any modifier.
fn key_field() -> impl Strategy<Value = TriggerField> {
    let modifier = prop_oneof![
        Just(None),
        Just(Some(FieldModifier::Hex)),
        Just(Some(FieldModifier::Sym)),
        Just(Some(FieldModifier::SymOffset)),
        Just(Some(FieldModifier::Execname)),
        Just(Some(FieldModifier::Syscall)),
        Just(Some(FieldModifier::Log2)),
        (1u64..1 << 40).prop_map(|width| Some(FieldModifier::Buckets(width))),
        Just(Some(FieldModifier::Stacktrace)),
    ];
    (name(), modifier).prop_map(|(name, modifier)| TriggerField { name, modifier })
}

fn name() -> impl Strategy<Value = String> {
    // Excludes the name that implies its meaning.
    "[a-z][a-z0-9_]{0,11}".prop_filter("means a stack", |name| !name.contains("stacktrace"))
}

/// A string as a field may contain it: odd characters, line breaks, but no padding of its own.
fn text() -> impl Strategy<Value = String> {
    r#"[ -~\n\t]{0,14}[!-~]"#
}

fn key(field: &TriggerField) -> BoxedStrategy<EntryKey> {
    match &field.modifier {
        None => prop_oneof![any::<u64>().prop_map(EntryKey::Number), text().prop_map(EntryKey::Text)].boxed(),
        Some(FieldModifier::Hex) => any::<u64>().prop_map(EntryKey::Hex).boxed(),
        Some(FieldModifier::Log2) => (0u8..=64).prop_map(EntryKey::Log2).boxed(),
        Some(FieldModifier::Buckets(width)) => {
            let width = *width;
            (0..1u64 << 20).prop_map(move |index| EntryKey::Range(index * width, index * width + width - 1)).boxed()
        }
        Some(FieldModifier::Execname) => {
            (text(), any::<u32>()).prop_map(|(comm, tid)| EntryKey::Execname { comm, tid: tid.into() }).boxed()
        }
        Some(FieldModifier::Syscall) => {
            ("[a-z_0-9]{1,40}", 0u64..1000).prop_map(|(name, number)| EntryKey::Syscall { name, number }).boxed()
        }
        Some(FieldModifier::Stacktrace) => {
            prop::collection::vec("[a-z_.0-9]{1,30}\\+0x[0-9a-f]{1,4}/0x[0-9a-f]{1,4}( \\[[a-z_]{1,8}\\])?", 1..16)
                .prop_map(EntryKey::Stack)
                .boxed()
        }
        Some(_) => ("[a-zA-Z_.0-9]{1,80}( \\[[a-z_]{1,8}\\])?", any::<u64>())
            .prop_map(|(name, address)| EntryKey::Symbol { address, name })
            .boxed(),
    }
}

fn value(field: &TriggerField) -> BoxedStrategy<EntryValue> {
    match field.modifier {
        Some(FieldModifier::Hex) => any::<u64>().prop_map(EntryValue::Hex).boxed(),
        Some(FieldModifier::Percent) => prop::option::of(0u32..10_001).prop_map(EntryValue::Percent).boxed(),
        Some(FieldModifier::Graph) => (0u8..=20).prop_map(EntryValue::Bar).boxed(),
        _ => any::<u64>().prop_map(EntryValue::Number).boxed(),
    }
}

fn value_fields() -> impl Strategy<Value = Vec<TriggerField>> {
    let modifier = prop_oneof![
        Just(None),
        Just(Some(FieldModifier::Hex)),
        Just(Some(FieldModifier::Percent)),
        Just(Some(FieldModifier::Graph)),
    ];
    prop::collection::vec((name(), modifier).prop_map(|(name, modifier)| TriggerField { name, modifier }), 0..3)
        .prop_map(|fields| {
            [TriggerField { name: "hitcount".into(), modifier: None }].into_iter().chain(fields).collect()
        })
}

fn tracked() -> impl Strategy<Value = TrackData> {
    // The text after a line break must not look like the next line of the output.
    let text = "[ -~]{0,8}(\n[a-z]{1,4})?[!-~]";
    let saved = prop_oneof![any::<u64>().prop_map(SavedField::Number), text.prop_map(SavedField::Text)];
    ("max|changed", any::<u64>(), prop::collection::vec((name(), saved), 0..3))
        .prop_map(|(handler, value, saved)| TrackData { handler, value, saved })
}

fn histogram() -> impl Strategy<Value = TriggerHistogram> {
    (prop::collection::vec(key_field(), 1..4), value_fields()).prop_flat_map(|(keys, values)| {
        let entry = (
            keys.iter().map(key).collect::<Vec<_>>(),
            values.iter().map(value).collect::<Vec<_>>(),
            prop::collection::vec(tracked(), 0..2),
        )
            .prop_map(|(keys, values, tracked)| HistogramEntry { keys, values, track_data: tracked });
        let names = |fields: &[TriggerField], shown: fn(&FieldModifier) -> bool| -> Vec<String> {
            fields
                .iter()
                .map(|field| match &field.modifier {
                    Some(modifier) if shown(modifier) => field.to_string(),
                    _ => field.name.clone(),
                })
                .collect()
        };
        let key_names = names(&keys, |modifier| *modifier == FieldModifier::Stacktrace);
        let value_names = names(&values, |modifier| matches!(modifier, FieldModifier::Percent | FieldModifier::Graph));
        let trigger = TriggerSpec { keys, values, size: 2048, ..TriggerSpec::default() };
        (prop::collection::vec(entry, 1..12), any::<u64>(), any::<u64>()).prop_map(move |(entries, hits, dropped)| {
            let totals = Some(HistogramTotals { hits, entries: entries.len() as u64, dropped });
            TriggerHistogram {
                trigger: trigger.clone(),
                key_names: key_names.clone(),
                value_names: value_names.clone(),
                entries,
                snapshot: Vec::new(),
                totals,
            }
        })
    })
}

fn outputs() -> Vec<Vec<u8>> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/hist");
    let mut paths: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "hist"));
    paths.iter().map(|path| std::fs::read(path).unwrap()).filter(|output| output.len() < 10_000).collect()
}

/// A way to damage an output.
#[derive(Clone, Debug)]
enum Damage {
    Cut(prop::sample::Index),
    Byte(prop::sample::Index, u8),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
}

impl Damage {
    fn apply(self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Self::Byte(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            Self::Remove(at, length) => {
                let at = at.index(bytes.len());
                bytes.drain(at..(at + length).min(bytes.len()));
            }
            Self::Repeat(at, length) => {
                let at = at.index(bytes.len());
                let part = bytes[at..(at + length).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
            Self::Insert(at, part) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, part);
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    let token = prop::sample::select(vec![
        "{ ",
        "}",
        " }",
        ", ",
        ": ",
        "~ 2^",
        "~ ",
        "\n",
        "\n\n",
        "#",
        "[",
        "]",
        "Totals:\n",
        "\tmax: ",
        " (%): ",
        "18446744073709551616",
        "\0",
        "# event histogram\n",
        "# trigger info: hist:keys=a.log2,b.sym,stacktrace:vals=c.hex [active]\n",
        "Snapshot taken",
        "hitcount: ",
    ]);
    prop_oneof![
        index().prop_map(Damage::Cut),
        (index(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        (index(), 1usize..200).prop_map(|(at, length)| Damage::Remove(at, length)),
        (index(), 1usize..200).prop_map(|(at, length)| Damage::Repeat(at, length)),
        (index(), token).prop_map(|(at, token)| Damage::Insert(at, token.into())),
        (index(), prop::collection::vec(any::<u8>(), 1..20)).prop_map(|(at, part)| Damage::Insert(at, part)),
    ]
}

/// Parses in both modes: an error must name an existing line.
fn read(bytes: &[u8]) {
    for extent in [Completeness::Whole, Completeness::Excerpt] {
        match parse(bytes, extent) {
            Ok(histograms) => {
                for histogram in histograms {
                    for entry in &histogram.entries {
                        assert_eq!(entry.keys.len(), histogram.key_names.len());
                        assert_eq!(entry.values.len(), histogram.value_names.len());
                    }
                }
            }
            Err(error) => {
                let lines = bytes.split(|byte| *byte == b'\n').count() as u64;
                assert!((1..=lines).contains(&error.line), "{error}");
                assert!(error.to_string().len() < 1000);
            }
        }
    }
}

proptest! {
    #[test]
    fn printed_histograms_are_read_back(histograms in prop::collection::vec(histogram(), 1..3)) {
        let text = histograms.iter().map(kernel_text).collect::<Vec<_>>().join("\n\n");
        let read = parse(text.as_bytes(), Completeness::Whole);
        prop_assert!(read.is_ok(), "{}\n{text}", read.unwrap_err());
        prop_assert_eq!(read.unwrap(), histograms, "{}", text);
    }

    #[test]
    fn damaged_output_is_read_or_refused_without_a_panic(
        output in prop::sample::select(outputs()),
        damages in prop::collection::vec(damage(), 1..6),
    ) {
        let mut bytes = output;
        damages.into_iter().for_each(|damage| damage.apply(&mut bytes));
        read(&bytes);
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read(&bytes);
    }
}

/// Counts how much of an endless input was read.
struct Counted<'a, R> {
    inner: R,
    read: &'a mut u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        *self.read += read as u64;
        Ok(read)
    }
}

#[test]
fn endless_garbage_is_refused_at_its_beginning() {
    let head =
        "# event histogram\n#\n# trigger info: hist:keys=a:vals=hitcount:sort=hitcount:size=2048 [active]\n#\n\n";
    for (before, byte) in [("", b'x'), ("", 0), ("# event histogram\n", b'#'), (head, b'{'), (head, b'\t')] {
        let mut read = 0;
        let input = before.as_bytes().chain(std::io::repeat(byte));
        let error =
            HistogramReader::new(BufReader::new(Counted { inner: input, read: &mut read }), Completeness::Whole)
                .next()
                .unwrap()
                .unwrap_err();
        assert!(matches!(error.kind, HistErrorKind::TooLong), "{error}");
        assert!(read < 200_000, "{read}");
    }
}

#[test]
fn an_endless_entry_is_refused_at_its_line() {
    let head =
        "# event histogram\n#\n# trigger info: hist:keys=a:vals=hitcount:sort=hitcount:size=2048 [active]\n#\n\n{ a: x";
    let error = parse(format!("{head}{}", "\nx".repeat(1 << 20)).as_bytes(), Completeness::Whole).unwrap_err();
    assert_eq!(error.line, 6, "{error}");
    assert!(matches!(error.kind, HistErrorKind::Entry { .. }), "{error}");
}

#[test]
fn endless_blank_lines_take_no_memory() {
    let input = std::io::repeat(b'\n').take(10_000_000);
    assert!(HistogramReader::new(BufReader::with_capacity(1 << 16, input), Completeness::Whole).next().is_none());
}

#[test]
fn a_table_larger_than_the_kernels_largest_is_refused() {
    let head =
        "# event histogram\n#\n# trigger info: hist:keys=a:vals=hitcount:sort=hitcount:size=2048 [active]\n#\n\n";
    let entry = "{ a:          1 } hitcount:          1\n".repeat((1 << 17) + 1);
    let error = parse(format!("{head}{entry}").as_bytes(), Completeness::Whole).unwrap_err();
    assert!(matches!(error.kind, HistErrorKind::TooMany), "{error}");
}
