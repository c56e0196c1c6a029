//! Extracts the BTF of a kernel as distributions ship it.
//!
//! Layout of compressed x86 kernels: Linux, `Documentation/arch/x86/boot.rst` (protocol 2.08 and later).

use std::{borrow::Cow, io::Read};

use anyhow::{Context, bail, ensure};
use object::{Object, ObjectSection};

use super::arm64_image;

// Offsets in the boot sector of the fields that locate the compressed payload.
const SETUP_SECTORS: usize = 0x1f1;
const BOOT_MAGIC: usize = 0x202;
const BOOT_VERSION: usize = 0x206;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// Returns the BTF of a kernel, the same bytes as its `/sys/kernel/btf/vmlinux`, from its `vmlinuz` or from
/// the plain `vmlinux`.
///
/// # Errors
/// Fails if the image is neither a kernel of x86 nor of arm64, is truncated or has no BTF.
pub fn btf(image: &[u8]) -> anyhow::Result<Vec<u8>> {
    let image = bootable(image)?;
    if arm64_image::is_plain(&image) {
        return Ok(arm64_image::btf(&image)?.to_vec());
    }
    let unpacked;
    let elf = if image.starts_with(b"\x7fELF") {
        &image[..]
    } else {
        unpacked = unpack(payload(&image)?)?;
        &unpacked
    };
    let kernel = object::File::parse(elf).context("the kernel inside is not an ELF file")?;
    let section = kernel.section_by_name(".BTF").context("the kernel holds no section `.BTF`")?;
    Ok(section.data().context("the section `.BTF` is cut short")?.to_vec())
}

/// Returns the image that QEMU boots: the image itself, or what an EFI program for arm64 unpacks, which QEMU does since
/// version 8.1.
///
/// # Errors
/// Fails if the image cannot be unpacked.
pub fn bootable(image: &[u8]) -> anyhow::Result<Cow<'_, [u8]>> {
    Ok(match arm64_image::compressed(image)? {
        Some(compressed) => Cow::Owned(unpack(compressed)?),
        None => Cow::Borrowed(image),
    })
}

/// Whether a file that begins with these bytes is a kernel image.
pub fn is_image(start: &[u8]) -> bool {
    start.get(BOOT_MAGIC..BOOT_MAGIC + 4) == Some(b"HdrS")
        || arm64_image::is_plain(start)
        || start.get(4..8) == Some(b"zimg")
}

/// The compressed payload of an image.
fn payload(image: &[u8]) -> anyhow::Result<&[u8]> {
    ensure!(image.get(BOOT_MAGIC..BOOT_MAGIC + 4) == Some(b"HdrS"), "no boot header: not a `vmlinuz` of x86 or arm64");
    let version = u16::from_le_bytes(bytes(image, BOOT_VERSION)?);
    ensure!(version >= 0x208, "boot protocol {version:#x}, expected 0x208 or later");
    let setup_sectors = match bytes::<1>(image, SETUP_SECTORS)? {
        // 0 means 4, for compatibility with very old loaders.
        [0] => 4,
        [sectors] => usize::from(sectors),
    };
    let offset = u32::from_le_bytes(bytes(image, PAYLOAD_OFFSET)?) as usize;
    let length = u32::from_le_bytes(bytes(image, PAYLOAD_LENGTH)?) as usize;
    let start = (setup_sectors + 1) * 512 + offset;
    image.get(start..start + length).context("the image ends before its payload does")
}

fn bytes<const N: usize>(image: &[u8], offset: usize) -> anyhow::Result<[u8; N]> {
    let field = image.get(offset..offset + N).context("the image ends within its boot header")?;
    Ok(field.try_into()?)
}

