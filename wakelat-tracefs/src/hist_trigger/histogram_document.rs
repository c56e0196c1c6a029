//! The JSON document of a hist trigger's histogram: `wakelat.hist-trigger/1`. Numbers are the kernel's, in the
//! trigger's own unit.

use serde::{Serialize, Serializer};

use super::{
    EntryKey, EntryValue, HistogramEntry, HistogramTotals, SavedField, TrackData, TriggerField, TriggerHistogram,
    log2_bucket::log2_range, trigger_spec::TriggerSpec,
};

/// `wakelat.hist-trigger/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HistogramDocument<'a> {
    /// `wakelat.hist-trigger/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.hist-trigger/1")))]
    schema: &'static str,
    /// The trigger, as the kernel prints it.
    trigger: TriggerDocument<'a>,
    /// The entries, in the kernel's order.
    entries: Vec<EntryDocument<'a>>,
    /// Output of a `snapshot()` action, by line.
    snapshot: &'a [String],
    /// The sums at the end; `null` for an excerpt without them.
    totals: Option<TotalsDocument>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TriggerDocument<'a> {
    /// The complete text of the trigger.
    text: String,
    /// Name that shares one histogram among triggers, or `null`.
    name: Option<&'a str>,
    /// Keys, with their modifiers.
    keys: Vec<String>,
    /// Values.
    values: Vec<String>,
    /// Variables: `name=expression`.
    variables: &'a [String],
    /// Number of entries for which its table has room.
    size: u64,
    /// Trace clock, or `null`.
    clock: Option<&'a str>,
    /// Handlers with their actions.
    actions: &'a [String],
    /// Filter, or `null`.
    filter: Option<&'a str>,
    /// Whether the trigger is paused and counts nothing.
    paused: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EntryDocument<'a> {
    /// Keys by name: a number, a string, `from` and `to` of a bucket (both inclusive), `address` and `symbol`,
    /// `comm` and `tid`, `name` and `number` of a system call, or the functions of a stack, innermost first.
    #[serde(serialize_with = "by_name")]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, KeyDocument<'static>>"))]
    keys: Vec<(&'a str, KeyDocument<'a>)>,
    /// Values by name: a number; for `.percent` the percentage or `null`, for `.graph` 0 to 1.
    #[serde(serialize_with = "by_name")]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, ValueDocument>"))]
    values: Vec<(&'a str, ValueDocument)>,
    /// What `onmax()` and `onchange()` kept; empty if they kept nothing.
    tracked: Vec<TrackedDocument<'a>>,
}

/// A key of an entry.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum KeyDocument<'a> {
    /// A number.
    Number(u64),
    /// A bucket.
    Bucket {
        /// Its smallest value.
        from: u64,
        /// Its largest value.
        to: u64,
    },
    /// A string.
    Text(&'a str),
    /// An address with its symbol.
    Symbol {
        /// The address.
        address: u64,
        /// The symbol, with offset and module if the kernel shows them.
        symbol: &'a str,
    },
    /// A thread.
    Thread {
        /// Its name when the entry was made.
        comm: &'a str,
        /// Its ID.
        tid: u64,
    },
    /// A system call.
    Syscall {
        /// Its name.
        name: &'a str,
        /// Its number.
        number: u64,
    },
    /// The functions of a stack, innermost first.
    Stack(&'a [String]),
}

/// A value of an entry.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum ValueDocument {
    /// A sum.
    Number(u64),
    /// The percentage of `.percent`, or `null` if the kernel could not compute it; for `.graph` 0 to 1.
    Share(Option<f64>),
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TrackedDocument<'a> {
    /// `max` or `changed`.
    #[cfg_attr(test, schemars(extend("enum" = ["max", "changed"])))]
    handler: &'a str,
    /// Value of the variable.
    value: u64,
    /// Fields of `save()` by name.
    #[serde(serialize_with = "by_name")]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, SavedDocument<'static>>"))]
    saved: Vec<(&'a str, SavedDocument<'a>)>,
}

