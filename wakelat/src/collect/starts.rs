//! Where the programs keep the starts, and who waits there.

use anyhow::{Context as _, Result};
use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData, MapError},
};
use wakelat_common::{
    course::{Entry, Slot},
    start::Start,
};

use super::load::take;

/// Where the programs keep the starts.
pub(super) struct Starts {
    /// A place for each of the last bits of a thread's number.
    places: Array<MapData, Slot>,
    /// Those whose place was taken.
    map: HashMap<MapData, u64, Entry>,
}

/// How many tasks a table has room for, place by place and in the map beside it.
pub(super) struct Room {
    /// Places: a power of two.
    pub places: u32,
    /// Entries of the map.
    pub map: u32,
}

impl Room {
    /// For `tasks` of them, if they share no more places than the map has entries.
    pub(super) fn of(tasks: u32) -> Self {
        let places = 1 << (tasks - 1).max(1).ilog2();
        Self { places, map: (tasks - places).max(1) }
    }

    /// The bits of a thread's number that say its place.
    pub(super) fn place_bits(&self) -> u32 {
        self.places - 1
    }
}

impl Starts {
    /// Takes them out of the object.
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self> {
        let places = Array::try_from(take(ebpf, "PLACES")?)?;
        Ok(Self { places, map: HashMap::try_from(take(ebpf, "STARTS")?)? })
    }

    /// The waits there are, of those asked for, once no program runs.
    pub(super) fn waiting(&self) -> Result<Vec<Start>> {
        let places = self.places.iter().map(|place| place.map(|place| place.entry));
        let entries = places.chain(self.map.iter().map(|found| found.map(|(_, entry)| entry)));
        let starts = entries.map(|entry| entry.map(|entry| entry.start));
        let waiting = starts.filter(|start| !matches!(start, Ok(start) if !start.is_wanted()));
        waiting.collect::<Result<_, MapError>>().context("cannot read the starts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_as_many_tasks_as_were_asked_for() {
        for (tasks, places, map) in
            [(2, 1, 1), (3, 2, 1), (16, 8, 8), (18_432, 16_384, 2_048), (65_536, 32_768, 32_768)]
        {
            let room = Room::of(tasks);
            assert_eq!((room.places, room.map), (places, map), "{tasks}");
        }
    }
}
