//! What a server sends once a connection is open: events, errors and replies.

/// Longest reply that is taken, in bytes: a picture of a whole desktop of 8192 by 8192 pixels is the longest that may be asked for.
pub const MOST_REPLY: usize = 32 + 8192 * 8192 * 4;
const EVENT_BYTES: usize = 32;

/// Which event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A key was pressed; its code is in `detail`.
    KeyPress,
    /// A button was pressed; its number is in `detail`.
    ButtonPress,
    /// A button was released.
    ButtonRelease,
    /// The pointer moved.
    Motion,
    /// A part of the window has to be drawn again.
    Expose,
    /// Keys mean something else now.
    Mapping,
    /// Anything else.
    Other(u8),
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Of a key or a button.
    pub detail: u8,
    /// Where the pointer was, within the window.
    pub x: i16,
    /// See `x`.
    pub y: i16,
    /// Which buttons and modifiers were down before it: bit 8 is the first button.
    pub state: u16,
}

/// Something that a server sent, whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// An event.
    Event(Event),
    /// The reply to a request.
    Reply(&'a [u8]),
    /// A request was refused: the error's code, and the request's major code.
    Error {
        /// 1: request, 3: window, 8: match, 9: drawable, and so on.
        code: u8,
        /// Which request.
        request: u8,
    },
}

/// The first packet in these bytes and its length; `None` where it isn't whole, or a reply is longer than [`MOST_REPLY`].
#[must_use]
pub fn scan(bytes: &[u8]) -> Option<(usize, Packet<'_>)> {
    let b = bytes.get(..EVENT_BYTES)?;
    let half = |at: usize| i16::from_le_bytes([b[at], b[at + 1]]);
    Some(match b[0] {
        0 => (EVENT_BYTES, Packet::Error { code: b[1], request: b[10] }),
        1 => {
            let length = EVENT_BYTES + u32::from_le_bytes([b[4], b[5], b[6], b[7]]) as usize * 4;
            (length, Packet::Reply(bytes.get(..length).filter(|_| length <= MOST_REPLY)?))
        }
        // The highest bit says that another program sent it.
        kind => {
            let kind = match kind & 127 {
                2 => EventKind::KeyPress,
                4 => EventKind::ButtonPress,
                5 => EventKind::ButtonRelease,
                6 => EventKind::Motion,
                12 => EventKind::Expose,
                34 => EventKind::Mapping,
                other => EventKind::Other(other),
            };
            let state = half(28).cast_unsigned();
            (EVENT_BYTES, Packet::Event(Event { kind, detail: b[1], x: half(24), y: half(26), state }))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_apart() {
        let mut key = [0; 32];
        (key[0], key[1], key[24], key[26], key[29]) = (2, 38, 7, 9, 1);
        let event = Event { kind: EventKind::KeyPress, detail: 38, x: 7, y: 9, state: 256 };
        assert_eq!(scan(&key), Some((32, Packet::Event(event))));
        assert_eq!(scan(&key[..31]), None);
        let mut reply = [0; 40];
        (reply[0], reply[4]) = (1, 2);
        assert_eq!(scan(&reply), Some((40, Packet::Reply(&reply))));
        assert_eq!(scan(&reply[..39]), None);
        reply[7] = 255;
        assert_eq!(scan(&reply), None, "longer than any that is asked for");
        let mut error = [0; 32];
        (error[1], error[10]) = (8, 42);
        assert_eq!(scan(&error), Some((32, Packet::Error { code: 8, request: 42 })));
    }
}
