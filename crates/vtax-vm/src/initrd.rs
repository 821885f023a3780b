//! The initrd of a guest, built in memory.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::MemfdFlags;

use crate::contract::MODULE_DIR;
use crate::cpio::Archive;
use crate::elf::Elf;
use crate::error::{Result, VmError};
use crate::modules::Module;

/// What the smallest `/init` says on the console before it powers off.
pub(crate) const HELLO: &str = "vtax: this kernel boots\n";

/// An initrd with `init` (a static ELF program) and `modules`, uncompressed: emulated
/// decompression costs more time than copying the bytes.
pub(crate) fn build(init: &Path, modules: &[Module]) -> Result<Vec<u8>> {
    let program = fs::read(init).map_err(VmError::path("read", init))?;
    let bad = |e: crate::elf::ElfError| VmError::bad_file(init, "a program for a guest", e.to_string());
    let elf = Elf::parse(&program).map_err(bad)?;
    if elf.is_dynamic().map_err(bad)? {
        let reason = "it is linked dynamically; build it with `-C target-feature=+crt-static`";
        return Err(VmError::bad_file(init, "a program for a guest", reason));
    }
    let mut archive = skeleton();
    let dir = MODULE_DIR.trim_start_matches('/');
    archive.directory(dir);
    for (index, module) in modules.iter().enumerate() {
        archive.file(&format!("{dir}/{index:02}-{}.ko", module.name), 0o644, &module.content);
    }
    archive.file("init", 0o755, &elf.loadable_part().map_err(bad)?);
    Ok(archive.finish())
}

/// An initrd that only proves that a kernel gets as far as running a program.
pub(crate) fn probe() -> Vec<u8> {
    let mut archive = skeleton();
    archive.file("init", 0o755, &smallest_init());
    archive.finish()
}

/// The kernel opens `/dev/console` for `/init` before anything could mount a devtmpfs.
fn skeleton() -> Archive {
    let mut archive = Archive::default();
    archive.directory("dev");
    archive.character_device("dev/console", 5, 1);
    archive
}

/// A static x86-64 program of some 200 bytes: writes [`HELLO`] and powers the machine off.
///
/// It is put together here so that the proof of an accelerator depends on no file and its time is
/// that of the kernel alone.
fn smallest_init() -> Vec<u8> {
    const BASE: u32 = 0x40_0000;
    const HEADERS: u32 = 64 + 56;
    const WRITE: u32 = 1;
    const REBOOT: u32 = 169;
    // reboot(2): LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF.
    const POWER_OFF: [u32; 3] = [0xfee1_dead, 0x2812_1969, 0x4321_fedc];
    let call = |number: u32, arguments: [u32; 3]| {
        // mov eax, number; mov edi, esi, edx, arguments; syscall
        let loads = [0xb8, 0xbf, 0xbe, 0xba].into_iter().zip([number].into_iter().chain(arguments));
        let mut code: Vec<u8> =
            loads.flat_map(|(opcode, value)| [&[opcode][..], &value.to_le_bytes()].concat()).collect();
        code.extend([0x0f, 0x05]);
        code
    };
    let code = |text_at: u32| {
        let mut code = call(WRITE, [1, text_at, HELLO.len() as u32]);
        code.extend(call(REBOOT, POWER_OFF));
        code.extend([0xeb, 0xfe]); // jmp to itself
        code
    };
    let text_at = BASE + HEADERS + code(0).len() as u32;
    let body = [&code(text_at), HELLO.as_bytes()].concat();
    let size = u64::from(HEADERS) + body.len() as u64;

    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // e_type EXEC, e_machine x86-64, e_version
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [u64::from(BASE + HEADERS), 64, 0] {
        file.extend(word.to_le_bytes()); // e_entry, e_phoff, e_shoff
    }
    file.extend(0_u32.to_le_bytes()); // e_flags
    for half in [64_u16, 56, 1, 64, 0, 0] {
        file.extend(half.to_le_bytes()); // e_ehsize .. e_shstrndx
    }
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]); // PT_LOAD, readable and executable
    for word in [0, u64::from(BASE), u64::from(BASE), size, size, 0x1000] {
        file.extend(word.to_le_bytes()); // p_offset .. p_align
    }
    file.extend(body);
    file
}

/// A kernel for a QEMU that never boots one because it waits for another's guest: the smallest that has
/// a direct entry (PVH, a note of type 18 by `Xen`).
///
/// The machine must be built as the other's, option ROM for the direct entry included. But what a
/// kernel's file says about memory is written there anew at each reset, and a secondary is reset at
/// each checkpoint: with a real kernel that would be 60 MB every time.
pub(crate) fn standby_kernel() -> Vec<u8> {
    const ADDRESS: u32 = 0x10_0000;
    const NOTE_AT: u64 = 64 + 2 * 56;
    let mut note = Vec::new();
    for word in [4_u32, 8, 18] {
        note.extend(word.to_le_bytes()); // n_namesz, n_descsz, n_type PHYS32_ENTRY
    }
    note.extend(b"Xen\0");
    note.extend(u64::from(ADDRESS).to_le_bytes());
    let size = NOTE_AT + note.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [u64::from(ADDRESS), 64, 0] {
        file.extend(word.to_le_bytes()); // e_entry, e_phoff, e_shoff
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 2, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]); // PT_LOAD
    for word in [0, u64::from(ADDRESS), u64::from(ADDRESS), size, size, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend([4, 0, 0, 0, 4, 0, 0, 0]); // PT_NOTE
    for word in [NOTE_AT, 0, 0, note.len() as u64, note.len() as u64, 4] {
        file.extend(word.to_le_bytes());
    }
    file.extend(note);
    file
}

/// `bytes` as a file without a name, which QEMU opens as `/proc/self/fd/N`.
pub(crate) fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file: fs::File = rustix::fs::memfd_create("vtax-initrd", MemfdFlags::CLOEXEC)?.into();
    file.write_all(bytes)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_init_is_one_static_segment_that_ends_with_its_text() {
        // That it runs is proved where it may: in a guest (`tests/boot.rs`).
        let program = smallest_init();
        let elf = Elf::parse(&program).unwrap();
        assert!(!elf.is_dynamic().unwrap());
        assert_eq!(elf.loadable_part().unwrap().len(), program.len());
        assert!(program.ends_with(HELLO.as_bytes()));
        assert!(program.len() < 256);
    }

    #[test]
    fn a_dynamic_program_is_refused_with_the_way_out() {
        let Err(error) = build(Path::new("/bin/sh"), &[]) else { return };
        assert!(error.to_string().contains("crt-static"), "{error}");
    }
}
