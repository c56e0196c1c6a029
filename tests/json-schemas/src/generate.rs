//! Makes schemas from types.

use std::{env, fs, path::Path};

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Value, json};

/// Asserts that docs/schema has the schema of `T`, which is a whole document. Its field `schema` names the file: that of
/// `wakelat.report/1` is `report.json`. With `WAKELAT_ACCEPT_SCHEMAS` set, writes the file first.
///
/// # Panics
/// If the file is missing or different, or `T` has no field `schema` with a constant value.
pub fn assert_current<T: JsonSchema>() {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(complete));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    let title = schema.pointer("/properties/schema/const").and_then(Value::as_str).expect("a name").to_owned();
    let name = title.strip_prefix("wakelat.").and_then(|name| name.split('/').next()).expect("a name and a version");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/{name}.json"));
    schema.insert("title".to_owned(), title.as_str().into());
    let current = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
    if env::var_os("WAKELAT_ACCEPT_SCHEMAS").is_some() {
        fs::write(&path, &current).expect("the schema can be written");
    }
    let file = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        file == current,
        "docs/schema/{name}.json is not the schema of its type; set WAKELAT_ACCEPT_SCHEMAS to write it"
    );
}

/// The values of a field that is one of `names` or null.
pub fn or_null<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Option<&'a str>> {
    names.into_iter().map(Some).chain([None]).collect()
}

/// Forbids fields that the type does not have, joins the lines of descriptions, and adds the units that names end in.
fn complete(schema: &mut Schema) {
    let description = schema.get("description").and_then(Value::as_str);
    if let Some(joined) = description.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")) {
        schema.insert("description".to_owned(), joined.into());
    }
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        let unit = if name.ends_with("_unix_ns") {
            "ns since 1970-01-01 UTC"
        } else if name.ends_with("_ns") {
            "ns"
        } else {
            continue;
        };
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        if !description.split(|c: char| !c.is_alphanumeric()).any(|word| word == "ns") {
            property["description"] = format!("{description} Unit: {unit}.").trim_start().into();
        }
    }
    if schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), json!(false));
    }
}
