//! Renders a hist trigger's histogram as a JSON document.

use super::{TriggerHistogram, histogram_document::HistogramDocument};

/// Renders the histogram as a document. Buckets have two inclusive bounds. Numbers are the kernel's,
/// in the trigger's own unit.
///
/// # Errors
/// If a part of the document cannot be serialized.
pub fn document(histogram: &TriggerHistogram) -> serde_json::Result<String> {
    serde_json::to_string(&HistogramDocument::new(histogram))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist_trigger::parse::{Completeness, parse};

    #[test]
    fn the_document_of_every_recorded_histogram_is_valid() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/hist");
        let mut documents = 0;
        for file in std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "hist") {
                for histogram in parse(&std::fs::read(file).unwrap()[..], Completeness::Whole).unwrap() {
                    documents += json_schemas::assert_valid(&document(&histogram).unwrap());
                }
            }
        }
        assert!(documents > 20, "{documents}");
    }
}
