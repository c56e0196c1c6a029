//! Hash maps for lookups made with each event. The standard library's hash function resists keys chosen to
//! collide, but takes a third of the reader's time. The keys here are numbers that the kernel assigns, and
//! names of tasks in tables of bounded size.

pub mod recent_map;

use foldhash::fast::RandomState;

/// A hash map with a fast hash function.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// A hash set with a fast hash function.
pub type HashSet<K> = std::collections::HashSet<K, RandomState>;
