//! The JSON on standard output, held against the schemas of docs/schema.

/// How every document begins.
const BEGINNING: &str = "{\"schema\":";

/// Asserts that each line of `output` that is a document is valid by the schema that it names. Other lines, and a last
/// line that a signal cut, are not documents.
///
/// # Panics
/// If a document has an unknown field, lacks one, or has one of another type or value than its schema.
pub fn assert_valid(output: &str) {
    let lines = output.split_inclusive('\n').filter(|line| line.starts_with(BEGINNING) && line.ends_with('\n'));
    for line in lines {
        json_schemas::assert_valid(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCTOR: &str = "{\"schema\":\"wakelat.doctor/1\",\"kernel\":\"6.1\",\"can_measure\":true,\"checks\":[]}\n";

    #[test]
    fn text_and_a_cut_line_are_not_documents() {
        assert_valid(&format!("a chart\n{DOCTOR}{}", &DOCTOR[..30]));
    }

    #[test]
    #[should_panic(expected = "\"checks\" is a required property")]
    fn a_document_without_a_field_is_refused() {
        assert_valid(&format!("{DOCTOR}{}", DOCTOR.replace(",\"checks\":[]", "")));
    }

    #[test]
    #[should_panic(expected = "there is no schema `wakelat.doctor/2`")]
    fn a_document_of_an_unknown_version_is_refused() {
        assert_valid(&DOCTOR.replace("/1", "/2"));
    }
}
