//! The maps of the loaded BPF object, by name.

use anyhow::{Context as _, Result};
use aya::{Ebpf, maps::Map};

/// Takes the map `name` out of the object.
pub(super) fn take(ebpf: &mut Ebpf, name: &str) -> Result<Map> {
    ebpf.take_map(name).with_context(|| format!("the BPF object has no map `{name}`"))
}

/// The map `name`, which stays in the object.
pub(super) fn map<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Map> {
    ebpf.map_mut(name).with_context(|| format!("the BPF object has no map `{name}`"))
}
