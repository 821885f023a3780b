//! Output cut into lines, within bounds.

use std::collections::VecDeque;
use std::time::Instant;

/// A longer line is cut.
pub(crate) const LONGEST_LINE: usize = 4096;
/// So much of a service's output is passed on at once ...
const BURST_BYTES: f64 = 256.0 * 1024.0;
/// ... and so much per second later. A service that logs more is measuring its own log.
const BYTES_PER_SECOND: f64 = 64.0 * 1024.0;
/// How many last lines an error message shows.
const TAIL_LINES: usize = 12;

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    partial: Vec<u8>,
}

impl Splitter {
    /// Takes bytes in, hands out every line they complete, without its end.
    pub(crate) fn push(&mut self, bytes: &[u8], mut line: impl FnMut(String)) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let (content, ends) = match piece.strip_suffix(b"\n") {
                Some(content) => (content, true),
                None => (piece, false),
            };
            let room = LONGEST_LINE - self.partial.len();
            self.partial.extend_from_slice(&content[..content.len().min(room)]);
            if ends {
                line(self.take());
            }
        }
    }

    /// The last line where it has no end; `None` where nothing is left.
    pub(crate) fn finish(&mut self) -> Option<String> {
        (!self.partial.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> String {
        let mut line = String::from_utf8_lossy(&self.partial).into_owned();
        // Replacement characters are three bytes for one, so a line of garbage may have grown.
        if line.len() > LONGEST_LINE {
            line.truncate((0..=LONGEST_LINE).rev().find(|i| line.is_char_boundary(*i)).unwrap_or(0));
        }
        if line.ends_with('\r') {
            line.pop();
        }
        self.partial.clear();
        line
    }
}

/// Says which lines are passed on, so that a chatty service can't fill stream or memory.
#[derive(Debug)]
pub(crate) struct Allowance {
    bytes: f64,
    at: Instant,
    left_out: u64,
}

impl Allowance {
    pub(crate) fn new(now: Instant) -> Self {
        Self { bytes: BURST_BYTES, at: now, left_out: 0 }
    }

    /// Whether a line is passed on; where it is, how many were left out before it.
    pub(crate) fn admit(&mut self, line: &str, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.bytes = (self.bytes + passed * BYTES_PER_SECOND).min(BURST_BYTES);
        self.at = now;
        // Frames and names around a line cost too.
        let cost = line.len() as f64 + 64.0;
        if cost > self.bytes {
            self.left_out += 1;
            return None;
        }
        self.bytes -= cost;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// The last lines, for error messages.
#[derive(Debug, Default)]
pub(crate) struct Tail(VecDeque<String>);

impl Tail {
    pub(crate) fn push(&mut self, line: String) {
        if self.0.len() == TAIL_LINES {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<String> {
        let (mut splitter, mut lines) = (Splitter::default(), Vec::new());
        for chunk in chunks {
            splitter.push(chunk, |l| lines.push(l));
        }
        lines.extend(splitter.finish());
        lines
    }

    #[test]
    fn lines_come_whole() {
        assert_eq!(split(&[b"a\r\nb", b"c\n\n", b"d"]), ["a", "bc", "", "d"]);
        let long = split(&[&[b'x'; 3000], &[b'x'; 3000], b"y\nz\n"]);
        assert_eq!((long[0].len(), long[1].as_str()), (LONGEST_LINE, "z"));
        assert!(split(&[&[0xff; 5000]])[0].len() <= LONGEST_LINE);
    }

    #[test]
    fn a_chatty_service_is_cut_short() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let line = "x".repeat(1000);
        let passed = (0..10_000).filter(|_| allowance.admit(&line, start).is_some()).count();
        assert!((200..=300).contains(&passed), "{passed}");
        let left_out = allowance.admit(&line, start + Duration::from_secs(1));
        assert_eq!(left_out, Some(10_000 - passed as u64));
    }

    proptest! {
        #[test]
        fn cutting_places_dont_matter(text in "[a-c\n]{0,60}", cut in 0usize..60) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(split(&[&bytes[..cut], &bytes[cut..]]), split(&[bytes]));
        }
    }
}
