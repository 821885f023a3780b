//! Tar archives whose bytes depend on nothing but what is put into them: no names of users, no order of a file system.

use anyhow::{Result, ensure};

/// Blocks of a tar archive.
const BLOCK: usize = 512;

/// An archive that grows (POSIX.1-1988, "ustar").
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    /// Time of change of everything in it, seconds since 1970.
    time: u64,
}

impl Archive {
    /// An empty archive.
    pub(crate) fn new(time: u64) -> Self {
        Self { bytes: Vec::new(), time }
    }

    /// Adds a directory; its name ends with `/`.
    ///
    /// # Errors
    ///
    /// As [`Self::file`].
    pub(crate) fn directory(&mut self, name: &str, mode: u32) -> Result<()> {
        self.header(name, mode, 0, b'5')
    }

    /// Adds a file.
    ///
    /// # Errors
    ///
    /// Where its name is longer than 100 bytes, or it is larger than 8 GiB.
    pub(crate) fn file(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.header(name, mode, content.len() as u64, b'0')?;
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        Ok(())
    }

    /// The archive as a file.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }

    fn header(&mut self, name: &str, mode: u32, size: u64, kind: u8) -> Result<()> {
        ensure!(name.len() <= 100, "a name in an archive has 100 bytes at most: {name}");
        ensure!(size < 1 << 33, "{name} is too large for an archive");
        let mut header = [0_u8; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        put(&mut header, 100, &format!("{mode:07o}"));
        // User and group: root.
        put(&mut header, 108, "0000000");
        put(&mut header, 116, "0000000");
        put(&mut header, 124, &format!("{size:011o}"));
        put(&mut header, 136, &format!("{:011o}", self.time));
        // The sum of all bytes, with blanks in its own place.
        put(&mut header, 148, "        ");
        header[156] = kind;
        put(&mut header, 257, "ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        put(&mut header, 148, &format!("{sum:06o}\0 "));
        self.bytes.extend_from_slice(&header);
        Ok(())
    }
}

fn put(header: &mut [u8; BLOCK], at: usize, text: &str) {
    header[at..at + text.len()].copy_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_reads_an_archive() {
        let mut archive = Archive::new(86_400);
        archive.directory("usr/", 0o755).unwrap();
        archive.file("usr/x", 0o644, b"hello").unwrap();
        archive.file("empty", 0o600, b"").unwrap();
        assert!(archive.file(&"n".repeat(101), 0o600, b"").is_err());
        let bytes = archive.finish();
        assert_eq!(bytes.len(), 512 + 1024 + 512 + 1024);
        assert_eq!(&bytes[512..517], b"usr/x");
        assert_eq!((&bytes[1024..1029], bytes[1029]), (&b"hello"[..], 0));
        let file = std::env::temp_dir().join(format!("xtask-archive-{}.tar", std::process::id()));
        std::fs::write(&file, &bytes).unwrap();
        let listed = std::process::Command::new("tar").arg("tvf").arg(&file).env("TZ", "UTC").output();
        std::fs::remove_file(&file).unwrap();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        let lines: Vec<&str> = listed.lines().collect();
        assert_eq!(lines.len(), 3, "{listed}");
        assert!(
            lines[0].starts_with("drwxr-xr-x") && lines[0].ends_with("1970-01-02 00:00 usr/"),
            "{listed}"
        );
        assert!(lines[1].starts_with("-rw-r--r--") && lines[1].ends_with("usr/x"), "{listed}");
    }
}
