//! The lines of a LIST: those of `ls -l`.

use super::{FtpError, LINE_BYTES_MAX};

/// Bytes that are kept of a line. Its name may be cut by that, which [`Entry::name`] shows as `None`.
const KEPT: usize = 320;

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A link, a device, or something else.
    Other,
}

/// One line of a LIST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it is.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub size: u64,
    /// Its name; `None` where the line is longer than what is kept of it.
    pub name: Option<&'a [u8]>,
}

/// What one call of [`ListScanner::scan`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListScanned<'a> {
    /// Bytes of the input that it took.
    pub consumed: usize,
    /// The line that ended with them.
    pub line: Option<Result<Entry<'a>, ()>>,
}

/// Scans a LIST, line by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListScanner {
    line: [u8; KEPT],
    length: u32,
}

impl Default for ListScanner {
    fn default() -> Self {
        Self::new()
    }
}

impl ListScanner {
    /// A scanner at the start of a LIST.
    #[must_use]
    pub const fn new() -> Self {
        Self { line: [0; KEPT], length: 0 }
    }

    /// True where a line has begun and not ended.
    #[must_use]
    pub const fn is_within(&self) -> bool {
        self.length > 0
    }

    /// Scans what arrived, up to the end of a line or of the input. A line that is no entry is an `Err(())`; `total 12`, as `ls`
    /// begins, is skipped.
    ///
    /// # Errors
    /// A line is longer than [`LINE_BYTES_MAX`].
    pub fn scan(&mut self, input: &[u8]) -> Result<ListScanned<'_>, FtpError> {
        let end = memchr::memchr(b'\n', input);
        let part = &input[..end.unwrap_or(input.len())];
        let at = self.length as usize;
        if at + part.len() > LINE_BYTES_MAX as usize + 1 {
            return Err(FtpError::LongLine);
        }
        let kept = part.len().min(KEPT.saturating_sub(at));
        if kept > 0 {
            self.line[at..at + kept].copy_from_slice(&part[..kept]);
        }
        let length = at + part.len();
        let Some(end) = end else {
            self.length = length as u32;
            return Ok(ListScanned { consumed: input.len(), line: None });
        };
        self.length = 0;
        let line = &self.line[..length.min(KEPT)];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let skipped = line.is_empty() || line.starts_with(b"total ");
        let line = (!skipped).then(|| entry(line, length > KEPT).ok_or(()));
        Ok(ListScanned { consumed: end + 1, line })
    }
}

/// `-rw-r--r--    1 ftp      ftp        102400 Nov 22 12:00 name`
fn entry(line: &[u8], cut: bool) -> Option<Entry<'_>> {
    let mut at = 0;
    let mut size = None;
    let mut first = 0;
    for field in 0..8 {
        let start = at + spaces(&line[at..]);
        let length = line[start..].iter().take_while(|byte| **byte != b' ').count();
        if length == 0 {
            return None;
        }
        let word = &line[start..start + length];
        match field {
            0 => first = word[0],
            4 => size = super::address::size(word),
            _ => {}
        }
        at = start + length;
    }
    let kind = match first {
        b'-' => EntryKind::File,
        b'd' => EntryKind::Directory,
        b'l' | b'b' | b'c' | b'p' | b's' => EntryKind::Other,
        _ => return None,
    };
    // One space before the name: others are part of it.
    let name = line[at..].strip_prefix(b" ").filter(|name| !name.is_empty())?;
    Some(Entry { kind, size: size?, name: (!cut).then_some(name) })
}

fn spaces(line: &[u8]) -> usize {
    line.iter().take_while(|byte| **byte == b' ').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a LIST: size and name of each entry.
    fn all(input: &[u8]) -> Vec<Option<(EntryKind, u64, Option<String>)>> {
        let (mut scanner, mut rest, mut found) = (ListScanner::new(), input, Vec::new());
        while !rest.is_empty() {
            let ListScanned { consumed, line } = scanner.scan(rest).unwrap();
            let own =
                |e: Entry<'_>| (e.kind, e.size, e.name.map(|n| String::from_utf8_lossy(n).into_owned()));
            found.extend(line.map(|line| line.ok().map(own)));
            rest = &rest[consumed..];
        }
        found
    }

    #[test]
    fn lines_of_common_servers_are_read() {
        let vsftpd = b"total 8\r\n-rw-r--r--    1 1000     1000       102400 Nov 22 12:00 f0\r\n\
            drwx------    2 0        0            4096 Jan 01  2024 a b\r\n";
        let expected = vec![
            Some((EntryKind::File, 102_400, Some("f0".to_owned()))),
            Some((EntryKind::Directory, 4096, Some("a b".to_owned()))),
        ];
        assert_eq!(all(vsftpd), expected);
        let proftpd = b"-rw-r--r--   1 ftp      ftp            5 Nov 22 12:00 f1\r\nsomething else\r\n";
        assert_eq!(all(proftpd), [Some((EntryKind::File, 5, Some("f1".to_owned()))), None]);
    }

    #[test]
    fn long_names_are_cut_and_endless_lines_refused() {
        let long = format!("-rw-r--r-- 1 a a 5 Nov 22 12:00 {}\r\n", "n".repeat(400));
        assert_eq!(all(long.as_bytes()), [Some((EntryKind::File, 5, None))]);
        let mut scanner = ListScanner::new();
        let error = (0..3).find_map(|_| scanner.scan(&[b'x'; 2000]).err());
        assert_eq!(error, Some(FtpError::LongLine));
    }
}
