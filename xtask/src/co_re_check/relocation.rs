//! The CO-RE relocations of an object: which instruction reads which field.
//!
//! The loader applies relocations but does not name their fields. Layout: Linux,
//! `Documentation/bpf/btf.rst` and `Documentation/bpf/llvm_reloc.rst`.

use anyhow::{Context as _, ensure};
use object::{Object as _, ObjectSection as _};

use super::{fields::ObjectTypes, words::WordReader};

/// An instruction that depends on the kernel's types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The field that it accesses, such as `task_struct.pid`.
    pub access: String,
    /// The name of its section in the object.
    section_name: String,
    /// The index of that section.
    section: usize,
    /// The index of the relocation in its section.
    number: usize,
    /// The offset of the instruction in the section, in bytes.
    offset: usize,
}

/// The instruction that replaces one that is invalid on a kernel: a call to a nonexistent function. libbpf
/// and aya use the same one.
const POISON: (u8, i32) = (0x85, 0xbad_2310);

/// The length of an instruction, in bytes.
const INSTRUCTION: usize = 8;

impl Relocation {
    /// Whether an error of aya's is about this relocation. The error gives only the section and the index.
    pub fn is_meant_by(&self, error: &str) -> bool {
        let number =
            error.split_once("relocation #").map(|(_, rest)| rest.split(' ').next() == Some(&self.number.to_string()));
        number == Some(true) && error.contains(&format!("`{}`", self.section_name))
    }

    /// Whether relocation has poisoned this instruction in `object`.
    pub fn is_poisoned_in(&self, object: &aya_obj::Object) -> bool {
        object.functions.values().filter(|function| function.section_index.0 == self.section).any(|function| {
            let index = self.offset.checked_sub(function.section_offset).map(|offset| offset / INSTRUCTION);
            let instruction = index.and_then(|index| function.instructions.get(index));
            instruction.is_some_and(|instruction| (instruction.code, instruction.imm) == POISON)
        })
    }
}

/// Reads all relocations of an object.
///
/// # Errors
/// Fails if the object has no BTF or is broken.
pub fn read(object: &[u8]) -> anyhow::Result<Vec<Relocation>> {
    let file = object::File::parse(object).context("not an ELF file")?;
    let section = |name| file.section_by_name(name).with_context(|| format!("no section `{name}`"));
    let types = ObjectTypes::parse(section(".BTF")?.data()?, file.endianness())?;
    let ext = WordReader { bytes: section(".BTF.ext")?.data()?, endian: file.endianness() };
    // magic, version and flags, then the header's length, then offset and length of three tables
    // counted from the end of the header; the third table holds the relocations.
    let header = ext.word(4)?;
    let start = header + ext.word(24)?;
    let end = start + ext.word(28)?;
    ensure!(start == end || ext.word(start)? == 16, "relocation records of unknown size");
    let mut relocations = vec![];
    let mut at = start + 4;
    while at < end {
        let name = types.string(ext.word(at)?)?;
        let index = section(name)?.index().0;
        let count = ext.word(at + 4)?;
        at += 8;
        for (number, record) in (at..).step_by(16).take(count).enumerate() {
            let access = types.access(ext.word(record + 4)?, types.string(ext.word(record + 8)?)?)?;
            let section_name = name.to_owned();
            relocations.push(Relocation { access, section_name, section: index, number, offset: ext.word(record)? });
        }
        at += 16 * count;
    }
    Ok(relocations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_loader_is_matched_to_its_relocation() {
        let relocation = |section_name: &str, number| Relocation {
            access: "task_struct.on_cpu".to_owned(),
            section_name: section_name.to_owned(),
            section: 3,
            number,
            offset: 0,
        };
        let error = "error relocating `tp_btf/sched_wakeup`: instruction #308 referenced by relocation #7 is invalid";
        assert!(relocation("tp_btf/sched_wakeup", 7).is_meant_by(error));
        assert!(!relocation("tp_btf/sched_wakeup", 70).is_meant_by(error));
        assert!(!relocation("tp_btf/sched_waking", 7).is_meant_by(error));
        assert!(!relocation("tp_btf/sched_wakeup", 7).is_meant_by("no BTF"));
    }
}
