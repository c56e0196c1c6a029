//! Names that need no system.

use wakelat_core::aggregate::key::Names;
use wakelat_core::wait::Comm;

/// Nothing has a name but its number.
pub struct Numbers;

impl Names for Numbers {
    fn cgroup(&self, id: u64) -> String {
        id.to_string()
    }

    fn comm(&self, _: u32) -> Option<Comm> {
        None
    }
}
