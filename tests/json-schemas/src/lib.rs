//! The JSON schemas of wakelat's documents (docs/schema): made from the types that are serialized, and held against every
//! document that a test sees. The schemas are part of the binary, so that tests also run where the repository is not.

mod generate;
mod validate;

pub use generate::{assert_current, or_null};
pub use validate::{assert_valid, validate};
