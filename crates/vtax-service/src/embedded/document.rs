//! What the embedded HTTP server serves.
//!
//! A document is a function of the offset: any part of it can be made at any time, so a
//! connection that has to wait needs to remember only how far it has come.

use vtax_units::random::SplitMix64;

/// Largest N of `/bytes/N`.
pub const BYTES_MAX: u64 = 64 << 20;

/// Largest ROWS of `/page/ROWS`.
pub const ROWS_MAX: u64 = 100_000;

const PAGE_START: &[u8] = b"<!DOCTYPE html>\n<html><head><title>vtax</title></head><body><table>\n";
const PAGE_END: &[u8] = b"</table></body></html>\n";
const CELLS: usize = 4;
const DIGITS: usize = 8;
const CELL_START: &[u8] = b"<td>";
const CELL_END: &[u8] = b"</td>";
const ROW_START: &[u8] = b"<tr>";
const ROW_END: &[u8] = b"</tr>\n";
const ROW_BYTES: usize =
    ROW_START.len() + CELLS * (CELL_START.len() + DIGITS + CELL_END.len()) + ROW_END.len();

/// A document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Document {
    /// That many bytes, the same each time.
    Bytes(u64),
    /// A table with that many rows of integers, rendered at each request.
    Page(u64),
    /// A line that says what went wrong.
    Error(&'static str),
}

impl Document {
    /// The document at a path; `None` where there is none.
    pub(super) fn at(path: &[u8]) -> Option<Self> {
        let number = |digits: &[u8], max| -> Option<u64> {
            let text = std::str::from_utf8(digits).ok()?;
            let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            text.parse().ok().filter(|n| plain && *n <= max)
        };
        if let Some(digits) = path.strip_prefix(b"/bytes/") {
            return number(digits, BYTES_MAX).map(Self::Bytes);
        }
        number(path.strip_prefix(b"/page/")?, ROWS_MAX).map(Self::Page)
    }

    pub(super) fn length(self) -> u64 {
        match self {
            Self::Bytes(length) => length,
            Self::Page(rows) => (PAGE_START.len() + PAGE_END.len()) as u64 + rows * ROW_BYTES as u64,
            Self::Error(line) => line.len() as u64,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Bytes(_) => "application/octet-stream",
            Self::Page(_) => "text/html",
            Self::Error(_) => "text/plain",
        }
    }

    /// Appends the part from `offset` on, at most about `room` bytes; returns its length, which
    /// is 0 only at the end.
    pub(super) fn append(self, offset: u64, room: usize, out: &mut Vec<u8>) -> usize {
        let left = usize::try_from(self.length().saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = left.min(room);
        let start = out.len();
        match self {
            Self::Bytes(_) => out.resize(start + length, b'x'),
            Self::Error(line) => out.extend_from_slice(&line.as_bytes()[line.len() - left..][..length]),
            Self::Page(rows) => append_page(rows, offset, start + length, out),
        }
        out.len() - start
    }
}

/// Appends the page from `offset` until `out` is `until` long.
fn append_page(rows: u64, offset: u64, until: usize, out: &mut Vec<u8>) {
    let mut at = offset;
    while out.len() < until {
        let body = at.saturating_sub(PAGE_START.len() as u64);
        let (row, skip) = (body / ROW_BYTES as u64, (body % ROW_BYTES as u64) as usize);
        let before = out.len();
        if at < PAGE_START.len() as u64 {
            out.extend_from_slice(&PAGE_START[at as usize..]);
        } else if row < rows {
            out.extend_from_slice(&render_row(row)[skip..]);
        } else {
            let end = (body - rows * ROW_BYTES as u64) as usize;
            out.extend_from_slice(&PAGE_END[end..]);
        }
        at += (out.len() - before) as u64;
    }
    out.truncate(until);
}

/// A row of pseudo-random integers, each of [`DIGITS`] digits.
fn render_row(row: u64) -> [u8; ROW_BYTES] {
    let mut bytes = [0; ROW_BYTES];
    let mut at = 0;
    let mut put = |text: &[u8]| {
        bytes[at..at + text.len()].copy_from_slice(text);
        at += text.len();
    };
    put(ROW_START);
    // It takes a few nanoseconds, and no two rows are alike.
    let mut random = SplitMix64::new(row);
    for _ in 0..CELLS {
        let mut value = random.bits();
        let mut digits = [b'0'; DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit += (value % 10) as u8;
            value /= 10;
        }
        put(CELL_START);
        put(&digits);
        put(CELL_END);
    }
    put(ROW_END);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(document: Document, room: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while document.append(out.len() as u64, room, &mut out) > 0 {}
        out
    }

    #[test]
    fn paths_name_documents() {
        assert_eq!(Document::at(b"/bytes/100"), Some(Document::Bytes(100)));
        assert_eq!(Document::at(b"/bytes/67108864"), Some(Document::Bytes(BYTES_MAX)));
        assert_eq!(Document::at(b"/page/20"), Some(Document::Page(20)));
        for path in [
            "/",
            "/bytes/",
            "/bytes/+1",
            "/bytes/67108865",
            "/bytes/1x",
            "/bytes/99999999999999999999",
            "/page/100001",
            "/page/-1",
            "/pages/1",
            "",
        ] {
            assert_eq!(Document::at(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn parts_make_the_whole() {
        for document in [
            Document::Bytes(0),
            Document::Bytes(1000),
            Document::Page(0),
            Document::Page(7),
            Document::Error("not found\n"),
        ] {
            let at_once = whole(document, usize::MAX);
            assert_eq!(at_once.len() as u64, document.length());
            for room in [1, 3, 70, 71, 72, 100, 1000] {
                assert_eq!(whole(document, room), at_once, "{document:?} by {room}");
            }
        }
    }

    #[test]
    fn a_page_is_a_table_of_integers() {
        let page = String::from_utf8(whole(Document::Page(3), 4096)).unwrap();
        assert_eq!(page.matches("<tr>").count(), 3);
        assert_eq!(page.matches("<td>").count(), 3 * CELLS);
        let first = page.split("<td>").nth(1).unwrap().split("</td>").next().unwrap();
        assert_eq!(first, "58607535", "the same in every version");
        assert!(page.ends_with("</html>\n"));
    }
}
