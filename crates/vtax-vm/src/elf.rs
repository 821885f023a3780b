//! The little of ELF (64-bit, little-endian; System V ABI, "Object Files") that guests need.
//!
//! Modules and kernels come from packages, but a damaged download must end in an error and not in
//! a panic, so every offset is checked.

/// Why bytes are not the ELF file that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ElfError(&'static str);

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
/// Note type of the 32-bit PVH entry point (Xen `public/elfnote.h`, XEN_ELFNOTE_PHYS32_ENTRY).
const XEN_ELFNOTE_PHYS32_ENTRY: u32 = 18;

fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<usize> {
    at(bytes, offset).map(|b| usize::from(u16::from_le_bytes(b)))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    at(bytes, offset).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<usize> {
    at(bytes, offset).and_then(|b| usize::try_from(u64::from_le_bytes(b)).ok())
}

/// An ELF file in memory whose header was checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elf<'a> {
    bytes: &'a [u8],
}

/// One segment of the file.
#[derive(Debug, Clone, Copy)]
struct Segment<'a> {
    kind: u32,
    end: usize,
    content: &'a [u8],
}

impl<'a> Elf<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, ElfError> {
        if !bytes.starts_with(b"\x7fELF") {
            return Err(ElfError("no ELF header"));
        }
        if bytes.get(4..6) != Some(&[2, 1]) {
            return Err(ElfError("not 64-bit little-endian"));
        }
        if bytes.len() < 64 {
            return Err(ElfError("ELF header cut short"));
        }
        Ok(Self { bytes })
    }

    fn segments(self) -> Result<Vec<Segment<'a>>, ElfError> {
        const CUT: ElfError = ElfError("program header cut short");
        let table = u64_at(self.bytes, 32).ok_or(CUT)?;
        let size = u16_at(self.bytes, 54).ok_or(CUT)?;
        let count = u16_at(self.bytes, 56).ok_or(CUT)?;
        let segment = |index: usize| {
            let header = index.checked_mul(size)?.checked_add(table)?;
            let offset = u64_at(self.bytes, header.checked_add(8)?)?;
            let end = offset.checked_add(u64_at(self.bytes, header.checked_add(32)?)?)?;
            let content = self.bytes.get(offset..end)?;
            Some(Segment { kind: u32_at(self.bytes, header)?, end, content })
        };
        (0..count).map(|i| segment(i).ok_or(CUT)).collect()
    }

    /// Whether the program needs a loader, and so the host's libraries.
    pub(crate) fn is_dynamic(self) -> Result<bool, ElfError> {
        Ok(self.segments()?.iter().any(|s| s.kind == PT_INTERP))
    }

    /// Whether it says what it is linked with: a program that isn't static, a library, a module.
    pub(crate) fn is_linked(self) -> Result<bool, ElfError> {
        Ok(self.segments()?.iter().any(|s| s.kind == PT_DYNAMIC))
    }

    /// Whether it is a kernel that QEMU can enter directly (PVH).
    pub(crate) fn has_pvh_entry(self) -> Result<bool, ElfError> {
        Ok(self.segments()?.iter().filter(|s| s.kind == PT_NOTE).any(|s| notes_have_pvh(s.content)))
    }

    /// The file without what isn't loaded: symbols, debug information, section headers.
    pub(crate) fn loadable_part(self) -> Result<Vec<u8>, ElfError> {
        let segments = self.segments()?;
        let end = segments.iter().filter(|s| s.kind == PT_LOAD).map(|s| s.end).max();
        let end = end.ok_or(ElfError("nothing to load"))?.max(64);
        let mut part = self.bytes[..end].to_vec();
        part[40..48].fill(0); // e_shoff
        part[58..64].fill(0); // e_shentsize, e_shnum, e_shstrndx
        Ok(part)
    }

    /// The content of a section; `None` where there is none of this name.
    pub(crate) fn section(self, name: &str) -> Result<Option<&'a [u8]>, ElfError> {
        const CUT: ElfError = ElfError("section header cut short");
        let table = u64_at(self.bytes, 40).ok_or(CUT)?;
        let size = u16_at(self.bytes, 58).ok_or(CUT)?;
        let count = u16_at(self.bytes, 60).ok_or(CUT)?;
        let names = u16_at(self.bytes, 62).ok_or(CUT)?;
        let header = |index: usize| index.checked_mul(size)?.checked_add(table);
        let content = |index: usize| {
            let header = header(index)?;
            let offset = u64_at(self.bytes, header.checked_add(24)?)?;
            let length = u64_at(self.bytes, header.checked_add(32)?)?;
            self.bytes.get(offset..offset.checked_add(length)?)
        };
        let names = content(names).ok_or(CUT)?;
        for index in 0..count {
            let offset = header(index).and_then(|h| u32_at(self.bytes, h)).ok_or(CUT)?;
            let rest = names.get(offset as usize..).unwrap_or_default();
            if rest.strip_prefix(name.as_bytes()).is_some_and(|after| after.first() == Some(&0)) {
                return content(index).map(Some).ok_or(CUT);
            }
        }
        Ok(None)
    }

    /// The names of the modules that a kernel module depends on (its `depends=` line).
    pub(crate) fn module_depends(self) -> Result<Vec<String>, ElfError> {
        let info = self.section(".modinfo")?.ok_or(ElfError("no .modinfo section"))?;
        let depends = info.split(|&b| b == 0).find_map(|line| line.strip_prefix(b"depends="));
        let text = std::str::from_utf8(depends.unwrap_or_default())
            .map_err(|_| ElfError("`depends=` is not UTF-8"))?;
        Ok(text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }
}

