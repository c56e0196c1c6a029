//! Flags whose values are names, for types of crates that know nothing of the command line.

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Parses one of these names as its value. Help and errors list the names in this order.
pub fn named_value<T: Copy + Send + Sync + 'static>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.iter().map(|(name, _)| *name)).map(|text| {
        let known = values.iter().find(|(name, _)| *name == text);
        known.expect("clap accepts only the names of the list").1
    })
}
