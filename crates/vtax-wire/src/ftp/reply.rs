//! Replies, as a client receives them.

use super::{FtpError, LINE_BYTES_MAX, REPLY_BYTES_MAX};

/// Bytes that are kept of a reply's last line, after its code. Addresses and sizes are far shorter.
pub const TEXT_BYTES_MAX: usize = 80;

/// A reply that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Its code, from 100 to 599.
    pub code: u16,
}

impl Reply {
    /// The first digit of the code (RFC 959 section 4.2): 1 preliminary, 2 completed, 3 to be continued, 4 and 5 refused.
    #[must_use]
    pub const fn class(self) -> u16 {
        self.code / 100
    }
}

/// What one call of [`ReplyScanner::scan`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyScanned {
    /// Bytes of the input that it took.
    pub consumed: usize,
    /// The reply that ended with them; `None`: it is to be continued, and the input is used up.
    pub reply: Option<Reply>,
}

/// Scans the replies on one control connection, one after another.
///
/// A reply is one line `150 text`, or several from `150-text` to the first that begins with the same code and isn't continued (RFC 959
/// section 4.2). Lines end with CR LF; a bare LF is taken for one, as some servers send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyScanner {
    /// The code of the reply that has begun with more than one line; 0: none.
    code: u16,
    /// Bytes of the present line, and of the reply.
    line: u32,
    bytes: u32,
    /// The present line's first four bytes.
    head: [u8; 4],
    text: [u8; TEXT_BYTES_MAX],
    kept: u8,
}

impl Default for ReplyScanner {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplyScanner {
    /// A scanner at the start of a connection.
    #[must_use]
    pub const fn new() -> Self {
        Self { code: 0, line: 0, bytes: 0, head: [0; 4], text: [0; TEXT_BYTES_MAX], kept: 0 }
    }

    /// True where no byte of a reply was seen since the last one ended.
    #[must_use]
    pub const fn is_between(&self) -> bool {
        self.bytes == 0
    }

    /// The text of the last line of the reply that ended last, after its code, cut at [`TEXT_BYTES_MAX`].
    #[must_use]
    pub fn text(&self) -> &[u8] {
        let text = &self.text[..usize::from(self.kept)];
        text.strip_suffix(b"\r").unwrap_or(text)
    }

    /// Scans what arrived, up to the end of a reply or of the input.
    ///
    /// # Errors
    /// The bytes are no reply; the connection can't be used any more.
    pub fn scan(&mut self, input: &[u8]) -> Result<ReplyScanned, FtpError> {
        for (at, byte) in input.iter().enumerate() {
            if let Some(reply) = self.byte(*byte)? {
                (self.code, self.line, self.bytes) = (0, 0, 0);
                return Ok(ReplyScanned { consumed: at + 1, reply: Some(reply) });
            }
        }
        Ok(ReplyScanned { consumed: input.len(), reply: None })
    }

    fn byte(&mut self, byte: u8) -> Result<Option<Reply>, FtpError> {
        self.bytes += 1;
        if self.bytes > REPLY_BYTES_MAX {
            return Err(FtpError::LongReply);
        }
        if byte == b'\n' {
            return self.line_ended();
        }
        let at = self.line as usize;
        self.line += 1;
        if self.line > LINE_BYTES_MAX + 1 {
            return Err(FtpError::LongLine);
        }
        match self.head.get_mut(at) {
            Some(place) => *place = byte,
            None => {
                if let Some(place) = self.text.get_mut(at - self.head.len()) {
                    *place = byte;
                    self.kept = (at - self.head.len() + 1) as u8;
                }
            }
        }
        // What can't become a reply is refused at once: a peer of another protocol may never send a line's end.
        if self.code == 0 && at < 3 {
            self.check_digit(at, byte)?;
        }
        if at == 3 {
            self.kept = 0;
        }
        Ok(None)
    }

    fn check_digit(&self, at: usize, byte: u8) -> Result<(), FtpError> {
        match (at, byte) {
            (0, b'6') => Err(FtpError::Protected),
            (0, b'1'..=b'5') | (1 | 2, b'0'..=b'9') => Ok(()),
            _ => Err(FtpError::Code),
        }
    }

    /// A line has ended: the reply with it, or not.
    fn line_ended(&mut self) -> Result<Option<Reply>, FtpError> {
        let length = self.line as usize;
        self.line = 0;
        let code = self.head_code().filter(|_| length >= 3);
        if length <= 4 {
            self.kept = 0;
        }
        // A line of a code alone ends a reply, too: some servers leave out the space that RFC 959 wants.
        let continued = length > 3 && !matches!(self.head[3], b' ' | b'\r');
        match (self.code, code) {
            (0, None) => Err(FtpError::Code),
            (0, Some(code)) if !continued => Ok(Some(Reply { code })),
            (0, Some(code)) if self.head[3] == b'-' => {
                self.code = code;
                Ok(None)
            }
            (0, Some(_)) => Err(FtpError::Code),
            (own, Some(code)) if own == code && !continued => Ok(Some(Reply { code })),
            _ => Ok(None),
        }
    }

    /// The code that the present line begins with.
    fn head_code(&self) -> Option<u16> {
        let digit = |byte: u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
        let [a, b, c, _] = self.head;
        let code = 100 * digit(a)? + 10 * digit(b)? + digit(c)?;
        (100..600).contains(&code).then_some(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> (Vec<(u16, String)>, Option<FtpError>) {
        let (mut scanner, mut found, mut rest) = (ReplyScanner::new(), Vec::new(), input);
        while !rest.is_empty() {
            match scanner.scan(rest) {
                Ok(ReplyScanned { consumed, reply }) => {
                    let text = || String::from_utf8_lossy(scanner.text()).into_owned();
                    found.extend(reply.map(|reply| (reply.code, text())));
                    rest = &rest[consumed..];
                }
                Err(error) => return (found, Some(error)),
            }
        }
        (found, None)
    }

    #[test]
    fn a_reply_ends_with_its_own_code_and_a_space() {
        // RFC 959 section 4.2 has the first example.
        let text =
            b"123-First line\r\nSecond line\r\n  234 A line beginning with numbers\r\n123 The last line\r\n\
                     220 hello\r\n230-a\r\n230-b\r\n220 not yet\r\n\r\n230\r\n226\n";
        let expected = [(123, "The last line"), (220, "hello"), (230, ""), (226, "")];
        let expected: Vec<_> = expected.map(|(code, text)| (code, text.to_owned())).into();
        assert_eq!(all(text), (expected, None));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        assert_eq!(all(b"SSH-2.0").1, Some(FtpError::Code));
        assert_eq!(all(b"12a").1, Some(FtpError::Code));
        assert_eq!(all(b"\r\n").1, Some(FtpError::Code));
        assert_eq!(all(b"22\n").1, Some(FtpError::Code));
        assert_eq!(all(b"220:x\r\n").1, Some(FtpError::Code));
        assert_eq!(all(b"631 xyz\r\n").1, Some(FtpError::Protected));
        let long = [b"220 ".as_slice(), &[b'x'; 5000]].concat();
        assert_eq!(all(&long).1, Some(FtpError::LongLine));
        let endless = b"220-x\r\n".repeat(10_000);
        assert_eq!(all(&endless).1, Some(FtpError::LongReply));
    }

    #[test]
    fn long_texts_are_cut() {
        let text = "y".repeat(300);
        let (found, error) = all(format!("213 {text}\r\n").as_bytes());
        assert_eq!((found, error), (vec![(213, text[..TEXT_BYTES_MAX].to_owned())], None));
    }
}
