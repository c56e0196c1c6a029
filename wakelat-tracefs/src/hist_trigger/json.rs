//! Renders a hist trigger's histogram as a JSON document.

use serde_json::{Map, Value as Json, json};

use super::bucket::log2_range;
use super::{EntryKey, EntryValue, HistogramEntry, SavedField, TriggerField, TriggerHistogram};

/// Renders the histogram as a document. Buckets have two inclusive bounds. Numbers are those of the kernel,
/// in the trigger's own unit.
pub fn document(histogram: &TriggerHistogram) -> Json {
    let trigger = &histogram.trigger;
    let fields = |fields: &[TriggerField]| fields.iter().map(TriggerField::to_string).collect::<Vec<_>>();
    json!({
        "schema": "wakelat.hist-trigger/1",
        "trigger": {
            "text": trigger.to_string(),
            "name": trigger.name,
            "keys": fields(&trigger.keys),
            "values": fields(&trigger.values),
            "variables": trigger.variables,
            "size": trigger.size,
            "clock": trigger.clock,
            "actions": trigger.actions,
            "filter": trigger.filter,
            "paused": trigger.paused,
        },
        "entries": histogram.entries.iter().map(|one| entry(histogram, one)).collect::<Vec<_>>(),
        "snapshot": histogram.snapshot,
        "totals": histogram.totals.map(|totals| json!({
            "hits": totals.hits,
            "entries": totals.entries,
            "dropped": totals.dropped,
        })),
    })
}

fn entry(histogram: &TriggerHistogram, entry: &HistogramEntry) -> Json {
    let keys: Map<String, Json> = histogram.key_names.iter().cloned().zip(entry.keys.iter().map(key)).collect();
    let values: Map<String, Json> =
        histogram.value_names.iter().cloned().zip(entry.values.iter().map(|one| value(*one))).collect();
    let tracked: Vec<Json> = entry
        .track_data
        .iter()
        .map(|tracked| {
            let saved = |(name, saved): &(String, SavedField)| match saved {
                SavedField::Number(number) => (name.clone(), json!(number)),
                SavedField::Text(text) => (name.clone(), json!(text)),
            };
            let saved: Map<String, Json> = tracked.saved.iter().map(saved).collect();
            json!({ "handler": tracked.handler, "value": tracked.value, "saved": saved })
        })
        .collect();
    json!({ "keys": keys, "values": values, "tracked": tracked })
}

fn key(key: &EntryKey) -> Json {
    let bounds = |(from, to): (u64, u64)| json!({ "from": from, "to": to });
    match key {
        EntryKey::Number(number) | EntryKey::Hex(number) => json!(number),
        EntryKey::Log2(power) => bounds(log2_range(*power)),
        EntryKey::Range(from, to) => bounds((*from, *to)),
        EntryKey::Text(text) => json!(text),
        EntryKey::Symbol { address, name } => json!({ "address": address, "symbol": name }),
        EntryKey::Execname { comm, tid } => json!({ "comm": comm, "tid": tid }),
        EntryKey::Syscall { name, number } => json!({ "name": name, "number": number }),
        EntryKey::Stack(functions) => json!(functions),
    }
}

fn value(value: EntryValue) -> Json {
    match value {
        EntryValue::Number(number) | EntryValue::Hex(number) => json!(number),
        EntryValue::Percent(percent) => json!(percent.map(|percent| f64::from(percent) / 100.0)),
        EntryValue::Bar(filled) => json!(f64::from(filled) / 20.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist_trigger::parse::{Completeness, parse};
    use wakelat_core::render::output_page::{all_paths, documented};

    #[test]
    fn every_field_is_documented_and_every_documented_field_is_written() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/hist/7.2-sched_switch-onmax.hist");
        let text = std::fs::read(path).unwrap();
        let mut written = all_paths(&document(&parse(&text[..], Completeness::Whole).unwrap()[0]));
        // The trigger determines the keys, values and saved fields.
        let own = ["entries[].keys.", "entries[].values.", "entries[].tracked[].saved."];
        written.retain(|path| !own.iter().any(|own| path.starts_with(own)));
        assert_eq!(documented("Hist triggers: `wakelat.hist-trigger/1`"), written);
    }
}
