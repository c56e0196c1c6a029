//! Holds documents against the schemas.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

macro_rules! schemas {
    ($($name:literal),*) => {
        [$(Schema {
            name: $name,
            text: include_str!(concat!("../../../docs/schema/", $name, ".json")),
            compiled: OnceLock::new(),
        }),*]
    };
}

/// A file of docs/schema.
struct Schema {
    name: &'static str,
    text: &'static str,
    /// Compiled when the first document needs it: compiling all takes seconds in an emulator.
    compiled: OnceLock<Compiled>,
}

struct Compiled {
    /// The name and version that a document states.
    title: String,
    validator: Validator,
}

static SCHEMAS: [Schema; 12] = schemas![
    "diff",
    "doctor",
    "event",
    "hist-trigger",
    "osnoise",
    "report",
    "timerlat",
    "tracepoint",
    "verify",
    "wait",
    "why",
    "why-causes"
];

fn compile(name: &str, text: &str) -> Compiled {
    let schema: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {name}.json"));
    let title = schema["title"].as_str().unwrap_or_else(|| panic!("no title in {name}.json")).to_owned();
    let validator = jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{error} in {name}.json"));
    Compiled { title, validator }
}

/// The schema of the documents that state this name and version: `wakelat.report/1` for `report`.
fn schema_of(title: &str) -> Option<&'static Compiled> {
    let (name, _version) = title.strip_prefix("wakelat.")?.split_once('/')?;
    let schema = SCHEMAS.iter().find(|schema| schema.name == name)?;
    let compiled = schema.compiled.get_or_init(|| compile(schema.name, schema.text));
    (compiled.title == title).then_some(compiled)
}

/// Holds a document against the schema that it names.
///
/// # Errors
/// If there is no such schema, or the document differs from it: every difference, with its place.
pub fn validate(document: &Value) -> Result<(), String> {
    let name = document["schema"].as_str().ok_or("the document does not name its schema")?;
    let validator = &schema_of(name).ok_or_else(|| format!("there is no schema `{name}`"))?.validator;
    if validator.is_valid(document) {
        return Ok(());
    }
    let wrong = validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path()));
    Err(format!("not a {name}: {}", wrong.collect::<Vec<_>>().join("; ")))
}

/// Asserts that `text` consists of documents that are valid by the schemas that they name, and returns their number.
///
/// # Panics
/// If `text` is not JSON, or a document is not valid.
pub fn assert_valid(text: &str) -> usize {
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let valid = |document: Result<Value, serde_json::Error>| {
        let document = document.unwrap_or_else(|error| panic!("{error} in {text}"));
        validate(&document).unwrap_or_else(|error| panic!("{error}\n{document}"));
    };
    documents.map(valid).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn doctor() -> Value {
        json!({
            "schema": "wakelat.doctor/1", "kernel": "6.1", "can_measure": true,
            "checks": [{"name": "BTF", "state": "ok", "found": "present", "remedy": null}],
        })
    }

    fn refused(change: impl FnOnce(&mut Value)) -> String {
        let mut document = doctor();
        change(&mut document);
        validate(&document).unwrap_err()
    }

    #[test]
    fn a_document_of_its_schema_is_valid() {
        assert_eq!(validate(&doctor()), Ok(()));
        assert_eq!(assert_valid(&format!("{}\n{}\n", doctor(), doctor())), 2);
    }

    #[test]
    fn a_missing_an_additional_and_a_mistyped_field_are_refused() {
        let missing = refused(|document| _ = document["checks"][0].as_object_mut().unwrap().remove("remedy"));
        assert_eq!(missing, "not a wakelat.doctor/1: /checks/0: \"remedy\" is a required property");
        let additional = refused(|document| document["checks"][0]["since"] = json!(1));
        assert!(additional.contains("/checks/0: Additional properties are not allowed ('since'"), "{additional}");
        let mistyped = refused(|document| document["can_measure"] = json!("yes"));
        assert_eq!(mistyped, "not a wakelat.doctor/1: /can_measure: \"yes\" is not of type \"boolean\"");
        let unknown = refused(|document| document["checks"][0]["state"] = json!("good"));
        assert!(unknown.contains("/checks/0/state: \"good\" is not"), "{unknown}");
    }

    #[test]
    fn a_document_without_a_known_schema_is_refused() {
        assert_eq!(
            refused(|document| document["schema"] = json!("wakelat.doctor/2")),
            "there is no schema `wakelat.doctor/2`"
        );
        assert_eq!(refused(|document| document["schema"] = Value::Null), "the document does not name its schema");
    }

    #[test]
    fn every_schema_forbids_unknown_fields_and_negative_counts() {
        for Schema { name, text, .. } in &SCHEMAS {
            let schema: Value = serde_json::from_str(text).unwrap();
            assert_eq!(schema["additionalProperties"], false, "{name}");
            for (path, part) in parts(&schema, String::new()) {
                let is_unsigned = part["format"].as_str().is_some_and(|format| format.starts_with("uint"));
                assert!(!is_unsigned || part["minimum"] == 0, "{name}: {path}");
                assert!(
                    part.get("properties").is_none() || part.get("additionalProperties").is_some(),
                    "{name}: {path}"
                );
            }
        }
    }

    /// Every object in a schema, with its path.
    fn parts(value: &Value, path: String) -> Vec<(String, &Value)> {
        let inner: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
            Value::Array(values) => values.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
            _ => return Vec::new(),
        };
        let below = inner.into_iter().flat_map(|(name, value)| parts(value, format!("{path}/{name}")));
        [(path.clone(), value)].into_iter().chain(below).collect()
    }
}