/// A field of `save()`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum SavedDocument<'a> {
    /// A number.
    Number(u64),
    /// A string.
    Text(&'a str),
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TotalsDocument {
    /// Events counted.
    hits: u64,
    /// Entries in the table.
    entries: u64,
    /// Events not counted because the table was full.
    dropped: u64,
}

/// Serializes values as fields of an object. The last one of a name replaces the others.
fn by_name<T: Serialize, S: Serializer>(values: &[(&str, T)], serializer: S) -> Result<S::Ok, S::Error> {
    let is_first = |at: usize| values[..at].iter().all(|(name, _)| *name != values[at].0);
    let last = |name| values.iter().rfind(|(other, _)| *other == name).map(|(_, value)| (name, value));
    serializer.collect_map((0..values.len()).filter(|at| is_first(*at)).filter_map(|at| last(values[at].0)))
}

impl<'a> HistogramDocument<'a> {
    /// The document of a histogram.
    pub fn new(histogram: &'a TriggerHistogram) -> Self {
        Self {
            schema: "wakelat.hist-trigger/1",
            trigger: TriggerDocument::new(&histogram.trigger),
            entries: histogram.entries.iter().map(|entry| EntryDocument::new(histogram, entry)).collect(),
            snapshot: &histogram.snapshot,
            totals: histogram.totals.map(|HistogramTotals { hits, entries, dropped }| TotalsDocument {
                hits,
                entries,
                dropped,
            }),
        }
    }
}

impl<'a> TriggerDocument<'a> {
    fn new(trigger: &'a TriggerSpec) -> Self {
        let fields = |fields: &[TriggerField]| fields.iter().map(TriggerField::to_string).collect();
        Self {
            text: trigger.to_string(),
            name: trigger.name.as_deref(),
            keys: fields(&trigger.keys),
            values: fields(&trigger.values),
            variables: &trigger.variables,
            size: trigger.size,
            clock: trigger.clock.as_deref(),
            actions: &trigger.actions,
            filter: trigger.filter.as_deref(),
            paused: trigger.paused,
        }
    }
}

impl<'a> EntryDocument<'a> {
    fn new(histogram: &'a TriggerHistogram, entry: &'a HistogramEntry) -> Self {
        let keys = histogram.key_names.iter().map(String::as_str).zip(entry.keys.iter().map(KeyDocument::new));
        let values = entry.values.iter().map(|value| ValueDocument::new(*value));
        Self {
            keys: keys.collect(),
            values: histogram.value_names.iter().map(String::as_str).zip(values).collect(),
            tracked: entry.track_data.iter().map(TrackedDocument::new).collect(),
        }
    }
}

impl<'a> KeyDocument<'a> {
    fn new(key: &'a EntryKey) -> Self {
        match key {
            EntryKey::Number(number) | EntryKey::Hex(number) => Self::Number(*number),
            EntryKey::Log2(power) => {
                let (from, to) = log2_range(*power);
                Self::Bucket { from, to }
            }
            EntryKey::Range(from, to) => Self::Bucket { from: *from, to: *to },
            EntryKey::Text(text) => Self::Text(text),
            EntryKey::Symbol { address, name } => Self::Symbol { address: *address, symbol: name },
            EntryKey::Execname { comm, tid } => Self::Thread { comm, tid: *tid },
            EntryKey::Syscall { name, number } => Self::Syscall { name, number: *number },
            EntryKey::Stack(functions) => Self::Stack(functions),
        }
    }
}

impl ValueDocument {
    fn new(value: EntryValue) -> Self {
        match value {
            EntryValue::Number(number) | EntryValue::Hex(number) => Self::Number(number),
            EntryValue::Percent(percent) => Self::Share(percent.map(|percent| f64::from(percent) / 100.0)),
            EntryValue::Bar(filled) => Self::Share(Some(f64::from(filled) / 20.0)),
        }
    }
}

impl<'a> TrackedDocument<'a> {
    fn new(TrackData { handler, value, saved }: &'a TrackData) -> Self {
        let saved = saved.iter().map(|(name, field)| {
            let field = match field {
                SavedField::Number(number) => SavedDocument::Number(*number),
                SavedField::Text(text) => SavedDocument::Text(text),
            };
            (name.as_str(), field)
        });
        Self { handler, value: *value, saved: saved.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `WAKELAT_ACCEPT_SCHEMAS` set, the test writes the schema.
    #[test]
    fn the_schema_is_that_of_the_type() {
        json_schemas::assert_current::<HistogramDocument>();
    }

    #[test]
    fn the_last_value_of_a_name_replaces_the_others() {
        let values = [("a", 1), ("b", 2), ("a", 3)];
        let mut text = Vec::new();
        by_name(&values, &mut serde_json::Serializer::new(&mut text)).unwrap();
        assert_eq!(text, br#"{"a":3,"b":2}"#);
    }
}
