//! The values that fields of documents may have, for the JSON schemas.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use wakelat_common::Class;

use crate::{
    report::GroupClass,
    timeline::component::Component,
    wait::{POLICIES, policy_name},
};

/// The class of a wait.
pub fn classes() -> [&'static str; Class::ALL.len()] {
    Class::ALL.map(Class::name)
}

/// The class of a group of waits.
pub fn group_classes() -> Vec<&'static str> {
    classes().into_iter().chain([GroupClass::RunQueue.name()]).collect()
}

/// The component of a share.
pub fn component_names() -> [&'static str; Component::ALL.len()] {
    Component::ALL.map(Component::name)
}

/// The name of a scheduling policy.
pub fn policies() -> Vec<&'static str> {
    POLICIES.iter().map(|(_, name)| *name).chain([policy_name(u32::MAX)]).collect()
}

/// The time in each component of a wait.
pub fn components(generator: &mut SchemaGenerator) -> Schema {
    let value = u64::json_schema(generator);
    let properties: serde_json::Map<String, Value> =
        component_names().map(|name| (name.to_owned(), json!(value))).into_iter().collect();
    json_schema!({"type": "object", "properties": properties, "required": component_names()})
}
