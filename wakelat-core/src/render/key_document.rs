//! What the waits of a group have in common, as JSON documents have it.

use serde::{Serialize, Serializer};

use crate::report::{KeyPart, KeyValue};

/// Serializes the parts of a key as fields of an object.
pub fn key<S: Serializer>(parts: &[KeyPart], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(parts.iter().map(|part| (part.name, KeyDocument::new(&part.value))))
}

/// The value of a part of a key. Numbers stay numbers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum KeyDocument<'a> {
    /// A number, such as a TID or a priority.
    Number(i64),
    /// A name.
    Text(&'a str),
}

impl<'a> KeyDocument<'a> {
    fn new(value: &'a KeyValue) -> Self {
        match value {
            KeyValue::Number(number) => Self::Number(*number),
            KeyValue::Text(text) => Self::Text(text),
        }
    }
}

/// The schema of a key: the keys of `--by`, and the names that go with them.
#[cfg(test)]
pub fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    use crate::aggregate::key::Key;
    let names: Vec<&str> = Key::ALL.into_iter().map(Key::name).chain(["waker_comm", "pod"]).collect();
    schemars::json_schema!({
        "type": "object",
        "propertyNames": {"enum": names},
        "additionalProperties": generator.subschema_for::<KeyDocument>(),
    })
}
