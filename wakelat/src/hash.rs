//! Hash maps for what comes with each event. The standard library's hash function is safe against keys made to collide, and
//! takes a third of the reader's time; these keys are numbers that the kernel gives, and names of tasks in tables of bounded
//! size.

use foldhash::fast::RandomState;

/// A map.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// A set.
pub type HashSet<K> = std::collections::HashSet<K, RandomState>;
