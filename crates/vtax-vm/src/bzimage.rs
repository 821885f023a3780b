//! The ELF kernel inside a bzImage.
//!
//! Entering the ELF kernel directly (PVH) halves the boot under emulation: neither the firmware's
//! real-mode loader nor the kernel's own decompressor has to be emulated.

use std::io;

use crate::decompress;
use crate::elf::Elf;

/// Offsets of the boot header (kernel document `arch/x86/boot`).
const SETUP_SECTS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
const SECTOR_BYTES: usize = 512;

/// The ELF kernel (`vmlinux`, stripped as the build left it) in `image`.
///
/// # Errors
///
/// What is wrong with the image, or that this kernel has no PVH entry.
pub(crate) fn vmlinux(image: &[u8]) -> io::Result<Vec<u8>> {
    let payload = payload(image).ok_or_else(|| invalid("no bzImage of boot protocol 2.08 or later"))?;
    let kernel = decompress::elf(payload)?;
    let elf = Elf::parse(&kernel).map_err(io::Error::other)?;
    match elf.has_pvh_entry().map_err(io::Error::other)? {
        true => Ok(kernel),
        false => Err(invalid("the kernel has no PVH entry (CONFIG_PVH)")),
    }
}

fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |offset: usize| {
        let bytes = image.get(offset..offset + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    if image.get(MAGIC..MAGIC + 4)? != b"HdrS" {
        return None;
    }
    // "If this is 0, the real value is 4."
    let sectors = match image[SETUP_SECTS] {
        0 => 4,
        n => usize::from(n),
    };
    let start = ((sectors + 1) * SECTOR_BYTES).checked_add(word(PAYLOAD_OFFSET)?)?;
    image.get(start..start.checked_add(word(PAYLOAD_LENGTH)?)?).filter(|p| !p.is_empty())
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn image_with(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024 + 16];
        image[SETUP_SECTS] = 1;
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&16_u32.to_le_bytes());
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend(payload);
        image.extend([0xee; 40]);
        image
    }

    #[test]
    fn the_payload_is_found() {
        assert_eq!(payload(&image_with(b"abcdef")), Some(&b"abcdef"[..]));
    }

    #[test]
    fn damage_is_an_error_that_says_what() {
        let error = |bytes: &[u8]| vmlinux(bytes).unwrap_err().to_string();
        assert!(error(b"MZ").contains("no bzImage"));
        assert!(error(&image_with(b"junk")).contains("compressed as unknown"));
        assert!(error(&image_with(b"\x7fELF\x02\x01")).contains("cut short"));
        let mut cut = image_with(&[1; 500]);
        cut.truncate(1100);
        assert!(error(&cut).contains("no bzImage"));
    }

    proptest! {
        #[test]
        fn hostile_headers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1200), magic in any::<bool>()) {
            let mut bytes = bytes;
            if magic && bytes.len() > MAGIC + 4 {
                bytes[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
            }
            let _ = payload(&bytes);
        }
    }
}
