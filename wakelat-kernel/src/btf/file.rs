//! Reads the bytes of a BTF, from a file of its own or from the `vmlinux` that contains it.

use std::{
    collections::TryReserveError,
    fs::File,
    hint::black_box,
    io::{self, ErrorKind, Read as _, Seek as _},
    path::Path,
};

use anyhow::{Context as _, Error, Result, bail, ensure};
use object::{Object as _, ObjectSection as _, read::ReadCache};

/// Maximum size of a BTF in bytes. The BTF of a distribution's kernel has 4 to 12 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Reads the BTF in `path`: raw BTF, or the section `.BTF` of an ELF file. None if there is no such file.
///
/// # Errors
/// If the file cannot be read, is neither of these, or has more than 256 MiB of BTF. Also if there is not
/// enough memory to parse the BTF and to load the programs, because a process that runs out of memory there
/// aborts without an error message.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    };
    let bytes = bytes(file).and_then(|bytes| reserve(memory_for(bytes.len())).map(|()| bytes));
    let bytes = bytes.map_err(|error| if is_out_of_memory(&error) { Error::msg(OUT_OF_MEMORY) } else { error });
    bytes.with_context(|| format!("cannot read `{}`", path.display())).map(Some)
}

const OUT_OF_MEMORY: &str = "out of memory; raise the limit, for example with `ulimit -v unlimited`";

/// Upper bound, in bytes, of the memory that wakelat needs besides a BTF of this size until it measures,
/// without the ring buffer. With a BTF of 5.5 MB it needs 25 MB.
fn memory_for(btf: usize) -> usize {
    4 * btf + (16 << 20)
}

/// Checks that this many bytes can be allocated.
fn reserve(bytes: usize) -> Result<()> {
    let mut memory = Vec::<u8>::new();
    memory.try_reserve_exact(bytes)?;
    // Otherwise the compiler may remove the unused allocation.
    black_box(&memory);
    Ok(())
}

fn is_out_of_memory(error: &Error) -> bool {
    error.is::<TryReserveError>()
        || error.downcast_ref().is_some_and(|e: &io::Error| e.kind() == ErrorKind::OutOfMemory)
}

fn bytes(mut file: File) -> Result<Vec<u8>> {
    const BTF: [u8; 2] = 0xeb9f_u16.to_ne_bytes();
    const ELF: [u8; 4] = *b"\x7fELF";
    let mut magic = Vec::new();
    (&file).take(4).read_to_end(&mut magic)?;
    if magic.starts_with(&BTF) {
        let mut bytes = magic;
        // Of a sysfs file, too, this is the size of its contents. It is only a hint.
        let expected = file.metadata().map_or(0, |of| of.len().min(MAX_BYTES));
        bytes.try_reserve_exact(expected as usize)?;
        (&file).take(MAX_BYTES).read_to_end(&mut bytes)?;
        ensure!(bytes.len() as u64 <= MAX_BYTES, "too large to be a kernel's BTF; expected at most 256 MiB");
        return Ok(bytes);
    }
    if magic != ELF {
        bail!("expected BTF of this machine's byte order, or an ELF file with a section `.BTF`");
    }
    file.rewind()?;
    // A `vmlinux` with debug information has up to a gigabyte, so read only the parts that are needed.
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).context("the ELF file is invalid")?;
    let section = elf
        .section_by_name(".BTF")
        .context("the ELF file has no section `.BTF`; use one built with `CONFIG_DEBUG_INFO_BTF=y`")?;
    ensure!(section.size() <= MAX_BYTES, "its section `.BTF` is too large; expected at most 256 MiB");
    Ok(section.data().context("the section `.BTF` is truncated")?.to_vec())
}

#[cfg(test)]
mod tests {
    use object::write::{Object, SectionKind};

    use super::*;

    #[test]
    fn memory_that_cannot_be_allocated_is_an_error() {
        assert!(is_out_of_memory(&reserve(isize::MAX as usize).unwrap_err()));
        assert!(reserve(1 << 20).is_ok());
    }

    fn error(path: &Path) -> String {
        format!("{:#}", read(path).unwrap_err())
    }

    fn elf(section: &str, data: &[u8]) -> Vec<u8> {
        let mut elf = Object::new(object::BinaryFormat::Elf, object::Architecture::X86_64, object::Endianness::Little);
        let id = elf.add_section(Vec::new(), section.into(), SectionKind::ReadOnlyData);
        elf.append_section_data(id, data, 1);
        elf.write().unwrap()
    }

    #[test]
    fn an_endless_file_is_rejected_after_its_first_bytes() {
        assert!(error(Path::new("/dev/zero")).contains("expected BTF of this machine's byte order"));
    }

    #[test]
    fn the_btf_in_a_vmlinux_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmlinux");
        std::fs::write(&path, elf(".BTF", b"what the kernel would publish")).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"what the kernel would publish");
        std::fs::write(&path, elf(".data", b"something else")).unwrap();
        assert!(error(&path).contains("no section `.BTF`"), "{}", error(&path));
    }
}
