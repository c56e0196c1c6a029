//! Maps whose entries are written over and over with the same value.

use crate::hash::HashMap;

/// The number of slots for entries used last.
const SLOTS: usize = 256;

/// Values by TID. A CPU switches mostly among a few tasks whose values stay the same: for them, no hash is computed.
#[derive(Clone, Debug)]
pub struct RecentMap<V> {
    all: HashMap<u32, V>,
    /// Some entries of `all`: of the TIDs with the same slot, the one used last.
    recent: Vec<Option<(u32, V)>>,
}

impl<V: Copy> Default for RecentMap<V> {
    fn default() -> Self {
        Self { all: HashMap::default(), recent: vec![None; SLOTS] }
    }
}

impl<V: Copy + PartialEq> RecentMap<V> {
    /// Sets the value of a TID. Returns false if it had this value a moment ago already.
    #[inline]
    pub fn insert(&mut self, tid: u32, value: V) -> bool {
        let recent = &mut self.recent[tid as usize % SLOTS];
        let is_new = *recent != Some((tid, value));
        if is_new {
            *recent = Some((tid, value));
            self.all.insert(tid, value);
        }
        is_new
    }

    /// The value of a TID.
    #[inline]
    pub fn get(&self, tid: u32) -> Option<&V> {
        match &self.recent[tid as usize % SLOTS] {
            Some((known, value)) if *known == tid => Some(value),
            _ => self.all.get(&tid),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_tid_has_its_last_value(entries in prop::collection::vec((0..4u32, 0..3u32, any::<bool>()), 0..100)) {
            let (mut map, mut simple) = (RecentMap::default(), HashMap::default());
            for (slot, round, value) in entries {
                let tid = slot + round * SLOTS as u32;
                map.insert(tid, value);
                simple.insert(tid, value);
                let each = (0..4).flat_map(|round| (0..5).map(move |slot| slot + round * SLOTS as u32));
                each.for_each(|tid| assert_eq!(map.get(tid), simple.get(&tid)));
            }
        }
    }
}
