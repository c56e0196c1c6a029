//! Compares docs/schema with the types of the documents, so that neither can change without the other, and with what is
//! written.

use json_schemas::assert_current;

use super::{
    OutputFormat, event_document::EventDocument, report_document::ReportDocument, wait_document::WaitDocument,
};

/// What was written, which must be valid by its schema if it is JSON.
pub(crate) fn text_of(format: OutputFormat, written: Vec<u8>) -> String {
    let text = String::from_utf8(written).unwrap();
    if format == OutputFormat::Json {
        json_schemas::assert_valid(&text);
    }
    text
}

/// With `WAKELAT_ACCEPT_SCHEMAS` set, the test writes the schemas.
#[test]
fn the_schemas_are_those_of_the_types() {
    assert_current::<ReportDocument>();
    assert_current::<WaitDocument>();
    assert_current::<EventDocument>();
}
