//! Tests that cannot run on this machine.

use std::panic::resume_unwind;

/// Why a test cannot run here.
#[derive(Debug)]
pub struct Skip(pub(crate) String);

impl Skip {
    /// A skip with its reason.
    pub fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// What a test ends with: it passes, is skipped, or panics.
pub type TestOutcome = Result<(), Skip>;

/// Ends the running test as skipped, at any call depth.
pub fn skip_test(skip: Skip) -> ! {
    resume_unwind(Box::new(skip))
}
