//! Kernels of arm64: the plain image, and the EFI program that unpacks it.
//!
//! Layout: Linux, `Documentation/arch/arm64/booting.rst`, `drivers/firmware/efi/libstub/zboot-header.S` and
//! `Documentation/bpf/btf.rst`.

use anyhow::Context;

/// Where the plain image has its magic.
const MAGIC_AT: usize = 0x38;
const MAGIC: &[u8] = b"ARM\x64";

/// BTF begins with its magic, version 1 and no flags.
const BTF_START: &[u8] = &[0x9f, 0xeb, 1, 0];

/// Length of the header of BTF: of Linux 5.10, and more than that of any later kernel.
const BTF_HEADER: std::ops::RangeInclusive<usize> = 24..=64;

/// Whether these are the first bytes of a plain image, as QEMU boots it.
pub fn is_plain(image: &[u8]) -> bool {
    image.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC)
}

/// The compressed plain image in an EFI program that unpacks it (`CONFIG_EFI_ZBOOT`); `None` if this is none.
///
/// # Errors
/// Fails if the program is truncated.
pub fn compressed(image: &[u8]) -> anyhow::Result<Option<&[u8]>> {
    if !image.starts_with(b"MZ") || image.get(4..8) != Some(b"zimg") {
        return Ok(None);
    }
    let word = |at| word(image, at).context("the image ends within its header");
    let (offset, length) = (word(8)?, word(12)?);
    let end = offset.checked_add(length).context("the image has an impossible payload")?;
    image.get(offset..end).context("the image ends before its payload does").map(Some)
}

/// The BTF in a plain image, which has no table of its sections: the longest piece that has the header of BTF, and
/// ends with the strings that it describes.
///
/// # Errors
/// Fails if there is none.
pub fn btf(image: &[u8]) -> anyhow::Result<&[u8]> {
    let words = image.chunks_exact(BTF_START.len()).enumerate();
    let starts = words.filter(|(_, word)| *word == BTF_START).map(|(index, _)| index * BTF_START.len());
    starts.filter_map(|at| btf_at(&image[at..])).max_by_key(|btf| btf.len()).context("the kernel holds no BTF")
}

/// The BTF that begins here, if any does.
fn btf_at(bytes: &[u8]) -> Option<&[u8]> {
    let header = word(bytes, 4).filter(|length| BTF_HEADER.contains(length))?;
    let (types_at, types, strings_at, strings) =
        (word(bytes, 8)?, word(bytes, 12)?, word(bytes, 16)?, word(bytes, 20)?);
    let follows = strings_at.checked_sub(types_at)? >= types;
    let btf = bytes.get(..header.checked_add(strings_at)?.checked_add(strings)?)?;
    let text = btf.get(header + strings_at..)?;
    (follows && text.first() == Some(&0) && text.last() == Some(&0)).then_some(btf)
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(word.try_into().ok()?) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(strings: &[u8]) -> Vec<u8> {
        let words = [0x0001_eb9f, 24, 0, 4, 4, strings.len() as u32, 0xffff_ffff];
        words.into_iter().flat_map(u32::to_le_bytes).chain(strings.iter().copied()).collect()
    }

    fn plain(content: &[u8]) -> Vec<u8> {
        let mut image = vec![0; MAGIC_AT];
        image.extend_from_slice(MAGIC);
        image.extend_from_slice(&[0; 4]);
        image.extend_from_slice(content);
        image.extend_from_slice(b"what follows");
        image
    }

    #[test]
    fn the_longest_btf_of_a_plain_image_is_that_of_the_kernel() {
        let (long, short) = (types(b"\0task_struct\0"), types(b"\0abc\0\0\0\0"));
        let image = plain(&[&short[..], &long].concat());
        assert!(is_plain(&image));
        assert_eq!(btf(&image).unwrap(), long);
    }

    #[test]
    fn bytes_that_only_begin_like_btf_are_not_btf() {
        let mut open = types(b"\0abcdefg");
        assert_eq!(btf(&plain(&open)).unwrap_err().to_string(), "the kernel holds no BTF");
        open.truncate(16);
        assert!(btf(&open).is_err());
        assert!(btf(b"").is_err());
    }

    #[test]
    fn a_compressed_image_is_where_the_header_says() {
        let mut image = b"MZ\0\0zimg".to_vec();
        image.extend([20_u32, 7, 0].into_iter().flat_map(u32::to_le_bytes));
        image.extend_from_slice(b"payload, rest");
        assert_eq!(compressed(&image).unwrap(), Some(&b"payload"[..]));
        assert!(!is_plain(&image));
        assert!(compressed(&image[..24]).is_err());
        assert_eq!(compressed(&plain(b"")).unwrap(), None);
    }
}
