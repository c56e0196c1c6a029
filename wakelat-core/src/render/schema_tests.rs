//! Compares docs/schema with the types of the documents, so that neither can change without the other.

use json_schemas::assert_current;

use super::{event_document::EventDocument, report_document::ReportDocument, wait_document::WaitDocument};

/// With `WAKELAT_ACCEPT_SCHEMAS` set, the test writes the schemas.
#[test]
fn the_schemas_are_those_of_the_types() {
    assert_current::<ReportDocument>();
    assert_current::<WaitDocument>();
    assert_current::<EventDocument>();
}
