//! The texts a plan comes from, and places in them.

use std::ops::Range;

/// Which text a [`Span`] lies in: 0 is the plan file, the others are `--set` overrides in order.
pub(crate) type SourceId = u16;

/// A stretch of a source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    /// The text.
    pub(crate) source: SourceId,
    /// First byte.
    pub(crate) start: u32,
    /// One past the last byte.
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(source: SourceId, bytes: Range<usize>) -> Self {
        let offset = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { source, start: offset(bytes.start), end: offset(bytes.end) }
    }

    /// The empty span at its start.
    pub(crate) fn at_start(self) -> Self {
        Self { end: self.start, ..self }
    }
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// One source text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// What error messages call it: the file as the user named it, or `--set`.
    pub(crate) name: String,
    /// The whole text.
    pub(crate) text: String,
}

/// A place in a source, counted as people and editors do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
}

impl Source {
    /// The largest character boundary at or before `byte`.
    fn floor(&self, byte: usize) -> usize {
        let mut byte = byte.min(self.text.len());
        while !self.text.is_char_boundary(byte) {
            byte -= 1;
        }
        byte
    }

    /// Line and column of a byte offset.
    pub(crate) fn position(&self, byte: u32) -> Position {
        let before = &self.text[..self.floor(byte as usize)];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        Position {
            line: before.bytes().filter(|b| *b == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// The line that holds a byte offset, without its end.
    pub(crate) fn line_at(&self, byte: u32) -> &str {
        let at = self.floor(byte as usize);
        let start = self.text[..at].rfind('\n').map_or(0, |i| i + 1);
        let end = self.text[at..].find('\n').map_or(self.text.len(), |i| at + i);
        self.text[start..end].trim_end_matches('\r')
    }
}
