//! Parameters behind a value: `;name=value;name`.

use super::SipError;
use super::scan::{split_quoted, split_token, trim, trim_start};

/// One parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param<'a> {
    /// Its name, compared in any case.
    pub name: &'a [u8],
    /// Its value without the quotes, where it has one.
    pub value: Option<&'a [u8]>,
}

/// The parameters of a header's value, one after another; ends after the first malformed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params<'a> {
    rest: &'a [u8],
}

impl<'a> Params<'a> {
    /// From what follows the value, its semicolon included.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: trim(text) }
    }

    /// The first parameter of that name: `None` where there is none, `Some(None)` where it has no
    /// value.
    #[must_use]
    pub fn get(self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        self.flatten().find(|p| p.name.eq_ignore_ascii_case(name)).map(|p| p.value)
    }

    /// As `next`, with the parameter as it is written, from its semicolon on.
    pub(super) fn next_raw(&mut self) -> Option<(&'a [u8], Param<'a>)> {
        let before = self.rest;
        let param = self.next()?.ok()?;
        Some((trim(&before[..before.len() - self.rest.len()]), param))
    }

    fn step(&mut self) -> Result<Param<'a>, SipError> {
        let [b';', rest @ ..] = self.rest else { return Err(SipError::Param) };
        let (name, rest) = split_token(trim_start(rest));
        if name.is_empty() {
            return Err(SipError::Param);
        }
        let rest = trim_start(rest);
        let [b'=', after @ ..] = rest else {
            self.rest = rest;
            return Ok(Param { name, value: None });
        };
        let after = trim_start(after);
        let (value, rest) = if after.first() == Some(&b'"') {
            split_quoted(after).ok_or(SipError::Param)?
        } else {
            let end = after.iter().position(|b| !is_value(*b)).unwrap_or(after.len());
            if end == 0 {
                return Err(SipError::Param);
            }
            after.split_at(end)
        };
        self.rest = trim_start(rest);
        Ok(Param { name, value: Some(value) })
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = Result<Param<'a>, SipError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.rest = &[];
        }
        Some(step)
    }
}

/// A character of an unquoted value: a token's, a host's, or one that is seen in the wild and
/// separates nothing.
const fn is_value(byte: u8) -> bool {
    !matches!(byte, 0..=b' ' | b';' | b',' | b'"' | b'=' | b'<' | b'>' | 0x7f)
}
