//! A tracepoint as a JSON document: `wakelat.tracepoint/1`.

use serde::Serialize;
use wakelat_kernel::event_format::FormatField;

use super::TracepointState;

/// `wakelat.tracepoint/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TracepointDocument<'a> {
    /// `wakelat.tracepoint/1`.
    #[cfg_attr(test, schemars(extend("const" = "wakelat.tracepoint/1")))]
    schema: &'static str,
    /// System that the tracepoint belongs to, such as `sched`.
    system: &'a str,
    /// Name of the tracepoint.
    event: &'a str,
    /// Its number on this machine, as perf_event_open(2) takes it.
    id: u32,
    /// Whether its records go to the trace buffer.
    enabled: bool,
    /// Its filter, or `null`.
    filter: Option<&'a str>,
    /// Its triggers, as the kernel prints them.
    triggers: &'a [String],
    /// The fields of its record.
    fields: Vec<FieldDocument<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FieldDocument<'a> {
    /// Name of the field.
    name: &'a str,
    /// C declaration of the field.
    declaration: String,
    /// Offset in the record, in bytes.
    offset: u32,
    /// Size in bytes.
    size: u32,
    /// Whether the field is a signed number.
    signed: bool,
    /// Whether every tracepoint has this field.
    common: bool,
}

impl<'a> TracepointDocument<'a> {
    /// The document of a tracepoint.
    pub fn new(state: &'a TracepointState) -> Self {
        Self {
            schema: "wakelat.tracepoint/1",
            system: &state.system,
            event: &state.format.name,
            id: state.format.id,
            enabled: state.enabled,
            filter: state.filter.as_deref(),
            triggers: &state.triggers,
            fields: state.format.fields.iter().map(FieldDocument::new).collect(),
        }
    }
}

impl<'a> FieldDocument<'a> {
    fn new(field: &'a FormatField) -> Self {
        let FormatField { ref name, offset, size, signed, common, .. } = *field;
        Self { name, declaration: field.to_string(), offset, size, signed, common }
    }
}
