//! The types that an object was compiled with, as far as they are needed to name a field.

use std::fmt::Write as _;

use anyhow::{Context as _, bail, ensure};
use object::Endianness;

use super::words::WordReader;

/// The kinds of BTF types that matter here (Linux, `include/uapi/linux/btf.h`).
mod kind {
    pub const ARRAY: usize = 3;
    pub const STRUCT: usize = 4;
    pub const UNION: usize = 5;
    pub const TYPEDEF: usize = 8;
    pub const RESTRICT: usize = 11;
}

/// BTF, with the offset of each type.
pub struct ObjectTypes<'a> {
    words: WordReader<'a>,
    /// The offset of each type, by its id; 0 is `void`.
    offsets: Vec<usize>,
    strings: &'a [u8],
}

impl<'a> ObjectTypes<'a> {
    /// Finds the offset of each type.
    ///
    /// # Errors
    /// Fails if the BTF is truncated or has a type of unknown kind.
    pub fn parse(bytes: &'a [u8], endian: Endianness) -> anyhow::Result<Self> {
        let words = WordReader { bytes, endian };
        // magic, version and flags, then the header's length, then offset and length of the types and of
        // the strings, counted from the end of the header.
        let header = words.word(4)?;
        let types = header + words.word(8)?;
        let end = types + words.word(12)?;
        let strings = header + words.word(16)?;
        let strings = bytes.get(strings..strings + words.word(20)?).context("the strings are cut short")?;
        let mut offsets = vec![0];
        let mut at = types;
        while at < end {
            offsets.push(at);
            let (kind, members) = kind_and_members(words.word(at + 4)?);
            at += 12 + tail(kind, members)?;
        }
        ensure!(at == end, "the types are cut short");
        Ok(Self { words, offsets, strings })
    }

    /// The string at an offset.
    pub fn string(&self, offset: usize) -> anyhow::Result<&'a str> {
        let rest = self.strings.get(offset..).context("a name is outside the strings")?;
        let end = rest.iter().position(|byte| *byte == 0).context("a name does not end")?;
        Ok(std::str::from_utf8(&rest[..end])?)
    }

    /// The C expression of an access: `task_struct.se.vruntime` for `0:3:1`. The first index counts whole
    /// objects behind a pointer.
    ///
    /// # Errors
    /// Fails if the access does not fit the type.
    pub fn access(&self, id: usize, indices: &str) -> anyhow::Result<String> {
        let mut id = self.resolve(id)?;
        let mut text = self.string(self.words.word(self.offset(id)?)?)?.to_owned();
        for index in indices.split(':').skip(1) {
            let index: usize = index.parse().with_context(|| format!("an access of `{indices}`"))?;
            let offset = self.offset(id)?;
            match kind_and_members(self.words.word(offset + 4)?) {
                (kind::STRUCT | kind::UNION, members) if index < members => {
                    let member = offset + 12 + 12 * index;
                    write!(text, ".{}", self.string(self.words.word(member)?)?)?;
                    id = self.resolve(self.words.word(member + 4)?)?;
                }
                (kind::ARRAY, _) => {
                    write!(text, "[{index}]")?;
                    id = self.resolve(self.words.word(offset + 12)?)?;
                }
                // An enum value: its index identifies it as well as its name would.
                _ => write!(text, ":{index}")?,
            }
        }
        Ok(text)
    }

    /// Resolves typedefs and qualifiers.
    fn resolve(&self, mut id: usize) -> anyhow::Result<usize> {
        for _ in 0..self.offsets.len() {
            let offset = self.offset(id)?;
            let (kind, _) = kind_and_members(self.words.word(offset + 4)?);
            if !(kind::TYPEDEF..=kind::RESTRICT).contains(&kind) {
                return Ok(id);
            }
            id = self.words.word(offset + 8)?;
        }
        bail!("type {id} is defined by itself")
    }

    fn offset(&self, id: usize) -> anyhow::Result<usize> {
        self.offsets.get(id).copied().filter(|offset| *offset != 0).with_context(|| format!("no type {id}"))
    }
}

fn kind_and_members(info: usize) -> (usize, usize) {
    ((info >> 24) & 0x1f, info & 0xffff)
}

/// Size of the data that follows the 12 bytes common to all types, in bytes.
fn tail(kind: usize, members: usize) -> anyhow::Result<usize> {
    Ok(match kind {
        // int, var, decl_tag
        1 | 14 | 17 => 4,
        // ptr, fwd, typedef, volatile, const, restrict, func, float, type_tag
        2 | 7..=12 | 16 | 18 => 0,
        kind::ARRAY => 12,
        // struct, union, datasec, enum64
        kind::STRUCT | kind::UNION | 15 | 19 => 12 * members,
        // enum, func_proto
        6 | 13 => 8 * members,
        kind => bail!("unknown kind of type {kind}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRINGS: &str = "\0int\0task\0pid\0comm\0sub\0";

    fn at(name: &str) -> u32 {
        STRINGS.find(&format!("\0{name}\0")).unwrap() as u32 + 1
    }

    /// `struct task { int pid; const struct task sub; int comm[4]; }`
    fn btf() -> Vec<u8> {
        let info = |kind: u32, members: u32| kind << 24 | members;
        let types = [
            vec![at("int"), info(1, 0), 4, 32],
            vec![at("task"), info(4, 3), 24, at("pid"), 1, 0, at("sub"), 3, 32, at("comm"), 4, 64],
            vec![0, info(10, 0), 2],
            vec![0, info(3, 0), 0, 1, 1, 4],
        ]
        .concat();
        let length = 4 * types.len() as u32;
        let header = [0x0001_eb9f, 24, 0, length, length, STRINGS.len() as u32];
        let words = header.into_iter().chain(types).flat_map(u32::to_le_bytes);
        words.chain(STRINGS.bytes()).collect()
    }

    #[test]
    fn an_access_reads_like_c() {
        let btf = btf();
        let types = ObjectTypes::parse(&btf, Endianness::Little).unwrap();
        assert_eq!(types.access(2, "0").unwrap(), "task");
        assert_eq!(types.access(2, "0:0").unwrap(), "task.pid");
        assert_eq!(types.access(2, "0:1:2:3").unwrap(), "task.sub.comm[3]");
    }

    #[test]
    fn truncated_types_are_an_error() {
        let btf = btf();
        for length in 0..btf.len() {
            assert!(ObjectTypes::parse(&btf[..length], Endianness::Little).is_err(), "{length} bytes");
        }
        assert!(ObjectTypes::parse(&btf, Endianness::Little).unwrap().access(9, "0:0").is_err());
    }
}
