//! Looks up the few types that wakelat needs in a BTF. Walks over the raw records, which takes a
//! millisecond; parsing them for the loader takes a third of wakelat's startup time.
//!
//! The format is that of `struct btf_header` and `struct btf_type` (include/uapi/linux/btf.h). A name is in the string
//! table once (`btf__dedup()`, tools/lib/bpf/btf.c), so it is searched for there, and records are compared by the
//! position of their names.

use bytes::Buf as _;
use memchr::memmem;

/// The kinds of types (`BTF_KIND_*`) that are followed here.
mod kind {
    pub const STRUCT: u32 = 4;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const TYPE_TAG: u32 = 18;
}

/// Size of a `struct btf_type` in bytes, without the data that its kind appends.
const TYPE: usize = 12;

/// Size of a `struct btf_member` in bytes.
const MEMBER: usize = 12;

/// Maximum number of typedefs and qualifiers between a member and its structure.
const MAX_DEPTH: usize = 16;

/// The records of a BTF.
pub struct BtfTypes<'btf> {
    /// The records, one after another; the first has ID 1.
    records: &'btf [u8],
    /// The offset of each record in `records`.
    starts: Vec<u32>,
    strings: &'btf [u8],
}

/// A record of a type.
#[derive(Clone, Copy)]
struct BtfType<'btf> {
    name: u32,
    kind: u32,
    /// The type to which a typedef or a qualifier refers.
    target: u32,
    /// The data that the kind appends, and everything after it.
    rest: &'btf [u8],
    members: usize,
}

impl<'btf> BtfTypes<'btf> {
    /// Finds the records of `btf`. None if it is not BTF of this machine's byte order, is truncated, or
    /// contains a kind of type that is newer than Linux 7.2.
    pub fn find(btf: &'btf [u8]) -> Option<Self> {
        const MAGIC: u16 = 0xeb9f;
        const VERSION: u8 = 1;
        const HEADER: usize = 24;
        let mut header = btf.get(..HEADER)?;
        let (magic, version, _flags) = (header.get_u16_ne(), header.get_u8(), header.get_u8());
        let mut next = || usize::try_from(header.get_u32_ne()).ok();
        let body = btf.get(next()?..)?;
        let (types_at, types_length, strings_at, strings_length) = (next()?, next()?, next()?, next()?);
        if magic != MAGIC || version != VERSION {
            return None;
        }
        let mut types = Self {
            records: body.get(types_at..)?.get(..types_length)?,
            starts: Vec::new(),
            strings: body.get(strings_at..)?.get(..strings_length)?,
        };
        let mut at = 0;
        while at < types.records.len() {
            types.starts.push(u32::try_from(at).ok()?);
            at += TYPE + added(types.records.get(at..at + TYPE)?)?;
        }
        Some(types)
    }

