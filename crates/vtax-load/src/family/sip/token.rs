//! What tells a message which attempt it belongs to: a token in branch, tags and Call-ID.
//!
//! A response is found by the branch of its topmost Via, a request by the tag of To, by Call-ID, or,
//! where something between has changed all of them, by the callee it is for.

/// Length of a token in bytes.
pub(crate) const TOKEN_BYTES: usize = 24;

/// An attempt, as a token names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    /// Number of the attempt's slot.
    pub(crate) slot: u32,
    /// Which of the slot's attempts it is.
    pub(crate) generation: u32,
}

/// What begins every token of one worker of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin([u8; 8]);

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl Origin {
    /// Of a worker in a session; `session` is best random.
    pub(crate) fn new(session: u32, worker: usize) -> Self {
        let mut digits = [0; 8];
        hex(session.rotate_left(8) ^ worker as u32, &mut digits);
        Self(digits)
    }

    /// The text that begins every token.
    pub(crate) fn text(&self) -> &[u8; 8] {
        &self.0
    }

    /// The text of a token.
    pub(crate) fn token(&self, token: Token) -> [u8; TOKEN_BYTES] {
        let mut text = [0; TOKEN_BYTES];
        text[..8].copy_from_slice(&self.0);
        hex(token.generation, &mut text[8..16]);
        hex(token.slot, &mut text[16..24]);
        text
    }

    /// The token that `text` begins with, and what follows it.
    pub(crate) fn read<'a>(&self, text: &'a [u8]) -> Option<(Token, &'a [u8])> {
        let (token, rest) = text.split_first_chunk::<TOKEN_BYTES>()?;
        let token = token.strip_prefix(&self.0)?;
        Some((Token { generation: number(&token[..8])?, slot: number(&token[8..])? }, rest))
    }
}

fn hex(value: u32, to: &mut [u8]) {
    for (i, digit) in to.iter_mut().enumerate() {
        *digit = DIGITS[(value >> (28 - 4 * i)) as usize & 15];
    }
}

/// Eight digits; those of A to F may have been made upper case.
pub(crate) fn number(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0_u32, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(value << 4 | u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tokens_are_read_back(session: u32, worker in 0_usize..64, slot: u32, generation: u32) {
            let origin = Origin::new(session, worker);
            let token = Token { slot, generation };
            let mut text = origin.token(token).to_vec();
            text.extend_from_slice(b"-7");
            prop_assert_eq!(origin.read(&text), Some((token, &b"-7"[..])));
            prop_assert_eq!(Origin::new(session, worker + 1).read(&text), None);
        }

        #[test]
        fn anything_else_is_no_token(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(Origin::new(1, 0).read(&text), None);
        }
    }
}
