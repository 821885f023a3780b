//! Encoding and decoding of netlink messages: a header, a fixed part, then attributes.

/// Length of `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;
/// Attribute flag: it contains attributes.
const NESTED: u16 = 1 << 15;

pub(super) const NLM_F_REQUEST: u16 = 1;
pub(super) const NLM_F_ACK: u16 = 4;
pub(super) const NLM_F_DUMP: u16 = 0x300;
pub(super) const NLM_F_EXCL: u16 = 0x200;
pub(super) const NLM_F_CREATE: u16 = 0x400;

/// One request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Request {
    pub(super) bytes: Vec<u8>,
    /// What it does, as a verb for error messages.
    pub(super) operation: &'static str,
    /// What it does that to.
    pub(super) object: String,
    /// The kernel feature that is missing where the kernel answers that it knows no such thing.
    pub(super) feature: Option<&'static str>,
}

const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

impl Request {
    /// A request of this type with these flags besides NLM_F_REQUEST, and a fixed part.
    pub(super) fn new(
        operation: &'static str,
        object: impl Into<String>,
        kind: u16,
        flags: u16,
        fixed: &[u8],
    ) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&0_u32.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(fixed);
        let mut request = Self { bytes, operation, object: object.into(), feature: None };
        request.pad();
        request
    }

    pub(super) const fn needs(mut self, feature: &'static str) -> Self {
        self.feature = Some(feature);
        self
    }

    fn pad(&mut self) {
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }

    /// Adds an attribute.
    pub(super) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    pub(super) fn u8(self, kind: u16, value: u8) -> Self {
        self.attribute(kind, &[value])
    }

    pub(super) fn u32(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    pub(super) fn u64(self, kind: u16, value: u64) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Adds a name with its terminating zero.
    pub(super) fn name(self, kind: u16, name: &str) -> Self {
        let mut value = name.as_bytes().to_vec();
        value.push(0);
        self.attribute(kind, &value)
    }

    /// Adds an attribute that starts with `fixed` and contains what `inner` adds.
    pub(super) fn nest(mut self, kind: u16, fixed: &[u8], inner: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        let flag = if fixed.is_empty() { NESTED } else { 0 };
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | flag).to_ne_bytes());
        self.bytes.extend_from_slice(fixed);
        self.pad();
        let mut done = inner(self);
        let length = u16::try_from(done.bytes.len() - start).unwrap_or(u16::MAX);
        done.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        done
    }

    /// Writes length, sequence number and the wish for an acknowledgement into the header.
    pub(super) fn seal(&mut self, sequence: u32, extra_flags: u16) {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        let flags = u16_at(&self.bytes, 6) | extra_flags;
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    }
}

/// The 16-bit number at `offset`, zero where the bytes end before.
pub(super) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    bytes.get(offset..offset + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]))
}

/// The 32-bit number at `offset`, zero where the bytes end before.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..offset + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

/// The 64-bit number at `offset`, zero where the bytes end before.
pub(super) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let part = bytes.get(offset..offset + 8).and_then(|b| <[u8; 8]>::try_from(b).ok());
    part.map_or(0, u64::from_ne_bytes)
}

/// One received message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) sequence: u32,
    pub(super) payload: &'a [u8],
}

/// The messages of one datagram; ends at the first that is cut short.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0) as usize;
        if length < HEADER || length > bytes.len() {
            return None;
        }
        let message =
            Message { kind: u16_at(bytes, 4), sequence: u32_at(bytes, 8), payload: &bytes[HEADER..length] };
        bytes = &bytes[aligned(length).min(bytes.len())..];
        Some(message)
    })
}

/// The attributes of a message or of an attribute that contains others.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0));
        if length < 4 || length > bytes.len() {
            return None;
        }
        let kind = u16_at(bytes, 2) & 0x3fff;
        let value = &bytes[4..length];
        bytes = &bytes[aligned(length).min(bytes.len())..];
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nested() {
        let mut request = Request::new("test", "it", 16, 0, &[7; 5])
            .name(3, "br0")
            .nest(18, &[], |r| r.u32(1, 0x0102_0304).u8(2, 9));
        request.seal(5, NLM_F_ACK);
        let message = messages(&request.bytes).next().unwrap();
        assert_eq!((message.kind, message.sequence), (16, 5));
        let parts: Vec<_> = attributes(&message.payload[8..]).collect();
        assert_eq!(parts[0], (3, &b"br0\0"[..]));
        assert_eq!(parts[1].0, 18);
        let inner: Vec<_> = attributes(parts[1].1).collect();
        assert_eq!(inner, [(1, &0x0102_0304_u32.to_ne_bytes()[..]), (2, &[9][..])]);
    }

    #[test]
    fn damaged_answers_end_the_list() {
        assert_eq!(messages(&[1, 0, 0, 0]).count(), 0);
        assert_eq!(messages(&[0xff; 64]).count(), 0);
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(attributes(&[200, 0, 1, 0, 0]).count(), 0);
    }
}
