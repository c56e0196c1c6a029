//! The BPF object as a release contains it.

use anyhow::{Context as _, ensure};
use object::build::elf;

/// Removes DWARF from the object. Keeps BTF, which CO-RE relocations need, and the symbols, which name the
/// programs and maps.
pub fn without_debug_information(object: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut builder = elf::Builder::read(object).context("the BPF object is not an ELF file")?;
    for section in &mut builder.sections {
        let name = section.name.as_slice();
        if name.starts_with(b".debug_") || name.starts_with(b".rel.debug_") {
            section.delete = true;
        }
    }
    builder.delete_orphans();
    // LLVM stores the names of sections in the string table of the symbols, which is rewritten with only
    // the symbols' names. So the names of sections get a table of their own.
    let names = builder.sections.add();
    names.name = b".shstrtab".as_slice().into();
    names.sh_type = object::elf::SHT_STRTAB;
    names.data = elf::SectionData::SectionString;
    let mut stripped = vec![];
    builder.write(&mut stripped).context("cannot write the stripped object")?;
    let parsed = aya_obj::Object::parse(&stripped).context("the stripped object does not load")?;
    ensure!(parsed.has_btf_relocations(), "the stripped object has lost its relocations");
    Ok(stripped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_elf_file_can_be_stripped() {
        assert!(without_debug_information(b"no object").is_err());
    }
}