    /// Whether any type or member is called `name`.
    pub fn has_name(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// The ID of the structure to which the typedef `name` refers.
    pub fn structure_of_typedef(&self, name: &str) -> Option<u32> {
        self.called(name, kind::TYPEDEF).find_map(|(id, _)| self.structure(id))
    }

    /// The ID of the structure that is the type of member `member` of structure `name`.
    pub fn structure_of_member(&self, name: &str, member: &str) -> Option<u32> {
        self.types_of_member(name, member).find_map(|of| self.structure(of))
    }

    /// Whether structure `name` has a member `member`.
    pub fn has_member(&self, name: &str, member: &str) -> bool {
        self.types_of_member(name, member).next().is_some()
    }

    /// The types of member `member` in the structures called `name`.
    fn types_of_member(&self, name: &str, member: &str) -> impl Iterator<Item = u32> {
        let member = self.position(member);
        self.called(name, kind::STRUCT)
            .filter_map(move |(_, found)| self.members(found).find(|(name, _)| Some(*name) == member))
            .map(|(_, of)| of)
    }

    /// The records of this kind that are called `name`, with their IDs.
    fn called(&self, name: &str, kind: u32) -> impl Iterator<Item = (u32, BtfType<'btf>)> {
        let name = self.position(name);
        // Without such a name, no record is looked at.
        let ids = 1..=name.map_or(0, |_| self.starts.len() as u32);
        ids.filter_map(|id| Some((id, self.get(id)?)))
            .filter(move |(_, found)| Some(found.name) == name && found.kind == kind)
    }

    /// The position of `name` in the string table.
    fn position(&self, name: &str) -> Option<u32> {
        // The table begins with the empty name, so every name follows the end of another one.
        let at = memmem::find(self.strings, &[b"\0", name.as_bytes(), b"\0"].concat())?;
        u32::try_from(at + 1).ok()
    }

    /// The names of the structures that are direct members of a structure.
    pub fn structures_within(&self, structure: u32) -> impl Iterator<Item = &'btf [u8]> {
        let members = self.get(structure).into_iter().flat_map(|found| self.members(found));
        members.filter_map(|(_, of)| self.text(self.get(self.structure(of)?)?.name))
    }

    fn get(&self, id: u32) -> Option<BtfType<'btf>> {
        let at = *self.starts.get(usize::try_from(id.checked_sub(1)?).ok()?)?;
        let mut record = self.records.get(usize::try_from(at).ok()?..)?;
        let (name, info, target) = (record.get_u32_ne(), record.get_u32_ne(), record.get_u32_ne());
        Some(BtfType { name, kind: kind_of(info), target, rest: record, members: length_of(info) })
    }

    /// The structure behind typedefs and qualifiers.
    fn structure(&self, mut id: u32) -> Option<u32> {
        for _ in 0..MAX_DEPTH {
            let found = self.get(id)?;
            match found.kind {
                kind::STRUCT => return Some(id),
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::TYPE_TAG => id = found.target,
                _ => return None,
            }
        }
        None
    }

    /// The members of a structure: the position of the name, and the type ID.
    fn members(&self, structure: BtfType<'btf>) -> impl Iterator<Item = (u32, u32)> + use<'btf> {
        let members = structure.rest.chunks_exact(MEMBER).take(structure.members);
        members.map(|mut member| (member.get_u32_ne(), member.get_u32_ne()))
    }

    fn text(&self, at: u32) -> Option<&'btf [u8]> {
        self.strings.get(usize::try_from(at).ok()?..)?.split(|byte| *byte == 0).next()
    }
}

fn kind_of(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn length_of(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// Number of bytes that the kind of a type appends to its record.
fn added(mut record: &[u8]) -> Option<usize> {
    let (_name, info) = (record.get_u32_ne(), record.get_u32_ne());
    let length = length_of(info);
    match kind_of(info) {
        // INT, VAR, DECL_TAG
        1 | 14 | 17 => Some(4),
        // ARRAY
        3 => Some(12),
        // STRUCT, UNION, DATASEC, ENUM64
        4 | 5 | 15 | 19 => Some(12 * length),
        // ENUM, FUNC_PROTO
        6 | 13 => Some(8 * length),
        // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        2 | 7..=12 | 16 | 18 => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_btf_is_rejected_or_has_no_more_types() {
        let btf = super::super::tests::kernel("rt_mutex", "spinlock_t");
        let whole = BtfTypes::find(&btf).unwrap().starts.len();
        for length in 0..btf.len() {
            assert!(BtfTypes::find(&btf[..length]).is_none_or(|types| types.starts.len() <= whole), "{length}");
        }
    }

    #[test]
    fn a_typedef_of_itself_does_not_loop_forever() {
        let mut btf = super::super::tests::BtfWriter::default();
        btf.typedef("spinlock_t", 1);
        assert_eq!(BtfTypes::find(&btf.bytes()).unwrap().structure_of_typedef("spinlock_t"), None);
    }
}
