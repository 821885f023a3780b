//! The archive format of an initrd: cpio "newc" (kernel document
//! `driver-api/early-userspace/buffer-format`).

/// An archive that grows in memory.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

impl Archive {
    /// Adds a directory; its parent must have been added before.
    pub(crate) fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY | 0o755, (0, 0), &[]);
    }

    /// Adds a file.
    pub(crate) fn file(&mut self, name: &str, permissions: u32, content: &[u8]) {
        self.entry(name, REGULAR | permissions, (0, 0), content);
    }

    /// Adds a character device; needs no privilege, it is only written down.
    pub(crate) fn character_device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(name, CHARACTER_DEVICE | 0o600, (major, minor), &[]);
    }

    /// The finished archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        // inode, mode, uid, gid, links, mtime, size, device, special device, name size, check
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            u32::try_from(content.len()).unwrap_or(u32::MAX),
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn the_bytes_are_as_the_format_has_them() {
        let mut archive = Archive::default();
        archive.directory("dev");
        archive.character_device("dev/console", 5, 1);
        archive.file("init", 0o755, b"#!x\n1");
        let expected = concat!(
            "070701000000010000",
            "41ED0000000000000000000000010000000000000000000000000000000000000000000000000000000400000000dev\0\0\0",
            "070701000000020000",
            "218000000000000000000000000100000000000000000000000000000000000000050000000100",
            "00000C00000000dev/console\0\0\0",
            "070701000000030000",
            "81ED000000000000000000000001000000000000000500000000000000000000000000000000000000",
            "0500000000init\0\0#!x\n1\0\0\0",
            "070701000000040000",
            "0000000000000000000000000001000000000000000000000000000000000000000000000000000000",
            "0B00000000TRAILER!!!\0\0\0\0",
        );
        let bytes = archive.finish();
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }

    #[test]
    fn the_cpio_program_lists_it() {
        let mut archive = Archive::default();
        archive.directory("modules");
        archive.file("modules/00-a.ko", 0o644, &[7; 1001]);
        let started =
            Command::new("cpio").args(["-t", "--quiet"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = started else {
            let _ = vtax_sys::require::possible(Some("cpio is not installed"));
            return;
        };
        child.stdin.take().unwrap().write_all(&archive.finish()).unwrap();
        let listing = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(listing, "modules\nmodules/00-a.ko\n");
    }

    proptest! {
        #[test]
        fn any_content_stays_aligned_and_readable(
            name in "[a-z]{1,40}",
            content in proptest::collection::vec(any::<u8>(), 0..500),
        ) {
            let mut archive = Archive::default();
            archive.file(&name, 0o644, &content);
            let bytes = archive.finish();
            prop_assert_eq!(bytes.len() % 4, 0);
            let body = (110 + name.len() + 1).next_multiple_of(4);
            prop_assert_eq!(&bytes[body..body + content.len()], &content[..]);
            let next = (body + content.len()).next_multiple_of(4);
            prop_assert_eq!(&bytes[next..next + 6], b"070701");
        }
    }
}