fn unpack(payload: &[u8]) -> anyhow::Result<Vec<u8>> {
    // The kernel's build appends the unpacked size, four bytes, to every format except gzip, which ends
    // with it anyway. A decoder of a single stream ignores it.
    let mut decoder: Box<dyn Read + '_> = match payload {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::GzDecoder::new(payload)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Box::new(lzma_rust2::XzReader::new(payload, false)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(ruzstd::decoding::StreamingDecoder::new(payload).context("a broken zstd header")?)
        }
        [0x02, 0x21, 0x4c, 0x18, ..] => {
            let stream = &payload[..payload.len() - 4];
            Box::new(lz4_flex::frame::FrameDecoder::new(stream))
        }
        _ => {
            let start = &payload[..payload.len().min(4)];
            bail!("payload begins with {start:02x?}, expected gzip, xz, zstd, lz4")
        }
    };
    let mut unpacked = Vec::new();
    decoder.read_to_end(&mut unpacked).context("cannot unpack the payload")?;
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TYPES: &[u8] = b"\x9f\xeb\x01\0types";

    /// A 64-bit ELF file with the sections `.shstrtab` and `name`; the latter holds `content`.
    fn elf(name: &str, content: &[u8]) -> Vec<u8> {
        let names = format!("\0.shstrtab\0{name}\0");
        let mut file = vec![0; 64];
        file[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0");
        let names_at = file.len();
        file.extend_from_slice(names.as_bytes());
        let content_at = file.len();
        file.extend_from_slice(content);
        let headers_at = file.len();
        let mut header = |name: u32, kind: u32, at: usize, size: usize| {
            for word in [name, kind] {
                file.extend_from_slice(&word.to_le_bytes());
            }
            // flags, address, offset, size, link and info, alignment, entry size
            for word in [0, 0, at, size, 0, 1, 0] {
                file.extend_from_slice(&(word as u64).to_le_bytes());
            }
        };
        header(0, 0, 0, 0);
        header(1, 3, names_at, names.len());
        header(11, 1, content_at, content.len());
        file[40..48].copy_from_slice(&(headers_at as u64).to_le_bytes());
        // sizes of the headers, their number, and the index of the section with the names
        for (at, value) in [(52, 64_u16), (58, 64), (60, 3), (62, 1)] {
            file[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        file
    }

    /// A boot image around `payload`.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 3 * 512 + 0x100];
        image[SETUP_SECTORS] = 2;
        image[BOOT_MAGIC..BOOT_MAGIC + 4].copy_from_slice(b"HdrS");
        image[BOOT_VERSION..BOOT_VERSION + 2].copy_from_slice(&0x20f_u16.to_le_bytes());
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&0x100_u32.to_le_bytes());
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend_from_slice(payload);
        image.extend_from_slice(b"what follows");
        image
    }

    /// Appends the size of `content`, as `scripts/Makefile.lib` of Linux does for every format except gzip.
    fn sized(mut stream: Vec<u8>, content: &[u8]) -> Vec<u8> {
        stream.extend_from_slice(&(content.len() as u32).to_le_bytes());
        stream
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(content: &[u8]) -> Vec<u8> {
        let mut options = lzma_rust2::XzOptions::with_preset(1);
        // The filter for x86 code, which the kernel's build applies.
        options.prepend_pre_filter(lzma_rust2::FilterType::BcjX86, 0);
        let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        encoder.write_all(content).unwrap();
        sized(encoder.finish().unwrap(), content)
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        sized(ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest), content)
    }

    fn lz4(content: &[u8]) -> Vec<u8> {
        let block = lz4_flex::block::compress(content);
        let mut stream = vec![0x02, 0x21, 0x4c, 0x18];
        stream.extend_from_slice(&(block.len() as u32).to_le_bytes());
        stream.extend(block);
        sized(stream, content)
    }

    #[test]
    fn btf_is_read_from_every_compression_format() {
        let kernel = elf(".BTF", TYPES);
        for (name, compress) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("xz", xz), ("zstd", zstd), ("lz4", lz4)] {
            let types = btf(&image(&compress(&kernel)));
            assert_eq!(types.unwrap_or_else(|why| panic!("{name}: {why:#}")), TYPES, "{name}");
        }
    }

    #[test]
    fn a_plain_kernel_needs_no_boot_header() {
        assert_eq!(btf(&elf(".BTF", TYPES)).unwrap(), TYPES);
    }

    #[test]
    fn btf_of_an_arm_kernel_is_read_with_and_without_the_program_that_unpacks_it() {
        // The header, types of no length, and strings: one zero.
        let types: Vec<u8> =
            [0x0001_eb9f_u32, 24, 0, 0, 0, 1].into_iter().flat_map(u32::to_le_bytes).chain([0]).collect();
        let mut plain = vec![0; 0x38];
        plain.extend_from_slice(b"ARM\x64\0\0\0\0");
        plain.extend_from_slice(&types);
        assert_eq!(btf(&plain).unwrap(), types);
        assert_eq!(bootable(&plain).unwrap(), plain);

        let payload = zstd(&plain);
        let mut packed = b"MZ\0\0zimg".to_vec();
        packed.extend([16, payload.len() as u32].into_iter().flat_map(u32::to_le_bytes));
        packed.extend_from_slice(&payload);
        assert_eq!(btf(&packed).unwrap(), types);
        assert_eq!(bootable(&packed).unwrap(), plain);
        assert!(is_image(&plain) && is_image(&packed) && is_image(&image(b"")) && !is_image(b"text"));
    }

    #[test]
    fn an_image_without_a_kernel_or_btf_is_an_error_with_the_reason() {
        let error = |image: &[u8]| btf(image).unwrap_err().to_string();
        assert_eq!(error(b""), "no boot header: not a `vmlinuz` of x86 or arm64");
        assert_eq!(error(&image(&gzip(&elf(".data", TYPES)))), "the kernel holds no section `.BTF`");
        assert_eq!(error(&image(&gzip(b"text"))), "the kernel inside is not an ELF file");
        assert_eq!(error(&image(b"lzop")), "payload begins with [6c, 7a, 6f, 70], expected gzip, xz, zstd, lz4");
        let whole = image(&gzip(&elf(".BTF", TYPES)));
        assert_eq!(error(&whole[..whole.len() - 40]), "the image ends before its payload does");
    }

    #[test]
    fn a_truncated_image_is_an_error_not_a_panic() {
        for compress in [gzip as fn(&[u8]) -> Vec<u8>, xz, zstd, lz4] {
            let payload = compress(&elf(".BTF", TYPES));
            for length in 0..payload.len() - 16 {
                assert!(btf(&image(&payload[..length])).is_err(), "{length} of {}", payload.len());
            }
        }
    }
}