/// Walks a note segment: each note has three words, then name and content, both padded to 4 bytes.
fn notes_have_pvh(notes: &[u8]) -> bool {
    let mut offset = 0_usize;
    while let (Some(name), Some(content), Some(kind)) =
        (u32_at(notes, offset), u32_at(notes, offset + 4), u32_at(notes, offset + 8))
    {
        let body = offset + 12;
        if kind == XEN_ELFNOTE_PHYS32_ENTRY && notes.get(body..).is_some_and(|n| n.starts_with(b"Xen\0")) {
            return true;
        }
        let padded = |n: u32| (n as usize).checked_next_multiple_of(4);
        let next = padded(name).zip(padded(content)).and_then(|(n, c)| body.checked_add(n)?.checked_add(c));
        let Some(next) = next else { return false };
        offset = next;
        if offset >= notes.len() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own_binary() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    #[test]
    fn this_very_test_loses_its_symbols_and_stays_an_elf_file() {
        let bytes = own_binary();
        let elf = Elf::parse(&bytes).unwrap();
        assert!(elf.section(".text").unwrap().is_some());
        assert!(elf.section(".no-such-section").unwrap().is_none());
        let part = elf.loadable_part().unwrap();
        assert!(part.len() < bytes.len());
        let stripped = Elf::parse(&part).unwrap();
        assert_eq!(stripped.is_dynamic().unwrap(), elf.is_dynamic().unwrap());
        assert!(!elf.has_pvh_entry().unwrap());
    }

    #[test]
    fn a_pvh_note_is_found_behind_another_note() {
        let note = |kind: u32, name: &[u8], content: &[u8]| {
            let mut n = Vec::new();
            for word in [name.len() as u32, content.len() as u32, kind] {
                n.extend(word.to_le_bytes());
            }
            for part in [name, content] {
                n.extend(part);
                n.resize(n.len().next_multiple_of(4), 0);
            }
            n
        };
        let mut notes = note(3, b"GNU\0", &[7; 5]);
        assert!(!notes_have_pvh(&notes));
        notes.extend(note(18, b"Xen\0", &[0, 0, 0, 1, 0, 0, 0, 0]));
        assert!(notes_have_pvh(&notes));
        assert!(!notes_have_pvh(&[0xff; 40]));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..600),
            real_magic in any::<bool>(),
        ) {
            if real_magic && bytes.len() >= 6 {
                bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
            }
            if let Ok(elf) = Elf::parse(&bytes) {
                let _ = (elf.is_dynamic(), elf.has_pvh_entry(), elf.loadable_part(), elf.module_depends());
            }
            let _ = notes_have_pvh(&bytes);
        }

        #[test]
        fn damage_to_a_real_header_never_panics(damage in proptest::collection::vec((0_usize..4096, any::<u8>()), 1..12)) {
            use std::sync::LazyLock;
            static HEAD: LazyLock<Vec<u8>> = LazyLock::new(|| own_binary()[..8192].to_vec());
            let mut bytes = HEAD.clone();
            for (offset, byte) in damage {
                bytes[offset] = byte;
            }
            if let Ok(elf) = Elf::parse(&bytes) {
                let _ = (elf.is_dynamic(), elf.has_pvh_entry(), elf.loadable_part(), elf.module_depends());
            }
        }
    }
}
