//! Streams of a client's connection, and what is told of them.

use super::{ErrorCode, STREAM_WINDOW};

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The answer is whole; its status.
    Whole(u16),
    /// The peer ended it with this error (RST_STREAM).
    Reset(ErrorCode),
    /// The peer has not looked at the request (section 8.7): it may be sent again.
    Refused,
    /// The answer can't be one (section 8.1.1).
    Malformed,
}

/// What is heard of a connection. Streams are told apart by their places, which are taken again once they have ended.
pub trait Events {
    /// A frame has come, or the beginning of a DATA frame.
    fn frame(&mut self, kind: u8);

    /// A field of an answer's head or of its trailers; its status isn't among them.
    fn field(&mut self, place: u32, name: &[u8], value: &[u8]);

    /// An answer's head is whole, of a header block of so many bytes; interim ones aren't told.
    fn head(&mut self, place: u32, status: u16, block: usize);

    /// Bytes of an answer's body.
    fn data(&mut self, place: u32, bytes: &[u8]);

    /// A stream has ended.
    fn ended(&mut self, place: u32, end: End);

    /// The peer takes no more streams, for this reason.
    fn goaway(&mut self, code: ErrorCode);
}

/// A stream that is open.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stream {
    /// Bytes that may be sent; below 0 where the peer has made its windows smaller meanwhile (section 6.9.2).
    pub(super) send: i64,
    /// Bytes that the peer may send.
    pub(super) window: u32,
    /// Bytes of the request's body that are still to be sent.
    pub(super) left: u64,
    /// The answer's status; 0 before its head.
    pub(super) status: u16,
    /// What its Content-Length says, and what of the body has come.
    pub(super) expected: Option<u64>,
    pub(super) came: u64,
    /// The answer has no body whatever its fields say.
    pub(super) bodiless: bool,
    /// How much had been heard of the connection when it began.
    pub(super) opened: u64,
}

impl Stream {
    pub(super) fn new(send: i64, left: u64, bodiless: bool, opened: u64) -> Self {
        Self { send, window: STREAM_WINDOW, left, bodiless, opened, ..Self::default() }
    }

    /// Whether the body is as long as the fields said (section 8.1.1).
    pub(super) fn is_whole(&self) -> bool {
        self.bodiless || self.status == 304 || self.expected.is_none_or(|expected| expected == self.came)
    }
}

/// What is gathered of a header block.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) length: Option<u64>,
    /// A field that isn't a pseudo-header field was there.
    regular: bool,
    pub(super) wrong: bool,
}

impl Head {
    /// Takes a field; whether it is one to be told. `trailers` have no status.
    pub(super) fn take(&mut self, name: &[u8], value: &[u8], known: bool, trailers: bool) -> bool {
        if name.first() == Some(&b':') {
            // Section 8.3: before all others, once; an answer has the status alone.
            self.wrong |= self.regular || trailers || self.status != 0 || name != b":status";
            self.status = status(value).unwrap_or(0);
            self.wrong |= self.status == 0;
            return false;
        }
        self.regular = true;
        self.wrong |= !known && !is_valid(name, value);
        if name == b"content-length" && !trailers {
            let length = decimal(value);
            self.wrong |= length.is_none() || self.length.is_some_and(|other| Some(other) != length);
            self.length = length;
        }
        !self.wrong
    }
}

/// Three digits, from 100.
fn status(value: &[u8]) -> Option<u16> {
    let [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] = value else { return None };
    Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
}

fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    value.iter().try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// Whether a field can be one (sections 8.2.1 and 8.2.2): no capitals, no line ends, nothing that is HTTP/1.1's alone.
fn is_valid(name: &[u8], value: &[u8]) -> bool {
    let of_1_1: [&[u8]; 5] =
        [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
    let is_name = |byte: &u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && *byte != b':';
    // Without an early end, so that it compiles to vector code.
    let clean = value.iter().fold(true, |ok, byte| ok & !matches!(byte, 0 | b'\r' | b'\n'));
    !name.is_empty() && name.iter().all(is_name) && clean && !of_1_1.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_cant_be_are_told() {
        let wrong = |fields: &[(&[u8], &[u8])], trailers| {
            let mut head = Head::default();
            for (name, value) in fields {
                head.take(name, value, false, trailers);
            }
            head.wrong
        };
        assert!(!wrong(&[(b":status", b"200"), (b"content-length", b"5"), (b"a", b"")], false));
        assert!(!wrong(&[(b"x-sum", b"5")], true));
        assert!(wrong(&[(b":status", b"200")], true));
        assert!(wrong(&[(b"a", b"b"), (b":status", b"200")], false));
        assert!(wrong(&[(b":status", b"200"), (b":status", b"200")], false));
        assert!(wrong(&[(b":path", b"/")], false));
        for status in [&b"20"[..], b"2000", b"099", b"abc", b""] {
            assert!(wrong(&[(b":status", status)], false), "{status:?}");
        }
        for (name, value) in [
            (&b"Upper"[..], &b"x"[..]),
            (b"", b"x"),
            (b"a b", b"x"),
            (b"a", b"x\r\ny"),
            (b"connection", b"close"),
            (b"content-length", b"-1"),
            (b"content-length", b"99999999999999999999"),
        ] {
            assert!(wrong(&[(b":status", b"200"), (name, value)], false), "{name:?}");
        }
        assert!(wrong(&[(b":status", b"200"), (b"content-length", b"1"), (b"content-length", b"2")], false));
    }
}
